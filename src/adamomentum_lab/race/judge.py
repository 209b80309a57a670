"""From the runs of a race to a ranking with its uncertainty."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from adamomentum_lab.race.record import RunRecord
from adamomentum_lab.race.sensitivity import Sensitivity
from adamomentum_lab.selection import Measure, reported_epoch
from adamomentum_lab.space import Settings, Value, ends
from adamomentum_lab.stats.comparisons import Comparison, ScorePair, compare, relative_rounding
from adamomentum_lab.stats.estimates import Estimate, finite

Edge = Literal["largest", "smallest", "only one"]


class Goal(Measure, Protocol):
    """By what runs are judged, and the score they shall reach."""

    @property
    def target(self) -> float | None:
        """None where there is no such score."""


@dataclass(frozen=True)
class RowTimes:
    """What may differ between two identical races."""

    ms_per_update: float | None
    """The median of the runs."""
    seconds_to_target: Estimate


@dataclass(frozen=True)
class Row:
    """One contender's place."""

    optimizer: str
    settings: Settings
    score: Estimate
    """Of the metric on test."""
    values: list[float | None]
    """By seed; None where the run diverged, failed or has no finite score."""
    diverged: int
    failed: int
    digits: int | None = None
    """Significant digits of the values, where the record has fewer than were measured."""
    difference: Estimate | None = None
    """To the baseline, seed by seed; positive is a larger metric."""
    comparison: Comparison | None = None
    """With the baseline as its base; None of the baseline, and where there is none."""
    epochs_to_target: Estimate | None = None
    """Over the runs that reached it, as are the steps, and the seconds under `machine`."""
    steps_to_target: Estimate | None = None
    """Updates; None of runs that were recorded without their number."""
    reached: int = 0
    rank: int = 0
    """The same of those whose means are the same."""
    edge: Edge | None = None
    """Whether the chosen lr is the "largest", "smallest" or "only one" of those tried."""
    sensitivity: Sensitivity | None = None
    """To the lr, over the trials of its tuning."""
    machine: RowTimes = RowTimes(None, Estimate(None, None, 0))

    @property
    def lost(self) -> int:
        """Runs without a score."""
        return self.values.count(None)

    @property
    def unscored(self) -> int:
        """Runs that neither diverged nor failed, and have no score."""
        return self.lost - self.diverged - self.failed


@dataclass(frozen=True)
class Effect:
    """A single change from one contender to another, and what came of it."""

    what: str
    comparison: Comparison
    """Of the contender with the change beside the one without."""
    differing: dict[str, list[object]]
    """Settings that were not the same, without the change and with it."""
    caveat: str
    """What else the difference may come from; empty if nothing."""


def ranking(
    finals: Mapping[str, Sequence[RunRecord]],
    goal: Goal,
    baseline: str | None,
    digits: int | None = None,
) -> list[Row]:
    """Best first; who has lost a run stands behind all who have not."""
    rows = {name: _row(name, runs, goal, digits) for name, runs in finals.items()}
    if baseline in rows:
        others = {name: row.values for name, row in rows.items() if name != baseline}
        base = rows[baseline].values
        for found in compare(baseline, base, others, goal.larger_is_better, digits):
            row = rows[found.other]
            rows[found.other] = replace(row, comparison=found, difference=found.difference)
    sign = -1 if goal.larger_is_better else 1
    order = sorted(
        rows.values(),
        key=lambda row: (row.lost, row.score.mean is None, sign * (row.score.mean or 0.0)),
    )
    ranked: list[Row] = []
    for i, row in enumerate(order):
        tie = i > 0 and share_rank(row, order[i - 1])
        ranked.append(replace(row, rank=ranked[-1].rank if tie else i + 1))
    places = list(rows)
    return sorted(ranked, key=lambda row: (row.rank, places.index(row.optimizer)))


def score_pair(base: Row, other: Row) -> ScorePair:
    """Two rows as they are compared."""
    return ScorePair(base.optimizer, other.optimizer, base.values, other.values, base.digits)


def share_rank(row: Row, other: Row) -> bool:
    """Whether two have the same mean, and lost as many runs."""
    a, b = row.score.mean, other.score.mean
    rounding = relative_rounding(row.digits)
    close = a == b if a is None or b is None else math.isclose(a, b, rel_tol=rounding)
    return close and row.lost == other.lost


def _row(name: str, runs: Sequence[RunRecord], goal: Goal, digits: int | None) -> Row:
    ends = [reported_epoch(run, goal).get("test", {}) for run in runs]
    scores = finite([end.get(goal.metric) for end in ends])
    times = [ms for run in runs if (ms := run.machine.ms_per_update) is not None]
    done = [(run, epochs_to_target(run, goal)) for run in runs if run.status == "done"]
    reached = [(run, epoch) for run, epoch in done if epoch is not None]
    steps = [step for run, epoch in reached if (step := _steps(run, epoch)) is not None]
    seconds = [sum(run.machine.epoch_seconds[:epoch]) for run, epoch in reached]
    return Row(
        optimizer=name,
        settings=runs[0].settings,
        score=Estimate.of([score for score in scores if score is not None]),
        values=scores,
        diverged=sum(run.status == "diverged" for run in runs),
        failed=sum(run.status == "failed" for run in runs),
        digits=digits,
        epochs_to_target=Estimate.of([float(epoch) for _, epoch in reached]),
        steps_to_target=Estimate.of(steps) if len(steps) == len(reached) else None,
        reached=len(reached),
        machine=RowTimes(statistics.median(times) if times else None, Estimate.of(seconds)),
    )


def _steps(run: RunRecord, epoch: int) -> float | None:
    """Updates up to the end of an epoch: exactly where all epochs have as many, and else, on Penn
    Treebank, in proportion."""
    updates = run.machine.updates
    return None if updates is None else updates * epoch / run.trained


def edge_of(chosen: Value, tried: Sequence[Value]) -> Edge | None:
    """Where among the learning rates that were tried the chosen one is, if not in the middle."""
    if len(set(tried)) == 1:
        return "only one"
    low, high = ends(tried)
    if chosen == high:
        return "largest"
    return "smallest" if chosen == low else None


def epochs_to_target(run: RunRecord, goal: Goal) -> int | None:
    """The first epoch that reached the workload's target, on validation where there is such."""
    if goal.target is None:
        return None
    split = "validation" if goal.selection == "validation" else "test"
    sign = 1 if goal.larger_is_better else -1
    for record in run.epochs:
        score = record.get(split, {}).get(goal.metric)
        if score is not None and sign * score >= sign * goal.target:
            return int(record["epoch"])
    return None
