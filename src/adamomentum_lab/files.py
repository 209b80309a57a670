"""Files that are whole or absent: the one atomic write, the one lock, the one form of JSON."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from adamomentum_lab.errors import LabError


class BusyError(LabError):
    """Another process holds the lock."""


def dumps(value: Any, indent: int | None = None) -> str:
    """Standard JSON: numbers that are not finite become null."""
    try:
        return json.dumps(value, indent=indent, allow_nan=False)
    except ValueError:  # cleaning first would take half of the time
        return json.dumps(_clean(value), indent=indent, allow_nan=False)


def _clean(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def make_folder(folder: Path) -> None:
    """Make a folder, or say why that is impossible."""
    with translate_errors(folder, "cannot write to"):
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def write(file: Path, content: str | bytes) -> None:
    """Write a file, and make its folder. After a crash the file is new or as it was before."""
    make_folder(file.parent)
    with translate_errors(file, "cannot write"), writing(file) as out:
        out.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def writing(file: Path, previous: Path | None = None) -> Iterator[IO[bytes]]:
    """A file to write to that takes its name only once all of it is on the disk.

    With `previous`, what had the name before is kept under that one.
    """
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with beside.open("wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        if previous is not None and file.exists():
            file.replace(previous)
        beside.replace(file)
    finally:
        beside.unlink(missing_ok=True)


@contextlib.contextmanager
def translate_errors(file: Path, what: str, more: str = "") -> Iterator[None]:
    """Raise errors of the file system as one sentence, such as `cannot write FILE (...)`."""
    try:
        yield
    except OSError as error:
        raise LabError(f"{what} {file} ({error.strerror or error}){more or '.'}") from error


@contextlib.contextmanager
def locked(file: Path, busy: str | None = None) -> Iterator[None]:
    """Hold a lock, which ends with the process however that ends.

    Args:
        file: what is locked. It is made where it is missing.
        busy: raise BusyError with this sentence if another process holds the lock. None waits.
    """
    with translate_errors(file.parent, "cannot write to"):
        lock = file.open("w")
    with lock:
        with translate_errors(file, "cannot lock"):  # as on network disks without locks
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
            except BlockingIOError as error:
                raise BusyError(busy) from error
        yield
