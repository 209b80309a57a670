"""The comparison of two contenders, seed by seed. Knows no run and no workload."""

from __future__ import annotations

import functools
import math
import statistics
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from adamomentum_lab.stats.distributions import (
    find_zero,
    noncentral_t_cdf,
    t_quantile,
    two_sided_p,
)
from adamomentum_lab.stats.estimates import Estimate, Scores, finite, unit_of

ComparisonVerdict = Literal["better", "worse", "no difference detected", "not comparable"]

LEVEL = 0.05
"""Chance of any false alarm in a family of comparisons."""
POWER = 0.8
"""Chance with which the difference that is called `missed` would have been seen."""
FLIPS = 40
"""Pairs up to which all sign flips are counted: beyond, the halves of 2^20 sums grow too large."""
_PLAIN = 10
"""Differences in a half up to which NumPy would take longer to import than the sums take."""
_ROUNDING = 1e-12
"""Of a difference, relative to what was subtracted, where no digits were left out."""


@dataclass(frozen=True)
class Comparison:
    """One contender beside another, seed by seed."""

    base: str
    other: str
    seeds: int
    n: int
    """Seeds that both finished."""
    base_lost: int
    """Seeds that the base did not finish."""
    other_lost: int
    difference: Estimate
    """Other minus base; positive is a larger metric, whether that is better or not."""
    comparisons: int
    """How many the correction is for, those without a test included."""
    test: Literal["paired t", "sign flips"] | None = None
    """Which gave p. Where all differences are the same there is no t, and signs are flipped."""
    p: float | None = None
    """Two-sided; None without a test."""
    p_holm: float | None = None
    """After Holm's correction: with 0.05 or less there is a difference."""
    missed: float | None = None
    """The true difference that would have been seen with 80 % power by a paired t-test at 0.05 over
    the number of comparisons, if differences vary from seed to seed as they did."""
    verdict: ComparisonVerdict = "not comparable"
    """Of the other beside the base."""


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's step-down correction (1979), in the order of the ps: none is above its level by chance
    more often than that level, however they depend on each other."""
    adjusted = [0.0] * len(ps)
    largest = 0.0
    for rank, i in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[i]))
        adjusted[i] = largest
    return adjusted


def relative_rounding(digits: int | None) -> float:
    """Of a difference of scores, relative to them: less is the computer's or the record's doing."""
    return _ROUNDING if digits is None else 2 * 10.0 ** (1 - digits)


def sign_flips(differences: Sequence[float], tolerance: float = 0.0) -> float:
    """Exact two-sided p of the mean of paired differences.

    If nothing distinguishes the two of a pair, each difference might as well have had the other
    sign: p is the share of all 2^n choices of signs whose mean is as far from 0, or farther. Sums
    that differ by no more than the tolerance are as far.
    """
    n = len(differences)
    if not 1 <= n <= FLIPS:
        raise ValueError(f"sign flips of {n} differences cannot be counted, but of 1 to {FLIPS}.")
    size = sum(map(abs, differences))
    least = abs(math.fsum(differences)) - max(_ROUNDING * size, tolerance)
    if least <= 0:
        return 1.0
    # All 2^n sums would not fit: those of both halves do, and are counted against each other.
    above = _count_above(differences[1::2], differences[::2], least)
    return 2.0 ** (1 - n) * above  # as many lie below: the sums are symmetric


def _count_above(ones: Sequence[float], twos: Sequence[float], least: float) -> int:
    """How many choices of the signs of both give a sum of at least so much."""
    if len(twos) > _PLAIN:
        import numpy as np

        one, two = np.zeros(1), np.zeros(1)
        for value in ones:
            one = np.concatenate([one - value, one + value])
        for value in twos:
            two = np.concatenate([two - value, two + value])
        two.sort()
        return len(two) * len(one) - int(np.searchsorted(two, least - one).sum())
    small, large = [0.0], [0.0]
    for value in ones:
        small = [*(total - value for total in small), *(total + value for total in small)]
    for value in twos:
        large = [*(total - value for total in large), *(total + value for total in large)]
    large.sort()
    return len(large) * len(small) - sum(bisect_left(large, least - total) for total in small)


@functools.cache
def detectable(n: int, level: float, power: float = POWER) -> float:
    """The true mean of n differences, in their standard deviations, that a two-sided t-test at a
    level finds with this power, on its right side. From the noncentral t distribution."""
    if n < 2:
        raise ValueError(f"{n} pairs have no t-test; it needs two.")
    freedom, critical = n - 1, t_quantile(n - 1, level / 2)

    def missing(shift: float) -> float:
        return noncentral_t_cdf(critical, freedom, shift) - (1.0 - power)

    high = critical
    while missing(high) > 0:
        high *= 2
    return find_zero(missing, 0.0, high) / math.sqrt(n)


def compare(
    base: str, scores: Scores, others: Mapping[str, Scores], larger_is_better: bool
) -> list[Comparison]:
    """Each of the others beside the base, with Holm's correction over them all.

    One that cannot be tested counts in the correction all the same: whether it can is known only
    from the runs.
    """
    found = [_test(base, scores, other, theirs, len(others)) for other, theirs in others.items()]
    adjusted = holm([1.0 if c.p is None else c.p for c in found])
    better = 1 if larger_is_better else -1
    results = []
    for c, p_holm in zip(found, adjusted, strict=True):
        if c.p is not None:
            verdict: ComparisonVerdict = "no difference detected"
            if p_holm <= LEVEL:
                verdict = "better" if better * (c.difference.mean or 0.0) > 0 else "worse"
            c = replace(c, p_holm=p_holm, verdict=verdict)
        results.append(c)
    return results


def _test(
    base: str, base_scores: Scores, other: str, other_scores: Scores, comparisons: int
) -> Comparison:
    """A pair before the correction."""
    seeds, others = len(base_scores), len(other_scores)
    if seeds != others:
        raise ValueError(f"{base} has {seeds} seeds and {other} {others}; both need the same.")
    scores = finite(base_scores), finite(other_scores)
    both = [(a, b) for a, b in zip(*scores, strict=True) if a is not None and b is not None]
    unit = unit_of(value for two in both for value in two)
    differences = [b / unit - a / unit for a, b in both]
    n = len(differences)
    largest = max((abs(value) / unit for two in both for value in two), default=0.0)
    rounding = _ROUNDING * largest
    same = n > 0 and max(differences) - min(differences) <= rounding
    if same:
        mean = statistics.fmean(differences)
        mean = 0.0 if abs(mean) <= rounding else mean
        differences = [mean] * n
    compared = Comparison(
        base=base,
        other=other,
        seeds=seeds,
        n=n,
        base_lost=scores[0].count(None),
        other_lost=scores[1].count(None),
        difference=_in_units(Estimate.of(differences), unit, same),
        comparisons=comparisons,
    )
    if n < 2 or n < seeds:
        # Runs are not lost by chance: those that are left flatter whoever lost them.
        return compared
    if same:
        # No choice of signs but theirs and its opposite is as far from 0.
        p = 2.0 ** (1 - n) if differences[0] else 1.0
        return replace(compared, test="sign flips", p=p)
    mean = statistics.fmean(differences)
    deviation = math.sqrt(math.fsum((d - mean) ** 2 for d in differences) / (n - 1))
    p = two_sided_p(mean / deviation * math.sqrt(n), n - 1)
    return replace(
        compared,
        test="paired t",
        p=p,
        missed=unit * detectable(n, LEVEL / comparisons) * deviation,
    )


def _in_units(estimate: Estimate, unit: float, same: bool) -> Estimate:
    """The estimate times its unit; without an interval where all values are the same, for it would
    have no width and deny the chance that the test allows for."""
    mean = None if estimate.mean is None else unit * estimate.mean
    half = None if estimate.half is None or (same and mean) else unit * estimate.half
    return Estimate(mean, half, estimate.n)
