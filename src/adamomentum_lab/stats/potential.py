"""How much better a score could still get between and beyond the settings that were tried.

A contender is run at a few values of a setting, such as its learning rate. If the score is convex
in the logarithm of that setting around the best value, the points that were run bound the score
everywhere else. Scores are smaller-is-better throughout.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from adamomentum_lab.stats.distributions import t_quantile

NOISE_TAIL = 0.025
"""A point breaks convexity if chance would put it so far above the line this rarely."""

Place = Literal["below", "above", "gap"]


@dataclass(frozen=True)
class Weakest:
    """Where the bound is weakest: where one more point would help most."""

    place: Place
    """`below` or `above` all points, or in a `gap` between two of them."""
    left: int
    """Index of the point left of the gap; of the outermost point where there is no gap."""
    right: int


@dataclass(frozen=True)
class Potential:
    """What a better value of one setting could still give."""

    best: int | None
    """Index of the best point; None if every point diverged."""
    reach: float
    """How far below the mean of the best point the score could lie; infinite if nothing bounds
    it."""
    weakest: Weakest | None
    """None if no point could lower the reach: there is nothing left to find."""
    bounds: tuple[tuple[float, ...], ...] = ()
    """For each gap beside the best point, by seed, the lowest score that the points leave possible
    there; empty if nothing bounds it. The lowest mean is that of the best point less the reach. The
    spreads are the noise of these bounds."""
    dropped: tuple[int, ...] = ()
    """Points that lie above the convex hull by more than their noise. They bound nothing."""


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean; infinite if a value is."""
    return sum(values) / len(values)


def potential(
    xs: Sequence[float],
    scores: Sequence[Sequence[float]],
    *,
    ends_below: bool = False,
    ends_above: bool = False,
    floor: float = 0.0,
    widest: float = math.inf,
) -> Potential:
    """The potential along one setting.

    Args:
        xs: where the points lie, ascending, usually log10 of the setting.
        scores: of each point, its scores by seed; infinite where a run diverged.
        ends_below: whether the first point is a natural end, such as a weight decay of 0.
        ends_above: whether the last point is a natural end.
        floor: the smallest standard deviation of a score that is believed.
        widest: lines bound nothing in a gap wider than this: far from its best a score is seldom
            convex.
    """
    means = [mean(own) for own in scores]
    finite = [i for i, value in enumerate(means) if math.isfinite(value)]
    last = len(xs) - 1
    if not finite:
        return Potential(None, math.inf, Weakest("below", 0, 0))
    best = min(finite, key=lambda i: (means[i], abs(2 * i - last)))  # of equals the innermost
    # The best lies on the hull; where scores are all the same, rounding may say otherwise.
    dropped = _above_hull(xs, scores, means, finite, floor) - {best}
    kept = [i for i in finite if i not in dropped]
    walls = [i for i in range(len(xs)) if _is_wall(i, scores[i], finite)]
    kept = sorted([*kept, *walls])
    at = kept.index(best)
    reaches: list[tuple[float, Weakest]] = []
    bounds: list[tuple[float, ...]] = []
    if at == 0 and not (ends_below and best == 0):
        reaches.append((math.inf, Weakest("below", 0, 0)))
    if at == len(kept) - 1 and not (ends_above and best == last):
        reaches.append((math.inf, Weakest("above", last, last)))
    for left in (at, at - 1):  # the upper gap first: of equals it is split first
        if 0 <= left < len(kept) - 1:
            a, b = kept[left], kept[left + 1]
            lower, weights = -math.inf, dict[int, float]()
            if xs[b] - xs[a] <= widest:
                lower, weights = _lower_bound(xs, means, kept, left)
            reaches.append((max(0.0, means[best] - lower), Weakest("gap", a, b)))
            if lower > means[best]:  # by chance
                weights = {best: 1.0}
            bounds.append(_weighted(weights, scores))
    reach, weakest = max(reaches, key=lambda one: one[0], default=(0.0, None))
    return Potential(
        best,
        reach,
        weakest if reach > 0 else None,  # else there is nothing left to find
        tuple(bounds) if math.isfinite(reach) else (),
        tuple(sorted(dropped)),
    )


