"""The verdict on a pair of contenders: what is known, and what stands between it and an answer."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from adamomentum_lab.race.bracket import Point, line_of, move
from adamomentum_lab.race.referee import Conduct, Entrant, Pair, standing_of
from adamomentum_lab.stats.collapses import far_off, has_two_valleys
from adamomentum_lab.stats.comparisons import FLIPS, sign_flips
from adamomentum_lab.stats.distributions import two_sided_p
from adamomentum_lab.stats.potential import mean
from adamomentum_lab.stats.verdicts import LOOKS, Interval, Kind, Standing, interval, kind_of

Why = Literal["gap", "edge", "together", "diverged", "tie", "seeds", "looks", "lost runs"]
Ends = tuple[float | None, float | None]
"""Of an interval; None where it has no finite end."""
FLIPS_FROM = 6
"""Seeds. With fewer, no choice of signs is rarer than 5 %."""
MOST_SEEDS = 1000
"""More seeds than this are not suggested."""


@dataclass(frozen=True)
class Reason:
    """Why a pair is undecided."""

    why: Why
    """`gap`: a better value may lie between two that were run. `edge`: it may lie beyond all of
    them. `together`: the best values of several settings were not run together. `diverged`: the
    better contender lost a final run. `tie`: the difference is below the resolution of the metric.
    `seeds`: chance explains the difference. `looks`: the level is used up. `lost runs`: runs were
    lost for reasons that are not the optimizer's."""
    contender: str = ""
    """Whose setting is not resolved, or who lost runs."""
    setting: str = ""
    low: float | None = None
    """The values that a better one may lie between; None beyond an edge."""
    high: float | None = None
    seeds: int | None = None
    """About how many seeds would decide, if the difference and the spread stay as they are."""


@dataclass(frozen=True)
class Verdict:
    """What a race says about A beside B. Differences are A minus B in the unit of the metric."""

    a: str
    b: str
    kind: Kind
    """Of A: better or worse than B."""
    seeds: int
    """Seeds that both were run on."""
    difference: float | None
    """Mean difference at the tuned settings; None if one of them diverged or runs are missing."""
    interval: Ends
    """Covers seeds and the placing of the searched settings. The settings beside the winner's are
    not run, so that nothing bounds by how much it wins."""
    seed_interval: Ends
    """Covers seeds alone: as if tuning had found the best settings."""
    level: float
    """What this look spent; the interval is at this level over the number of pairs."""
    pairs: int
    tuned: bool
    """Whether settings were searched. If not, the verdict is on these settings alone."""
    reasons: tuple[Reason, ...] = ()
    """Why it is undecided or not comparable, the most important first."""
    unit: Literal["seed", "study"] = "seed"
    """What chance is measured by. In a study, tuning is repeated too."""
    flips: float | None = None
    """Two-sided p of the exact sign-flip test of the differences at the tuned settings, from 6
    seeds on: a second opinion that assumes no distribution and knows nothing of tuning."""
    collapsed: tuple[tuple[str, int], ...] = ()
    """Contenders and seeds whose score is far off the others of the same settings. No interval of
    a few seeds is valid then."""
    broken: tuple[tuple[str, str], ...] = ()
    """Contenders and settings along which the scores are not convex, beyond chance: they break what
    the interval assumes of settings that were not run."""


def judge(
    pair: Pair,
    contenders: Mapping[str, Entrant],
    conduct: Conduct,
    resolution: float = 0.0,
    larger_is_better: bool = False,
) -> Verdict:
    """The verdict on a pair.

    Args:
        pair: A and B.
        contenders: what was run; scores are smaller-is-better, negated if the metric is not.
        conduct: levels, margin and pairs of the race.
        resolution: the smallest difference that the metric can show.
        larger_is_better: whether scores were negated. The verdict's numbers are not.
    """
    a, b = contenders[pair.a], contenders[pair.b]
    seeds = min(a.seeds, b.seeds)
    level = conduct.level(pair, seeds)
    tuned = conduct.trials > 0
    count = len(conduct.pairs)
    lost = [Reason("lost runs", name) for name in (pair.a, pair.b) if contenders[name].faulty]
    if lost or not seeds:
        return Verdict(
            pair.a, pair.b, "not comparable", seeds, None, (None, None), (None, None), level, count,
            tuned, tuple(lost),
        )  # fmt: skip
    floor = resolution / math.sqrt(6)
    standings = [standing_of(own, conduct, seeds, floor) for own in (a, b)]
    found = interval(standings[0], standings[1], level / count, resolution, 1 + conduct.certify)
    kind = kind_of(found, conduct.margin)
    reasons = _reasons(pair, contenders, standings, found, conduct, level, resolution)
    gap = mean([x - y for x, y in zip(standings[0].tuned, standings[1].tuned, strict=True)])
    sign = -1 if larger_is_better else 1
    return Verdict(
        a=pair.a,
        b=pair.b,
        kind=kind,
        seeds=seeds,
        difference=sign * gap if math.isfinite(gap) else None,
        interval=_ordered(sign, found.low, found.high),
        seed_interval=_ordered(sign, found.seeds_low, found.seeds_high),
        level=level,
        pairs=count,
        tuned=tuned,
        reasons=reasons if kind == "undecided" else (),
        flips=_flips(standings[0].tuned, standings[1].tuned),
        collapsed=tuple(
            (name, seed)
            for name in (pair.a, pair.b)
            for seed in _collapsed(contenders[name], seeds, floor)
        ),
        broken=tuple(
            (name, setting)
            for name in (pair.a, pair.b)
            for setting in (_broken(contenders[name], seeds, floor) if tuned else ())
        ),
    )


