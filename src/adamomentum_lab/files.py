"""Atomic writes, file locks and JSON. All other modules write files through this one."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import math
import os
import platform
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from adamomentum_lab.errors import LabError, fault_of


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


def read(file: Path) -> bytes:
    """The content of a regular file, which is no link."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(file, flags), "rb") as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        return opened.read()


def write(file: Path, content: str | bytes) -> None:
    """Write a file, and make its folder. After a crash the file has its old content or the new."""
    make_folder(file.parent)
    with translate_errors(file, "cannot write"), writing(file) as out:
        out.write(
            content if isinstance(content, bytes) else content.encode(errors="backslashreplace")
        )


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


class Waits:
    """Tells what is waited for: once it takes longer than `AFTER` seconds, then every minute."""

    AFTER, AGAIN = 3.0, 60.0

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._next: dict[str, float] = {}

    def tell(self, what: str, line: str) -> None:
        """Still waiting for something; the line says for what."""
        now = time.monotonic()
        if now >= self._next.setdefault(what, now + self.AFTER):
            self._say(line)
            self._next[what] = now + self.AGAIN


def _note_holder(file: Path) -> None:
    """Note beside a lock that this process holds it."""
    now = {"process": os.getpid(), "host": platform.node(), "since": time.time()}
    with contextlib.suppress(OSError, LabError):
        write(_holder_file(file), dumps(now))


def _holder_file(lock: Path) -> Path:
    return lock.with_name(f"{lock.name}.by")


def _holder(lock: Path) -> str:
    """Who holds a lock, since when and what can be done, as far as that is known."""
    try:
        noted = json.loads(_holder_file(lock).read_text(encoding="utf-8"))
        process, host = int(noted["process"]), str(noted["host"])
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(noted["since"])))
    except (OSError, ValueError, TypeError, KeyError, OverflowError):
        return ""
    here = host == platform.node()
    where = "" if here else f" on {host}"
    found = f" It is process {process}{where}, since {since}."
    if here and not os.path.exists(f"/proc/{process}") and os.path.exists("/proc/self"):
        return f"{found} That has ended, but a process that it started holds the lock."
    return f"{found} `kill {process}`{where} ends it."


_held: set[int] = set()


def _forget_locks() -> None:
    """In a process that was forked: it would hold its parent's locks as long as it lives."""
    for lock in _held:
        with contextlib.suppress(OSError):
            os.close(lock)
    _held.clear()


os.register_at_fork(after_in_child=_forget_locks)


@contextlib.contextmanager
def locked(file: Path, busy: str | None = None) -> Iterator[None]:
    """Hold a lock. The system releases it when the process ends, even if it is killed.

    Args:
        file: the lock file. It is made if it is missing.
        busy: message of the BusyError if another process holds the lock; who holds it is added.
            None waits, and says for whom.
    """
    with translate_errors(file.parent, "cannot write to"):
        file.parent.stat()
    with translate_errors(file, "cannot open"):
        if file.is_symlink():
            raise OSError(errno.ELOOP, "it is a symbolic link")
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        lock, process = os.open(file, flags, 0o666), os.getpid()
    waits = Waits(lambda line: print(line, file=sys.stderr))  # noqa: T201
    try:
        while True:
            with translate_errors(file, "cannot lock"):  # some network disks have no locks
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError as error:
                    if busy:
                        raise BusyError(f"{busy}{_holder(file)}") from error
            waits.tell("", f"Waiting for {file}, which another process holds.{_holder(file)}")
            time.sleep(0.1)
        _held.add(lock)
        _note_holder(file)
        yield
    finally:
        if os.getpid() == process:  # in a fork it is closed already
            _held.discard(lock)
            os.close(lock)


def is_locked(file: Path) -> bool:
    """Return whether a process holds the lock. One that has died holds none."""
    try:
        with locked(file, "busy") if file.exists() else contextlib.nullcontext():
            return False
    except BusyError:
        return True