def _is_wall(i: int, scores: Sequence[float], finite: Sequence[int]) -> bool:
    """Whether training diverges from a point on: it lies beyond all points that are finite, and at
    least half of its runs diverged. A few may diverge by chance, with better settings beyond."""
    lost = sum(not math.isfinite(score) for score in scores)
    return not finite[0] <= i <= finite[-1] and 2 * lost >= len(scores)


Weights = dict[int, float]
"""By point: a weighted sum of scores."""


def _weighted(weights: Weights, scores: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """The weighted sum of points, by seed."""
    rows = [[weight * value for value in scores[i]] for i, weight in weights.items()]
    return tuple(map(sum, zip(*rows, strict=True)))


def _lower_bound(
    xs: Sequence[float], means: Sequence[float], kept: Sequence[int], left: int
) -> tuple[float, Weights]:
    """The lowest that a convex curve through the points can lie inside a gap.

    It lies above the line through the two points left of the gap, and above the line through the
    two points right of it. Also the weights of the points in that lowest value.
    """
    start, end = xs[kept[left]], xs[kept[left + 1]]
    lines = []
    for one, two in ((left - 1, left), (left + 1, left + 2)):
        if one < 0 or two >= len(kept):
            continue
        a, b = kept[one], kept[two]
        if math.isfinite(means[a]) and math.isfinite(means[b]):
            lines.append((a, b))
    if not lines:
        return -math.inf, {}

    def weights(line: tuple[int, int], x: float) -> Weights:
        a, b = line
        share = (x - xs[a]) / (xs[b] - xs[a])
        return {a: 1 - share, b: share}

    def value(parts: Weights) -> float:
        return sum(weight * means[i] for i, weight in parts.items())

    def at(x: float) -> tuple[float, Weights]:
        return max(((value(w), w) for w in (weights(line, x) for line in lines)), key=_first)

    lowest = min(at(start), at(end), key=_first)
    if len(lines) == 2:
        slopes = [(means[b] - means[a]) / (xs[b] - xs[a]) for a, b in lines]
        if slopes[0] < 0 < slopes[1]:
            zeros = [means[a] - slope * xs[a] for (a, _), slope in zip(lines, slopes, strict=True)]
            crossing = (zeros[1] - zeros[0]) / (slopes[0] - slopes[1])
            if start < crossing < end and at(crossing)[0] < lowest[0]:
                # Where two lines cross, noise shifts the crossing too. To first order, the lines
                # count in the proportion that makes their slopes cancel.
                share = slopes[1] / (slopes[1] - slopes[0])
                mixed: Weights = {}
                for line, part in zip(lines, (share, 1 - share), strict=True):
                    for i, weight in weights(line, crossing).items():
                        mixed[i] = mixed.get(i, 0.0) + part * weight
                lowest = value(mixed), mixed
    return lowest


def _first(pair: tuple[float, Weights]) -> float:
    return pair[0]


def _above_hull(
    xs: Sequence[float],
    scores: Sequence[Sequence[float]],
    means: Sequence[float],
    finite: Sequence[int],
    floor: float,
) -> set[int]:
    """The points that lie above the lower convex hull of all points by more than their noise."""
    hull: list[int] = []
    for i in finite:
        while len(hull) > 1 and _is_above(xs, means, hull[-2], hull[-1], i):
            hull.pop()
        hull.append(i)
    found = set()
    for i in finite:
        if i in hull:
            continue
        a = max(j for j in hull if j < i)
        b = min(j for j in hull if j > i)
        share = (xs[i] - xs[a]) / (xs[b] - xs[a])
        excess = [
            own - (1 - share) * low - share * high
            for own, low, high in zip(scores[i], scores[a], scores[b], strict=True)
        ]
        n, middle = len(excess), mean(excess)
        if n < 2:
            continue
        spread = math.sqrt(sum((value - middle) ** 2 for value in excess) / (n - 1))
        if middle > t_quantile(n - 1, NOISE_TAIL) * max(spread, floor) / math.sqrt(n):
            found.add(i)
    return found


def _is_above(xs: Sequence[float], ys: Sequence[float], a: int, b: int, c: int) -> bool:
    """Whether point b lies on or above the line from a to c."""
    return (ys[b] - ys[a]) * (xs[c] - xs[a]) >= (ys[c] - ys[a]) * (xs[b] - xs[a])
