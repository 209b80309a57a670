"""The data folder, and digests of its files."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path

from adamomentum_lab.errors import LabError
from adamomentum_lab.files import data_folder


def root() -> Path:
    """Return the data folder: $ADAMOMENTUM_DATA, or one in the user's cache."""
    return data_folder()


def digest_of(file: Path, like: str) -> str:
    """Return the md5 or sha256 of a file, whichever has the length of the digest `like`."""
    digest = hashlib.new(hash_like(like))
    with file.open("rb") as content:
        while block := content.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def hash_like(digest: str) -> str:
    """Return the hash function of a digest by its length. It detects damage, not attacks."""
    return {32: "md5", 64: "sha256"}[len(digest)]


@contextlib.contextmanager
def translate_errors(source: str) -> Iterator[None]:
    """Raise errors of a missing or unreadable file as a LabError."""
    try:
        yield
    except FileNotFoundError as error:
        raise LabError(f"{error.filename} is missing: {source}") from error
    except OSError as error:
        raise LabError(f"{error.filename} cannot be read ({error.strerror}).") from error


def read_checked(file: Path, digest: str, source: str) -> bytes:
    """Read a file. A LabError if its digest is wrong.

    Args:
        file: the file.
        digest: its published md5 or sha256.
        source: sentence that says where to get the file.
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
