"""Atomic writes, file locks and JSON. All other modules write files through this one."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import math
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from adamomentum_lab.errors import LabError, fault_of, printable


class BusyError(LabError):
    """Another process holds the lock."""


def dumps(value: Any, indent: int | None = None) -> str:
    """Return a value as standard JSON. Numbers that are not finite become null."""
    try:
        return json.dumps(value, indent=indent, allow_nan=False)
    except ValueError:  # rare, and replacing values beforehand would double the time
        return json.dumps(_clean(value), indent=indent, allow_nan=False)


def _clean(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def data_folder() -> Path:
    """Where data sets are: $ADAMOMENTUM_DATA, or the user's cache folder."""
    if given := os.environ.get("ADAMOMENTUM_DATA"):
        return Path(given).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "adamomentum"


def make_folder(folder: Path) -> None:
    """Make a folder and its parents. A LabError if it cannot be written to."""
    with translate_errors(folder, "cannot write to"):
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def write(file: Path, content: str | bytes) -> None:
    """Write a file, and make its folder. After a crash the file has its old content or the new."""
    make_folder(file.parent)
    with translate_errors(file, "cannot write"), writing(file) as out:
        out.write(printable(content).encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def writing(file: Path, previous: Path | None = None) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces `file` once all of it is on the disk.

    Args:
        file: the file to write, which must be a regular file if it exists.
        previous: a name under which to keep the old file.
    """
    if file.exists() and not file.is_file():
        raise OSError(errno.EINVAL, "it is not a regular file")
    beside = file.with_name(f".{file.name}.{_random_part()}")
    made = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with open(made, "wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        if previous is not None and file.exists():
            file.replace(previous)
        beside.replace(file)
    finally:
        beside.unlink(missing_ok=True)


def _random_part() -> str:
    return secrets.token_hex(4)


@contextlib.contextmanager
def translate_errors(file: Path, what: str, more: str = "") -> Iterator[None]:
    """Raise errors of the file system as a LabError, such as `cannot write FILE (...).`"""
    try:
        yield
    except OSError as error:
        raise fault_of(error)(f"{what} {file} ({error.strerror or error}){more or '.'}") from error


@contextlib.contextmanager
def locked(file: Path, busy: str | None = None) -> Iterator[None]:
    """Hold a lock. The system releases it when the process ends, even if it is killed.

    Args:
        file: the lock file. It is made if it is missing.
        busy: message of the BusyError if another process holds the lock. None waits for it.
    """
    with translate_errors(file.parent, "cannot write to"):
        file.parent.stat()
    with translate_errors(file, "cannot open"):
        if file.is_symlink():
            raise OSError(errno.ELOOP, "it is a symbolic link")
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        lock = os.open(file, flags, 0o666)
    try:
        with translate_errors(file, "cannot lock"):  # some network disks have no locks
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
            except BlockingIOError as error:
                raise BusyError(busy) from error
        yield
    finally:
        os.close(lock)
