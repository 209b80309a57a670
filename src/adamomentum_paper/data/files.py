"""Where data is, and whether it is what it should be."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from adamomentum_lab.errors import LabError


def root() -> Path:
    """$ADAMOMENTUM_DATA, or the user's cache folder."""
    if given := os.environ.get("ADAMOMENTUM_DATA"):
        return Path(given).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "adamomentum"


def digest_of(file: Path, like: str) -> str:
    """The md5 or sha256 of a file, whichever is as long as another."""
    digest = hashlib.new(hash_like(like))
    with file.open("rb") as content:
        while block := content.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def hash_like(digest: str) -> str:
    """What made a digest: publishers state either. Against damage, not against malice."""
    return {32: "md5", 64: "sha256"}[len(digest)]


@contextlib.contextmanager
def translate_errors(source: str) -> Iterator[None]:
    """A folder or file that is not there, or cannot be read, in one sentence."""
    try:
        yield
    except FileNotFoundError as error:
        raise LabError(f"{error.filename} is missing: {source}") from error
    except OSError as error:
        raise LabError(f"{error.filename} cannot be read ({error.strerror}).") from error


def checked(file: Path, digest: str, source: str) -> bytes:
    """The content of a file, which must have this digest.

    Args:
        file: where it should be.
        digest: its md5 or sha256, as its publisher states it.
        source: what to say about where to get it.
    """
    with translate_errors(source):
        content = file.read_bytes()
    found = hashlib.new(hash_like(digest), content).hexdigest()
    if found != digest:
        raise LabError(
            f"{file} is damaged: its {hash_like(digest)} is {found}, not {digest} "
            f"({len(content):,} bytes). {source}"
        )
    return content
