"""The mathematics of a comparison: numbers in, numbers and sentences out.

Knows no run and no workload. Scores come by seed, and None or NaN where a run was lost.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import optimize, special

from adamomentum_lab.analysis import wording

Verdict = Literal["better", "worse", "no difference detected", "not comparable"]
Scores = Sequence[float | None]

OURS = "adamomentum"
"""Whom the others are compared with."""
LEVEL = 0.05
"""Chance of any false alarm in a family of comparisons."""
POWER = 0.8
"""Chance with which the difference that is called `missed` would have been seen."""
FLIPS = 40
"""Pairs up to which all sign flips are counted: beyond, the halves of 2^20 sums grow too large."""
TAU_MAX = 4.0
"""Of AlgoPerf's performance profiles: four times the best is as bad as never."""
_ROUNDING = 1e-12
"""Of a difference, relative to what was subtracted: less is the computer's, not the seed's."""


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
        unit = _unit(values)
        values = [value / unit for value in values]
        half = float(special.stdtrit(n - 1, 0.975)) * statistics.stdev(values) / math.sqrt(n)
        return cls(unit * statistics.fmean(values), unit * half, n)


@dataclass(frozen=True)
class Comparison:
    """One contender beside another, seed by seed."""

    base: str
    other: str
    n: int
    """Seeds that both finished."""
    difference: Estimate
    """Other minus base; positive is a larger metric, whether that is better or not."""
    comparisons: int
    """How many the correction is for, those without a test included."""
    test: Literal["paired t", "sign flips"] | None
    """Which gave p. Where all differences are the same there is no t, and signs are flipped."""
    p: float | None
    """Two-sided; None without a test."""
    p_holm: float | None
    """After Holm's correction: with 0.05 or less there is a difference."""
    effect: float | None
    """Hedges' g of the differences: their mean over their standard deviation (d_z), times the exact
    small-sample factor of Hedges 1981. None with fewer than three pairs or no variation."""
    permutation: float | None
    """p of the exact sign-flip test of the mean, two-sided and uncorrected."""
    permutation_holm: float | None
    permutation_note: str | None
    """Why there is no permutation test, where there is none."""
    missed: float | None
    """The true difference that would have been seen with 80 % power by a paired t-test at 0.05 over
    the number of comparisons, if differences vary from seed to seed as they did."""
    verdict: Verdict
    """Of the other beside the base."""
    sentence: str


