"""Faults that are the user's to mend: one sentence each, shown without a traceback."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable
from pathlib import Path


class LabError(Exception):
    """What was wrong, and what would be right."""


class StoppedError(LabError):
    """Ctrl-C or SIGTERM. What was done is kept."""


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The sentence for a name that is not there, with the nearest that is."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"there is no {kind} {name!r}{hint}; there are {', '.join(known)}."


def locate(error: BaseException, file: Path) -> LabError:
    """An error with the last line of a user's file that it passed, or else where it arose."""
    frames = traceback.extract_tb(error.__traceback__)
    line = getattr(error, "lineno", None) if isinstance(error, SyntaxError) else None
    lines = [frame.lineno for frame in frames if frame.filename == str(file)]
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else str(file)
    if line or lines:
        where = f"{file}:{line or lines[-1]}"
    return LabError(f"{where}: {type(error).__name__}: {error}")
