"""Where data is, and whether it is what it should be."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from adamomentum_lab.errors import LabError


def root() -> Path:
    """$ADAMOMENTUM_DATA, or the user's cache folder."""
    if given := os.environ.get("ADAMOMENTUM_DATA"):
        return Path(given)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "adamomentum"


def checked(file: Path, md5: str, source: str) -> bytes:
    """The content of a file, which must have this digest.

    Args:
        file: where it should be.
        md5: as its publisher states it; against damage, not against malice.
        source: what to say about where to get it.
    """
    try:
        content = file.read_bytes()
    except FileNotFoundError as error:
        raise LabError(f"{file} is missing: {source}") from error
    except OSError as error:
        raise LabError(f"{file} cannot be read ({error.strerror}).") from error
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != md5:
        raise LabError(
            f"{file} is damaged: its md5 is {found}, not {md5} ({len(content):,} bytes). {source}"
        )
    return content
