"""Errors that the user can fix. The command line shows their message without a traceback."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable
from pathlib import Path


class LabError(Exception):
    """An error that the user can fix. Its message says what is wrong, and what would be right."""


class StoppedError(LabError):
    """Raised after Ctrl-C or SIGTERM. Finished work is kept."""


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Return the message for an unknown name, with the most similar known name."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"there is no {kind} {name!r}{hint}; there are {', '.join(known)}."


def locate(error: BaseException, file: Path) -> LabError:
    """Return an error that names its place: the last line in the user's file, if it passed any."""
    frames = traceback.extract_tb(error.__traceback__)
    line = getattr(error, "lineno", None) if isinstance(error, SyntaxError) else None
    lines = [frame.lineno for frame in frames if frame.filename == str(file)]
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else str(file)
    if line or lines:
        where = f"{file}:{line or lines[-1]}"
    return LabError(printable(f"{where}: {type(error).__name__}: {error}"))


def printable(text: str) -> str:
    """Return the text with what no encoding has, such as half of a surrogate pair, escaped."""
    return text.encode("utf-8", "backslashreplace").decode()
