"""Errors that the user can fix. The command line shows their message without a traceback."""

from __future__ import annotations

import difflib
import errno
import functools
import os
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path


class LabError(Exception):
    """An error that the user can fix. Its message says what is wrong, and what would be right."""


class MachineError(LabError):
    """The fault of the machine, as a lack of memory: it says nothing about what was running."""


class DiskError(MachineError):
    """A full or broken disk. It ends a race, which goes on when it is started again."""


class StoppedError(LabError):
    """Raised after Ctrl-C or SIGTERM. Finished work is kept."""


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Return the message for an unknown name, with the most similar known name."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"there is no {kind} {name!r}{hint}; there are {', '.join(known)}."


def locate(error: BaseException, file: Path) -> LabError:
    """Return an error that names its place: the last line in the user's file, if it passed any,
    else the last line in any file that is not installed."""
    frames = traceback.extract_tb(error.__traceback__)
    line = getattr(error, "lineno", None) if isinstance(error, SyntaxError) else None
    lines = [frame.lineno for frame in frames if frame.filename == str(file)]
    users = [frame for frame in frames if not frame.filename.startswith(_foreign_folders())]
    last = (users or frames)[-1:]
    where = f"{last[0].filename}:{last[0].lineno}" if last else str(file)
    if line or lines:
        where = f"{file}:{line or lines[-1]}"
    kind = fault_of(error)
    return kind(printable(f"{where}: {type(error).__name__}: {error}"))


_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}
_MEMORY = {errno.ENOMEM, errno.EMFILE, errno.ENFILE}
_OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "cannot allocate memory")
"""What torch says, whose exceptions of the processor are of no type of their own."""
_DEVICE = ("CUDA error", "NCCL error", "MPS backend")


def fault_of(error: BaseException) -> type[LabError]:
    """Whose fault an exception is: the machine's, or that of the code that was running."""
    if isinstance(error, OSError) and error.errno in _DISK:
        return DiskError
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _MEMORY):
        return MachineError
    text = str(error) if isinstance(error, RuntimeError) else ""
    lost = any(words in text for words in _DEVICE) and "assert" not in text
    if lost or any(words in text.lower() for words in _OUT_OF_MEMORY):
        return MachineError
    return LabError


@functools.cache
def _foreign_folders() -> tuple[str, ...]:
    """Where files are that the user has not written: Python's, those of packages and the lab's."""
    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = [sysconfig.get_path(kind) for kind in kinds]
    folders += [os.path.realpath(folder) for folder in folders]
    return "<", os.path.dirname(__file__), *folders


_LAST_CONTROL = 0x9F


def printable(text: str) -> str:
    """Return the text with what cannot be shown escaped: halves of surrogate pairs, and control
    characters, by which a message could move the cursor or rename the window."""
    text = text.encode("utf-8", "backslashreplace").decode()
    return "".join(
        one if one.isprintable() or one in "\n\t" or ord(one) > _LAST_CONTROL else ascii(one)[1:-1]
        for one in text
    )