def _flips(a: Sequence[float], b: Sequence[float]) -> float | None:
    differences = [x - y for x, y in zip(a, b, strict=True)]
    if not FLIPS_FROM <= len(differences) <= FLIPS or not math.isfinite(mean(differences)):
        return None
    return sign_flips(differences)


def _collapsed(own: Entrant, seeds: int, floor: float) -> list[int]:
    """The seeds that are far off at its tuned settings or at the best that were run."""
    best = min(own.run_points(seeds), key=lambda point: mean(own.scores(point, seeds)))
    found: set[int] = set()
    for point in (own.tuned, best):
        numbers = sorted(own.finals[point])[:seeds]
        found |= {numbers[i] for i in far_off(own.scores(point, seeds), floor)}
    return sorted(found)


def _broken(own: Entrant, seeds: int, floor: float) -> list[str]:
    """The settings along which it has points far above the convex hull, or two valleys."""
    found = [own.space.axes[k].name for k, _, curve in own.curves(seeds, floor) if curve.dropped]
    scores = own.scores(own.tuned, seeds)
    middle = mean(scores)
    if seeds < 3 or not math.isfinite(middle):
        return found
    spread = math.sqrt(sum((score - middle) ** 2 for score in scores) / (seeds - 1))
    for k, axis in enumerate(own.space.axes):
        # No trial says how much its score varies over seeds; the final runs do.
        line = sorted(
            line_of(own.trials, own.tuned, k), key=lambda p: -math.inf if p is None else p
        )
        tried = [own.trials[move(own.tuned, k, place)][0] for place in line]
        if axis.name not in found and has_two_valleys(tried, max(spread, floor)):
            found.append(axis.name)
    return found


def _ordered(sign: int, low: float, high: float) -> Ends:
    ends = (low, high) if sign > 0 else (-high, -low)
    return (_finite(ends[0]), _finite(ends[1]))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _reasons(
    pair: Pair,
    contenders: Mapping[str, Entrant],
    standings: list[Standing],
    found: Interval,
    conduct: Conduct,
    level: float,
    resolution: float,
) -> tuple[Reason, ...]:
    """Why a pair is undecided: first what stands between it and the verdict it leans to."""
    if not level:
        return (Reason("looks"),)
    first, second = standings
    means = [mean(own.tuned) for own in standings]
    leads_a = means[0] <= means[1] or not math.isfinite(means[1])
    winner, loser = (pair.a, pair.b) if leads_a else (pair.b, pair.a)
    seeds_excluded = found.seeds_high < 0 or found.seeds_low > 0
    if not math.isfinite(min(means)):
        return (Reason("diverged", winner),)
    if seeds_excluded:
        loser = pair.b if found.seeds_high < 0 else pair.a
        if unresolved := _unresolved(loser, contenders[loser], resolution):
            return unresolved
    ahead, behind = (first, second) if leads_a else (second, first)
    if not math.isfinite(mean(behind.best)):
        return (Reason("diverged", loser), *_unresolved(loser, contenders[loser], resolution))
    if not math.isfinite(mean(ahead.tuned)):
        return (Reason("diverged", winner),)
    gap = abs(mean([x - y for x, y in zip(ahead.tuned, behind.best, strict=True)]))
    if gap < resolution:
        return (Reason("tie"),)
    return (Reason("seeds", seeds=seeds_needed(ahead.tuned, behind.best, conduct, resolution)),)


def _unresolved(name: str, own: Entrant, resolution: float) -> tuple[Reason, ...]:
    """Where a better setting of a contender may lie, the widest reach first."""
    curves = own.curves(own.seeds, resolution / math.sqrt(6))
    reasons = []
    for k, points, found in sorted(curves, key=lambda curve: -curve[2].reach):
        if found.weakest is None:
            continue
        axis, weakest = own.space.axes[k], found.weakest
        low, high = (_value(own, points[i], k) for i in (weakest.left, weakest.right))
        if weakest.place == "gap":
            reasons.append(Reason("gap", name, axis.name, low, high))
        elif weakest.place == "above":
            reasons.append(Reason("edge", name, axis.name, low, None))
        else:
            reasons.append(Reason("edge", name, axis.name, None, high))
    if not reasons and own.lacks_combination(own.seeds, resolution / math.sqrt(6)):
        reasons.append(Reason("together", name))
    return tuple(reasons)


def _value(own: Entrant, point: Point, k: int) -> float:
    return own.space.axes[k].value(point[k])


def seeds_needed(
    ahead: Sequence[float], behind: Sequence[float], conduct: Conduct, resolution: float
) -> int | None:
    """About how many seeds would exclude 0, if mean and spread of the differences stay.

    Earlier looks are taken to have spent their part of the level. None if one seed tells nothing of
    the spread, or if more than MOST_SEEDS would be needed.
    """
    n = len(ahead)
    differences = [x - y for x, y in zip(ahead, behind, strict=True)]
    gap = abs(mean(differences))
    if n < 2 or not gap:
        return None
    variance = sum((value - mean(differences)) ** 2 for value in differences) / (n - 1)
    spread = max(math.sqrt(variance), resolution / math.sqrt(6))

    def p_of(count: int) -> float:
        return two_sided_p(gap * math.sqrt(count) / spread, count - 1) if spread else 0.0

    before = 0.0
    for most, allowed in LOOKS:
        level = (allowed - before) / len(conduct.pairs)
        before = allowed
        if conduct.trials and conduct.certify:
            level /= 2  # the other half is for bounds on what was not run
        counts = range(n + 1, (most or MOST_SEEDS) + 1)
        first = bisect_right(counts, -level, key=lambda count: -p_of(count))  # p falls
        if first < len(counts):
            return counts[first]
        n = max(n, most or n)
    return None
