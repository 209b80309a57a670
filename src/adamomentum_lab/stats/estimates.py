"""Means with their uncertainty. Scores come by seed, and None or NaN where a run was lost."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Scores = Sequence[float | None]
# 97.5 % quantiles of Student's t with 1 to 30 degrees of freedom, as scipy.special.stdtrit gives
# them. A page of results needs nothing else of scipy, whose import takes longer than the page.
_T = (
    12.706204736174694, 4.302652729749462, 3.1824463052837078, 2.7764451051977934,
    2.5705818356363146, 2.4469118511449786, 2.364624251592784, 2.306004135204166,
    2.262157162798205, 2.228138851986274, 2.200985160091639, 2.1788128296672284,
    2.1603686564627913, 2.144786687917804, 2.131449545559776, 2.1199052992212546,
    2.1098155778333156, 2.1009220402410382, 2.0930240544083087, 2.085963447265864,
    2.0796138447276795, 2.0738730679040254, 2.0686576104190486, 2.0638985616280245,
    2.0595385527532972, 2.0555294386428735, 2.0518305164802846, 2.0484071417952454,
    2.045229642132703, 2.0422724563012378,
)  # fmt: skip


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


def t_quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's t: half of a 95 % interval, in standard errors."""
    if freedom <= len(_T):
        return _T[freedom - 1]
    from scipy import special

    return float(special.stdtrit(freedom, 0.975))


def finite(scores: Scores) -> list[float | None]:
    """The scores, with None in place of those that are no numbers."""
    return [s if s is not None and math.isfinite(s) else None for s in scores]


def unit_of(values: Iterable[float]) -> float:
    """A power of two as large as the largest of these: in it, squares and sums are never too large
    or too small to be written."""
    largest = max(map(abs, values), default=0.0)
    # One less than its exponent, which may be too large to be written, and not below the smallest.
    return math.ldexp(1.0, max(-1073, math.frexp(largest)[1] - 1)) if largest else 1.0
