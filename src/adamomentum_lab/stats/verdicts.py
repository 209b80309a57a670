"""Who is better at its best, and how sure that is: one interval, and the verdict it gives.

The difference of two contenders at their best settings is known only up to two things: chance
(seeds) and tuning (a better setting may lie between those that were tried). The interval covers
both. Scores are smaller-is-better throughout.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from adamomentum_lab.stats.distributions import t_quantile
from adamomentum_lab.stats.potential import mean

LEVEL = 0.05
"""The chance of any false verdict about a pair, over all looks at it."""
LOOKS = ((5, 0.010), (10, 0.025), (None, 0.050))
"""Up to so many seeds, so much of the level may have been spent: 0.010, then 0.015, then 0.025."""

Kind = Literal["better", "worse", "equivalent", "undecided", "not comparable"]


@dataclass(frozen=True)
class Standing:
    """What is known of a contender on the final seeds."""

    tuned: Sequence[float]
    """Scores by seed at its tuned setting; infinite where a run diverged. As a winner it is judged
    by these."""
    best: Sequence[float]
    """Scores by seed at the best of all settings that were run. As a loser it is judged by
    these."""
    reach: float
    """How much lower its score could still get at a setting that was not run."""
    bound: Sequence[float] = ()
    """By seed, the lowest score that is left possible, with the noise of that bound; empty if it is
    that of the best setting."""


@dataclass(frozen=True)
class Interval:
    """Bounds of the difference of two contenders at their best, A minus B."""

    low: float
    high: float
    seeds_low: float
    """The same bounds if tuning had found the best settings: the part that is due to the seeds."""
    seeds_high: float


def level_left(seeds: int, spent: float) -> float:
    """What a look at so many seeds may spend, after so much was spent on the same question."""
    allowed = next(level for most, level in LOOKS if most is None or seeds <= most)
    return max(0.0, round(allowed - spent, 12))


def bound(a: Sequence[float], b: Sequence[float], level: float, resolution: float) -> float:
    """Upper confidence bound of the mean of a - b, paired by seed, at level / 2.

    Differences vary by at least resolution / sqrt(6), the spread of a rounding error: seeds that
    happen to agree do not prove that all would. A difference below the resolution is a tie.
    """
    n = len(a)
    differences = [x - y for x, y in zip(a, b, strict=True)]
    middle = mean(differences)
    if n < 2 or not level or not math.isfinite(middle):
        return math.inf
    variance = sum((value - middle) ** 2 for value in differences) / (n - 1)
    spread = max(math.sqrt(variance), resolution / math.sqrt(6))
    upper = middle + t_quantile(n - 1, level / 2) * spread / math.sqrt(n)
    return max(upper, 0.0) if abs(middle) < resolution else upper


def interval(a: Standing, b: Standing, level: float, resolution: float = 0.0) -> Interval:
    """The interval of A minus B at a level that was divided by the number of pairs."""
    high = bound(a.tuned, b.best, level, resolution)
    low = -bound(b.tuned, a.best, level, resolution)
    # Lines through noisy points are noisy themselves, often more than the points.
    widest_high, widest_low = high + b.reach, low - a.reach
    if math.isfinite(b.reach) and b.bound:
        widest_high = max(widest_high, bound(a.tuned, b.bound, level, resolution))
    if math.isfinite(a.reach) and a.bound:
        widest_low = min(widest_low, -bound(b.tuned, a.bound, level, resolution))
    return Interval(widest_low, widest_high, low, high)


def kind_of(found: Interval, margin: float | None = None) -> Kind:
    """The verdict on A, from the interval alone."""
    if found.high < 0:
        return "better"
    if found.low > 0:
        return "worse"
    if margin is not None and -margin < found.low and found.high < margin:
        return "equivalent"
    return "undecided"
