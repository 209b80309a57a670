"""How pages word what they found."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

from adamomentum_paper.theory import Finding, Numbers, Word


def list_findings(
    judge: Callable[[Numbers], Iterator[Finding]],
) -> Callable[[Numbers], list[Finding]]:
    """Make a judge that yields its findings return them as a list."""
    return functools.wraps(judge)(lambda numbers: list(judge(numbers)))


def word_for(good: int, of: int) -> Word:
    """Always, never, or in between."""
    return "holds" if good == of else "holds only when" if good else "does not hold"
