"""What a score is worth in training: how much of its own a baseline needs to reach it.

The baseline is trained to the end of its schedule at several budgets: lengths, in parts of a usual
run. Its mean score is interpolated over the logarithm of the budget, and the budget is read off at
which it reaches the mean of a contender. Nothing is extrapolated. Smaller scores are better.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

DRAWS = 4000
HALVINGS = 40


@dataclass(frozen=True)
class Speedup:
    """The baseline needs `factor` times its usual training for a contender's score.

    0 stands for less than the shortest budget, infinity for more than the longest.
    """

    factor: float
    low: float | None
    """The 95 % interval; None with a single seed."""
    high: float | None
    shortest: float
    longest: float
    seeds: int


def speedup(baseline: Mapping[float, Sequence[float]], scores: Sequence[float]) -> Speedup | None:
    """The speedup of a contender over a baseline.

    Args:
        baseline: the scores of the baseline by budget, seed by seed. Budgets with a lost run
            (an infinite score) are left out.
        scores: those of the contender over the same seeds.

    Returns:
        None if the contender lost a run, or the baseline has no two budgets.
    """
    import numpy as np

    able = sorted(b for b, its in baseline.items() if all(map(math.isfinite, its)))
    n = len(scores)
    if len(able) < 2 or not n or not all(map(math.isfinite, scores)):
        return None
    table = np.array([*(baseline[b] for b in able), scores], float)  # a row for each mean
    means = table.mean(axis=1, keepdims=True)
    where = np.log(able)
    factor = float(_reach(where, means[:-1], means[-1])[0])
    ends = able[0], able[-1]
    if n < 2:
        return Speedup(factor, None, None, *ends, n)
    drawn = means + _deviations(table - means)
    found = np.sort(_reach(where, drawn[:-1], drawn[-1]))
    # Infinities are not averaged: each end is one of the draws, the outer one.
    low, high = found[int(0.025 * DRAWS)], found[-1 - int(0.025 * DRAWS)]
    return Speedup(factor, float(low), float(high), *ends, n)


def _deviations(table: Array) -> Array:
    """Deviations of the means over seeds, drawn at random: a multiplier bootstrap.

    A draw gives each seed one random weight for all its scores, so that what seeds have in common
    stays in common. The draws follow Student's t with one degree of freedom less than seeds, so
    that the interval of any single mean is its t-interval. Redrawing a few whole seeds would give
    intervals that are too short.
    """
    import numpy as np

    n = table.shape[1]
    random = np.random.default_rng(0)
    weights = random.standard_normal((n, DRAWS))
    spread = np.sqrt(random.chisquare(n - 1, DRAWS) / (n - 1))
    return np.asarray(table @ weights / math.sqrt(n * (n - 1)) / spread)


def _reach(where: Array, curve: Array, score: Array) -> Array:
    """The budget at which each curve reaches a score.

    A longer run that ended worse than a shorter one does not count: the curve is that of the best
    so far.

    Args:
        where: logarithms of the budgets, in ascending order.
        curve: a row for each budget, a column for each draw.
        score: one for each draw.
    """
    import numpy as np

    best = np.minimum.accumulate(curve, axis=0)
    better = np.vstack([np.ones_like(curve[:1], bool), curve[1:] < best[:-1]])
    found = np.empty(curve.shape[1])
    for pattern in np.unique(better, axis=1).T:
        own = (better == pattern[:, None]).all(axis=0)
        found[own] = _invert(where[pattern], curve[np.ix_(pattern, own)], score[own])
    return found


def _invert(where: Array, curve: Array, score: Array) -> Array:
    """Where falling curves, interpolated by monotone cubic pieces, reach a score."""
    import numpy as np

    log_budget = np.full(len(score), float(where[0]))
    if len(where) > 1:
        slopes = _slopes(where, curve)
        piece = np.clip((curve[1:] >= score).sum(axis=0), 0, len(where) - 2)
        draw = np.arange(len(score))
        width = np.diff(where)[piece]
        left, right = curve[piece, draw], curve[piece + 1, draw]
        start, end = slopes[piece, draw] * width, slopes[piece + 1, draw] * width
        low, high = np.zeros(len(score)), np.ones(len(score))
        for _ in range(HALVINGS):
            t = (low + high) / 2
            value = (
                left * (1 + 2 * t) * (1 - t) ** 2
                + right * t**2 * (3 - 2 * t)
                + (start * (1 - t) - end * t) * t * (1 - t)
            )
            low, high = np.where(value > score, t, low), np.where(value > score, high, t)
        log_budget = where[piece] + (low + high) / 2 * width
    outside = np.where(score > curve[0], 0.0, np.inf)
    within = (score <= curve[0]) & (score >= curve[-1])
    return np.asarray(np.where(within, np.exp(log_budget), outside))


def _slopes(where: Array, curve: Array) -> Array:
    """Slopes at the budgets that keep each cubic piece monotone (Fritsch and Butland 1984)."""
    import numpy as np

    h = np.diff(where)[:, None]
    steep = np.diff(curve, axis=0) / h
    if len(h) == 1:
        return np.vstack([steep, steep])
    a, b = 2 * h[1:] + h[:-1], h[1:] + 2 * h[:-1]
    middle = (a + b) / (a / steep[:-1] + b / steep[1:])

    def end(h0: Array, h1: Array, s0: Array, s1: Array) -> Array:
        slope = ((2 * h0 + h1) * s0 - h0 * s1) / (h0 + h1)
        return np.asarray(np.minimum(slope, 0.0))  # falling, as the curve is

    first = end(h[0], h[1], steep[0], steep[1])
    last = end(h[-1], h[-2], steep[-1], steep[-2])
    return np.vstack([first, middle, last])
