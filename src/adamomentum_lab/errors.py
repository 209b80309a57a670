"""Faults that are the user's to mend: one sentence each, shown without a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


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
