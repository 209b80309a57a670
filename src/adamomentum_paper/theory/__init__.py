"""Tests of the paper's theory, one file for each claim.

Each public module here defines `CLAIM`. To add a claim, add a file.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from adamomentum_lab.catalog import modules
from adamomentum_lab.errors import LabError, unknown
from adamomentum_lab.words import count_noun

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Figure
else:
    Figure = Any  # matplotlib takes long to load, and only drawing needs it

Size = Literal["smoke", "default", "paper"]
Numbers = dict[str, Any]  # what JSON can hold
Tick = Callable[[float], None]  # how much of a computation is done, from 0 to 1
Word = Literal["holds", "holds only when", "does not hold"]


@dataclass(frozen=True)
class Finding:
    """One statement of the paper, and the result of its test."""

    statement: str
    word: Word
    found: str  # begins with the condition if the word is `holds only when`


@dataclass(frozen=True)
class Table:
    """A table of numbers for the page."""

    title: str
    columns: tuple[str, ...]
    rows: list[list[Any]]  # texts, numbers, and None where there is none


@dataclass(frozen=True)
class TheoryClaim:
    """A claim of the paper, with functions that compute, judge, tabulate and draw.

    Only `compute` is slow and random, with a fixed seed. The others depend on its numbers alone.
    """

    name: str
    title: str
    place: str
    """The place in the paper."""
    says: str
    done: str
    """What this page simulates or measures."""
    compute: Callable[[Size, Tick], Numbers]
    judge: Callable[[Numbers], list[Finding]]
    tables: Callable[[Numbers], list[Table]]
    draw: Callable[[Numbers, Figure], None]
    notes: str
    """Contradictions in the paper, and limits of the test. Blank lines separate the notes."""


def verdict(findings: list[Finding]) -> Word:
    """Return the verdict of a page: the word of all its findings, or `holds only when`."""
    words = {finding.word for finding in findings}
    return words.pop() if len(words) == 1 else "holds only when"


def summary(findings: list[Finding]) -> str:
    """Return a sentence that counts how many of the statements hold."""
    said = {"holds": "hold", "holds only when": "only under conditions", "does not hold": "do not"}
    counts = {text: sum(f.word == word for f in findings) for word, text in said.items()}
    return f"of {count_noun(len(findings), 'statement')} " + ", ".join(
        f"{n} {text}" for text, n in counts.items() if n
    )


def names() -> list[str]:
    """Return the names of all claims, in the paper's order."""
    return list(_claims())


def get(name: str) -> TheoryClaim:
    """Return the claim of this name."""
    if name not in _claims():
        raise LabError(unknown("claim", name, [*_claims(), "all"]))
    return _claims()[name]


_ORDER = (
    "curvature", "epsilon", "escape", "assumption", "regret", "nonconvex", "sphere", "noise_ratio"
)  # fmt: skip


@functools.cache
def _claims() -> dict[str, TheoryClaim]:
    found = modules(__name__)
    order = (*_ORDER, *(name for name in found if name not in _ORDER))
    claims = {name: importlib.import_module(found[name]).CLAIM for name in order}
    for name, claim in claims.items():
        if claim.name != name:
            raise LabError(f"CLAIM of {found[name]} is called {claim.name!r}, not {name!r}.")
    return claims
