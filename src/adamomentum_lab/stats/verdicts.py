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
    bounds: Sequence[Sequence[float]] = ()
    """The lowest scores that are left possible, by seed, with the noise of these bounds: one for
    each place where a better setting may lie. Empty if there is none but the best setting."""
    before: Sequence[Standing] = ()
    """The same without the point that was run last to bound the reach."""


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


def interval(
    a: Standing, b: Standing, level: float, resolution: float = 0.0, peeks: int = 1
) -> Interval:
    """The interval of A minus B.

    Args:
        a: A.
        b: B.
        level: of the look, divided by the number of pairs.
        resolution: the smallest difference that the metric can show.
        peeks: how often the reach may be bounded anew on the same seeds.
    """
    return Interval(
        -_wide_bound(b.tuned, a, level, resolution, peeks),
        _wide_bound(a.tuned, b, level, resolution, peeks),
        -bound(b.tuned, a.best, level, resolution),
        bound(a.tuned, b.best, level, resolution),
    )


def _wide_bound(
    winner: Sequence[float], loser: Standing, level: float, resolution: float, peeks: int
) -> float:
    """Upper bound of the winner at its tuned setting minus the loser at any setting.

    Every point that is added to bound the loser's reach is another chance to be misled by noise;
    once the best lies close by, the plain comparison with it is one more. So each has half of the
    level, and the first counts only if it held without the last point too: if one more point, with
    noise of its own, did not overturn it. A bound that holds with its share of all points counts at
    once.
    """
    if peeks == 1 or not (loser.reach or loser.bounds):
        return _bound_of(winner, loser, level, level, resolution)
    now, *before = (
        _bound_of(winner, one, level / 2, level / 2, resolution) for one in (loser, *loser.before)
    )
    if not loser.reach:
        return now
    at_once = _bound_of(winner, loser, level, level / peeks, resolution)
    return min(at_once, max(now, min(before, default=math.inf)))


def _bound_of(
    winner: Sequence[float], loser: Standing, level: float, reach_level: float, resolution: float
) -> float:
    if not math.isfinite(loser.reach):
        return math.inf
    found = bound(winner, loser.best, level, resolution) + loser.reach
    # Lines through noisy points are noisy themselves, often more than the points.
    noisy = [bound(winner, low, reach_level, resolution) for low in loser.bounds]
    return max([found, *noisy])


def kind_of(found: Interval, margin: float | None = None) -> Kind:
    """The verdict on A, from the interval alone."""
    if found.high < 0:
        return "better"
    if found.low > 0:
        return "worse"
    if margin is not None and -margin < found.low and found.high < margin:
        return "equivalent"
    return "undecided"
