"""The claims of the paper's theory, tested: one file each in this folder.

A module here whose name does not begin with `_` defines `CLAIM`; adding one is adding a file.
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
    """One statement of the paper, and what was found of it."""

    statement: str
    word: Word
    found: str  # with its numbers; after `holds only when`, the condition


@dataclass(frozen=True)
class Table:
    """Numbers for the page."""

    title: str
    columns: tuple[str, ...]
    rows: list[list[Any]]  # texts, numbers, and None where there is none


@dataclass(frozen=True)
class TheoryClaim:
    """A claim of the paper: what computes, what judges and what draws are apart.

    Only `compute` is slow and random, by its own seed; the others see nothing but its numbers.
    """

    name: str
    title: str
    place: str
    """Where in the paper."""
    says: str
    done: str
    """What was simulated or measured here."""
    compute: Callable[[Size, Tick], Numbers]
    judge: Callable[[Numbers], list[Finding]]
    tables: Callable[[Numbers], list[Table]]
    draw: Callable[[Numbers, Figure], None]
    notes: str
    """Where the paper contradicts itself, and what limits the test; a blank line between two."""


def verdict(findings: list[Finding]) -> Word:
    """Of a page: what all its findings agree on, or `holds only when`."""
    words = {finding.word for finding in findings}
    return words.pop() if len(words) == 1 else "holds only when"


def summary(findings: list[Finding]) -> str:
    """How many of the statements hold."""
    said = {"holds": "hold", "holds only when": "only under conditions", "does not hold": "do not"}
    counts = {text: sum(f.word == word for f in findings) for word, text in said.items()}
    return f"of {count_noun(len(findings), 'statement')} " + ", ".join(
        f"{n} {text}" for text, n in counts.items() if n
    )


def names() -> list[str]:
    """Every claim, in the paper's order."""
    return list(_claims())


def get(name: str) -> TheoryClaim:
    """The claim of this name."""
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
