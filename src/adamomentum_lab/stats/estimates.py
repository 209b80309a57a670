"""Means with their uncertainty. Scores come by seed, and None or NaN where a run was lost."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from adamomentum_lab.stats.distributions import t_quantile

Scores = Sequence[float | None]


@dataclass(frozen=True)
class Estimate:
    """A mean with half the width of its 95 % t-interval; None where there is no such."""

    mean: float | None
    half: float | None
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """From independent values."""
        n = len(values)
        if not all(map(math.isfinite, values)):
            return cls(math.nan, None, n)
        if n < 2:
            return cls(values[0] if values else None, None, n)
        unit = unit_of(values)
        values = [value / unit for value in values]
        mean = statistics.fmean(values)
        # statistics.stdev computes with fractions: ten times as long, for the last digit.
        variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
        half = t_quantile(n - 1) * math.sqrt(variance / n)
        return cls(unit * mean, unit * half, n)


def finite(scores: Scores) -> list[float | None]:
    """The scores, with None in place of those that are no numbers."""
    return [s if s is not None and math.isfinite(s) else None for s in scores]


def unit_of(values: Iterable[float]) -> float:
    """A power of two as large as the largest of these: in it, squares and sums are never too large
    or too small to be written."""
    largest = max(map(abs, values), default=0.0)
    # One less than its exponent, which may be too large to be written, and not below the smallest.
    return math.ldexp(1.0, max(-1073, math.frexp(largest)[1] - 1)) if largest else 1.0