@dataclass(frozen=True)
class Pair:
    """Two contenders and their scores by seed."""

    base: str
    other: str
    base_scores: Scores
    other_scores: Scores


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's step-down correction (1979), in the order of the ps: none is above its level by chance
    more often than that level, however they depend on each other."""
    adjusted = [0.0] * len(ps)
    largest = 0.0
    for rank, i in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[i]))
        adjusted[i] = largest
    return adjusted


def sign_flips(differences: Sequence[float]) -> float:
    """Exact two-sided p of the mean of paired differences.

    If nothing distinguishes the two of a pair, each difference might as well have had the other
    sign: p is the share of all 2^n choices of signs whose mean is as far from 0, or farther.
    """
    n = len(differences)
    if not 1 <= n <= FLIPS:
        raise ValueError(f"sign flips of {n} differences cannot be counted, but of 1 to {FLIPS}.")
    size = sum(map(abs, differences))
    least = abs(math.fsum(differences)) - _ROUNDING * size
    if least <= 0:
        return 1.0
    # All 2^n sums would not fit: those of both halves do, and are counted against each other.
    one, two = (np.zeros(1), np.zeros(1))
    for i, value in enumerate(differences):
        if i % 2:
            one = np.concatenate([one - value, one + value])
        else:
            two = np.concatenate([two - value, two + value])
    two.sort()
    above = len(two) * len(one) - int(np.searchsorted(two, least - one).sum())
    return 2.0 ** (1 - n) * above  # as many lie below: the sums are symmetric


@functools.cache
def detectable(n: int, level: float, power: float = POWER) -> float:
    """The true mean of n differences, in their standard deviations, that a two-sided t-test at a
    level finds with this power, on its right side. From the noncentral t distribution."""
    if n < 2:
        raise ValueError(f"{n} pairs have no t-test; it needs two.")
    critical = float(-special.stdtrit(n - 1, level / 2))

    def excess(shift: float) -> float:
        return 1.0 - float(special.nctdtr(n - 1, shift, critical)) - power

    high = critical
    while excess(high) < 0:
        high *= 2
    shift: float = optimize.brentq(excess, 0.0, high)
    return shift / math.sqrt(n)


def compare(
    ours: Scores,
    others: Mapping[str, Scores],
    metric: str,
    larger_is_better: bool,
    name: str = OURS,
) -> list[Comparison]:
    """Each of the others beside ours, with Holm's correction over them all.

    `metric` is how sentences call it, such as "test accuracy".
    """
    pairs = [Pair(name, other, ours, scores) for other, scores in others.items()]
    return compare_pairs(pairs, metric, larger_is_better)


def compare_pairs(
    pairs: Sequence[Pair], metric: str, larger_is_better: bool, of: int | None = None
) -> list[Comparison]:
    """Every pair, with Holm's correction over them all, or over `of`, if they were chosen of more
    by what they scored.

    A pair that cannot be tested counts in the correction all the same: whether it can is known only
    from the runs.
    """
    comparisons = max(len(pairs), of or 0)
    found = [_tested(pair, comparisons) for pair in pairs]
    rest = [1.0] * (comparisons - len(pairs))
    adjusted = holm([1.0 if c.p is None else c.p for c in found] + rest)
    flipped = holm([1.0 if c.permutation is None else c.permutation for c in found] + rest)
    better = 1 if larger_is_better else -1
    told = []
    for c, p_holm, flips, pair in zip(found, adjusted, flipped, pairs, strict=False):
        if c.p is not None:
            verdict: Verdict = "no difference detected"
            if p_holm <= LEVEL:
                verdict = "better" if better * (c.difference.mean or 0.0) > 0 else "worse"
            c = replace(c, p_holm=p_holm, verdict=verdict)
        if c.permutation is not None:
            c = replace(c, permutation_holm=flips)
        lost = tuple(
            sum(score is None for score in _numbers(scores))
            for scores in (pair.base_scores, pair.other_scores)
        )
        sentence = wording.of_comparison(c, metric, len(pair.base_scores), lost[0], lost[1])
        told.append(replace(c, sentence=sentence))
    return told


def _numbers(scores: Scores) -> list[float | None]:
    return [s if s is not None and math.isfinite(s) else None for s in scores]


def _unit(values: Iterable[float]) -> float:
    """A power of two as large as the largest of these: in it, squares and sums are never too large
    or too small to be written."""
    largest = max(map(abs, values), default=0.0)
    # One less than its exponent, which may be too large to be written, and not below the smallest.
    return math.ldexp(1.0, max(-1073, math.frexp(largest)[1] - 1)) if largest else 1.0


def _tested(pair: Pair, comparisons: int) -> Comparison:
    """A pair before the correction, and before it is put into words."""
    if len(pair.base_scores) != len(pair.other_scores):
        raise ValueError(
            f"{pair.base} has {len(pair.base_scores)} seeds and {pair.other} "
            f"{len(pair.other_scores)}; both need the same."
        )
    both = [
        (a, b)
        for a, b in zip(_numbers(pair.base_scores), _numbers(pair.other_scores), strict=True)
        if a is not None and b is not None
    ]
    unit = _unit(value for two in both for value in two)
    differences = [b / unit - a / unit for a, b in both]
    n = len(differences)
    rounding = _ROUNDING * max((abs(value) / unit for two in both for value in two), default=0.0)
    same = n > 0 and max(differences) - min(differences) <= rounding
    if same:
        mean = statistics.fmean(differences)
        mean = 0.0 if abs(mean) <= rounding else mean
        differences = [mean] * n
    compared = Comparison(
        base=pair.base,
        other=pair.other,
        n=n,
        difference=_in_units(Estimate.of(differences), unit, same),
        comparisons=comparisons,
        test=None,
        p=None,
        p_holm=None,
        effect=None,
        permutation=None,
        permutation_holm=None,
        permutation_note="nothing was tested",
        missed=None,
        verdict="not comparable",
        sentence="",
    )
    if n < 2 or n < len(pair.base_scores):
        # Runs are not lost by chance: those that are left flatter whoever lost them.
        return compared
    flips, note = _permutation(differences, comparisons)
    compared = replace(compared, permutation=flips, permutation_note=note)
    if same:
        # No choice of signs but theirs and its opposite is as far from 0.
        p = 2.0 ** (1 - n) if differences[0] else 1.0
        return replace(compared, test="sign flips", p=p)
    mean = statistics.fmean(differences)
    deviation = math.sqrt(math.fsum((d - mean) ** 2 for d in differences) / (n - 1))
    p = 2 * float(special.stdtr(n - 1, -abs(mean) / deviation * math.sqrt(n)))
    return replace(
        compared,
        test="paired t",
        p=p,
        effect=_factor(n - 1) * mean / deviation if n > 2 else None,
        missed=unit * detectable(n, LEVEL / comparisons) * deviation,
    )


def _in_units(estimate: Estimate, unit: float, same: bool) -> Estimate:
    """The estimate times its unit; without an interval where all values are the same, for it would
    have no width and deny the chance that the test allows for."""
    mean = None if estimate.mean is None else unit * estimate.mean
    half = None if estimate.half is None or (same and mean) else unit * estimate.half
    return Estimate(mean, half, estimate.n)


def _permutation(differences: list[float], comparisons: int) -> tuple[float | None, str | None]:
    n = len(differences)
    if n > FLIPS:
        return None, f"all sign flips are counted up to {FLIPS} seeds"
    least = 2.0 ** (1 - n)
    if least * comparisons <= LEVEL:
        return sign_flips(differences), None
    times = f" times {comparisons} comparisons" if comparisons > 1 else ""
    return None, f"with {n} seeds its smallest p, {least:.2g}{times}, is above {LEVEL}"


def _factor(freedom: int) -> float:
    """Hedges' J, exactly: the d of few values is too large on average, by 1 / J."""
    log = special.gammaln(freedom / 2) - special.gammaln((freedom - 1) / 2)
    return math.exp(float(log)) / math.sqrt(freedom / 2)


