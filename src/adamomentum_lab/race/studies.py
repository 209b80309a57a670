"""Repeated studies: tuning and final runs again, with other seeds for both.

Seeds of one study share its settings, so they tell nothing of the luck of tuning. Here the unit is
the study: one number for each, the difference of the means of its final runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from adamomentum_lab.engine.store import Store
from adamomentum_lab.race.looks import Look, plan_looks, record_looks
from adamomentum_lab.race.plan import Race
from adamomentum_lab.race.referee import Pair
from adamomentum_lab.race.result import Result
from adamomentum_lab.race.verdict import Reason, Verdict
from adamomentum_lab.stats.potential import mean
from adamomentum_lab.stats.verdicts import Standing, interval, kind_of


def studies_of(race: Race) -> list[Race]:
    """The race of each study."""
    return [replace(race, study=study) for study in range(race.studies)]


def record_studies(results: Sequence[Result], store: Store) -> list[Result]:
    """Note in the store the look at all studies together, and in each record."""
    race, count = results[0].race, len(results)
    levels = plan_looks(race, store, studies=count)
    scores = {name: [_mean_score(name, one) for one in results] for name in race.optimizers}
    looks = record_looks(race, store, levels, scores)
    return [replace(one, record=replace(one.record, looks=looks)) for one in results]


def group_studies(results: Iterable[Result]) -> list[list[Result]]:
    """The studies of each race of several, by their numbers. Those with fewer than two are left
    out."""
    found: dict[Race, list[Result]] = {}
    for one in results:
        if one.race.studies > 1:
            found.setdefault(replace(one.race, study=0, studies=2), []).append(one)
    return [sorted(group, key=lambda one: one.race.study) for group in found.values() if group[1:]]


def judge_studies(results: Sequence[Result]) -> tuple[Verdict, ...]:
    """The verdict on each pair, with the study as the unit of chance."""
    race = results[0].race
    looks = {(look.a, look.b): look for look in results[0].record.looks}
    return tuple(_judge(pair, results, looks.get((pair.a, pair.b))) for pair in race.pairs)


def _judge(pair: Pair, results: Sequence[Result], look: Look | None) -> Verdict:
    race, larger = results[0].race, results[0].workload.larger_is_better
    level = look.level if look else 0.0
    lost = [
        Reason("lost runs", name)
        for name in (pair.a, pair.b)
        if any(one.contenders[name].faulty for one in results)
    ]
    none = (None, None)
    tuned, count = race.trials > 0, len(race.pairs)
    open_verdict = Verdict(
        pair.a, pair.b, "not comparable", len(results), None, none, none, level, count, tuned,
        tuple(lost), "study",
    )  # fmt: skip
    if lost:
        return open_verdict
    a, b = ([_mean_score(name, one) for one in results] for name in (pair.a, pair.b))
    resolution = max(one.resolution for one in results)
    found = interval(Standing(a, a, 0.0), Standing(b, b, 0.0), level / count, resolution)
    kind = kind_of(found, race.margin)
    gap = mean([x - y for x, y in zip(a, b, strict=True)])
    sign = -1 if larger else 1
    low, high = (found.low, found.high) if sign > 0 else (-found.high, -found.low)
    ends = tuple(end if math.isfinite(end) else None for end in (low, high))
    reasons: tuple[Reason, ...] = ()
    if kind == "undecided":
        diverged = [n for n, own in ((pair.a, a), (pair.b, b)) if not math.isfinite(mean(own))]
        reasons = tuple(Reason("diverged", name) for name in diverged)
        reasons = reasons or ((Reason("seeds"),) if level else (Reason("looks"),))
    return replace(
        open_verdict,
        kind=kind,
        difference=sign * gap if math.isfinite(gap) else None,
        interval=(ends[0], ends[1]),
        seed_interval=(ends[0], ends[1]),
        reasons=reasons,
    )


def _mean_score(name: str, result: Result) -> float:
    """Of the final runs at the settings of this study, smaller is better."""
    own = result.contenders[name]
    return mean(own.scores(own.tuned, result.race.seeds))
