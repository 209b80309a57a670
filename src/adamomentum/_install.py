"""The pip command that installs an extra of this package."""

from __future__ import annotations

import json
import shlex
from importlib import metadata
from pathlib import Path


def install_command(extra: str) -> str:
    """Return the pip command that adds an extra to this installation.

    The command names the clone or URL that the package was installed from. It names the package
    index only if the package came from there.
    """
    clone = Path(__file__).resolve().parents[2]
    if (clone / "pyproject.toml").is_file():
        return f"pip install -e {shlex.quote(f'{clone}[{extra}]')}"
    source = _source()
    requirement = f"adamomentum[{extra}]" + (f" @ {source}" if source else "")
    return f"pip install '{requirement}'"


def _source() -> str:
    """Return the URL that pip recorded for this installation; "" for a package index."""
    try:
        read = metadata.distribution("adamomentum").read_text
    except metadata.PackageNotFoundError:
        return ""
    if not (text := read("direct_url.json")):
        return ""
    recorded = json.loads(text)
    url = str(recorded["url"])
    if vcs := recorded.get("vcs_info"):
        return f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
    return url
