"""What races on several workloads say together, for the overview of the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adamomentum_lab.race.result import Result
from adamomentum_lab.report.forest import Forest, Interval, Scale
from adamomentum_lab.stats.aggregates import (
    FEWEST,
    Band,
    Ranks,
    improvements,
    interquartile_means,
    mean_ranks,
)
from adamomentum_lab.words import count_noun, join_words


@dataclass(frozen=True)
class Together:
    """Several workloads of one protocol and scale."""

    workloads: tuple[str, ...]
    baseline: str
    scores: dict[str, Band]
    """Interquartile means of normalised scores, best first."""
    improvements: Forest
    """Probabilities that a run beats one of the baseline."""
    ranks: Ranks | None
    words: tuple[str, ...]


def together(races: Sequence[Result]) -> Together | None:
    """Of the largest group of races with one protocol, scale and baseline; None if it has fewer
    than two workloads or optimizers. Of several races of a workload that with most runs counts."""
    groups: dict[tuple[str, str, str], dict[str, Result]] = {}
    for one in sorted(races, key=lambda one: (one.race.trials, one.race.seeds)):
        race = one.race
        if race.baseline is not None:
            key = (race.protocol, race.scale, race.baseline)
            groups.setdefault(key, {})[race.workload] = one
    (protocol, scale, base), found = max(
        groups.items(), key=lambda item: len(item[1]), default=(("", "", ""), {})
    )
    if len(found) < 2:
        return None
    table = {workload: _scores(one) for workload, one in sorted(found.items())}
    shared = [n for n in table[next(iter(table))] if all(n in own for own in table.values())]
    if base not in shared or len(shared) < 2:
        return None
    table = {workload: {n: own[n] for n in shared} for workload, own in table.items()}
    ranks = mean_ranks(table)
    about = (
        f"{count_noun(len(table), 'workload')} ({join_words([*table])}; {scale}, {protocol}). "
        "Optimizers that were not raced on all of them, or lost a run, are left out. Intervals are "
        "95 % intervals over seeds, redrawn for each workload; they say nothing about other "
        "workloads, and are not corrected for the number of optimizers."
    )
    words = [about]
    if len(table) < FEWEST:
        words.append(
            f"A critical-difference diagram needs {FEWEST} workloads; {len(table)} are too few for "
            "a statement about ranks."
        )
    scores = interquartile_means(table)
    order = sorted(scores, key=lambda name: -scores[name].value)
    chances = improvements(table, base)
    return Together(
        tuple(table),
        base,
        {name: scores[name] for name in order},
        _forest({name: chances[name] for name in order if name != base}),
        ranks,
        tuple(words),
    )


def _scores(one: Result) -> dict[str, list[float]]:
    """By optimizer, larger is better; without those that lost a run."""
    sign = 1.0 if one.workload.larger_is_better else -1.0
    return {
        row.optimizer: [sign * v for v in row.values if v is not None]
        for row in one.rows
        if row.values and not row.lost
    }


def _forest(found: dict[str, Band]) -> Forest:
    scale = Scale.of([0.0, 1.0])
    rows = []
    for name, band in found.items():
        side = "better" if band.low > 0.5 else "worse" if band.high < 0.5 else "open"
        kind = {"better": "more often", "worse": "less often", "open": "either way"}[side]
        words = f"{band.value:.2f} ({band.low:.2f} to {band.high:.2f})"
        left, dot, right = map(scale, (band.low, band.value, band.high))
        rows.append(Interval(name, words, kind, side, left, right, dot))
    ticks = tuple((scale(tick), f"{tick:g}") for tick in (0.0, 0.25, 0.5, 0.75, 1.0))
    return Forest(tuple(rows), scale(0.5), None, ticks, "right")