def expected_best(values: Scores, larger_is_better: bool) -> list[float | None]:
    """The best score to expect after 1, 2, ... trials, drawn without replacement from those run.

    The unbiased estimate of Tang et al. 2020 (arXiv 2004.13705): of n scores, best first, the i-th
    is the best of k with probability C(n-i, k-1) / C(n, k). A lost trial (None or NaN) is worse
    than any score but has none, so there is no mean while all k may be lost: None up to there.
    """
    scores = sorted((s for s in _numbers(values) if s is not None), reverse=larger_is_better)
    n, lost = len(values), len(values) - len(scores)
    return [
        None
        if k <= lost
        else math.fsum(
            math.comb(n - i, k - 1) / math.comb(n, k) * score for i, score in enumerate(scores, 1)
        )
        for k in range(1, n + 1)
    ]


@dataclass(frozen=True)
class Profiles:
    """Performance profiles over workloads (Dolan and Moré 2002), as AlgoPerf has them."""

    taus: list[float]
    shares: dict[str, list[float]]
    """By optimizer: of the workloads, the share where it took at most tau times the best."""
    scores: dict[str, float]
    """The mean of its share over tau from 1 to 4: 1 is the best everywhere, 0 never within 4."""
    ratios: dict[str, dict[str, float | None]]
    """By workload and optimizer, to the best there; None where it never reached the target."""
    unreached: list[str]
    """Workloads where nobody reached the target. They count, for nobody."""
    left_out: list[str]
    """Optimizers that were not raced on every workload."""


def profiles(
    measures: Mapping[str, Mapping[str, float | None]], taus: Iterable[float] | None = None
) -> Profiles:
    """From what each optimizer took to the target on each workload, smaller is better.

    None, NaN and infinity are never. Only optimizers that were raced on all workloads are compared,
    and the best is the best of these. AlgoPerf: arXiv 2306.07179, section 4.
    """
    grid = [float(tau) for tau in (np.linspace(1, TAU_MAX, 121) if taus is None else taus)]
    raced = {name: None for by_name in measures.values() for name in by_name}  # in their order
    shared = [name for name in raced if all(name in by_name for by_name in measures.values())]
    ratios: dict[str, dict[str, float | None]] = {}
    for workload, by_name in measures.items():
        took = dict(zip(shared, _numbers([by_name[name] for name in shared]), strict=True))
        reached = [value for value in took.values() if value is not None]
        if any(value <= 0 for value in reached):
            raise ValueError(f"what an optimizer took on {workload} must be above 0.")
        best = min(reached, default=math.nan)
        ratios[workload] = {
            name: None if value is None else value / best for name, value in took.items()
        }
    by_optimizer = {
        name: [
            math.inf if ratio is None else ratio
            for of_workload in ratios.values()
            for ratio in [of_workload[name]]
        ]
        for name in shared
    }
    count = max(1, len(measures))
    return Profiles(
        taus=grid,
        shares={
            name: [sum(ratio <= tau for ratio in mine) / count for tau in grid]
            for name, mine in by_optimizer.items()
        },
        scores={
            name: sum(max(0.0, TAU_MAX - ratio) for ratio in mine) / (TAU_MAX - 1) / count
            for name, mine in by_optimizer.items()
        },
        ratios=ratios,
        unreached=[
            workload
            for workload, of_workload in ratios.items()
            if all(ratio is None for ratio in of_workload.values())
        ],
        left_out=[name for name in raced if name not in shared],
    )
