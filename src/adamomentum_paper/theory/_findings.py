"""Helpers to word findings."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

from adamomentum_paper.theory import Finding, Numbers, Word


def list_findings(
    judge: Callable[[Numbers], Iterator[Finding]],
) -> Callable[[Numbers], list[Finding]]:
    """Decorate a judge that yields findings, so that it returns a list."""
    return functools.wraps(judge)(lambda numbers: list(judge(numbers)))


def word_for(good: int, of: int) -> Word:
    """Return the verdict for `good` of `of` cases: all, none, or some."""
    return "holds" if good == of else "holds only when" if good else "does not hold"
