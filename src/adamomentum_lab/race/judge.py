"""From the record of a race to a ranking, and to what the referee knows of each contender."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, Protocol

from adamomentum_lab.engine.events import Stage
from adamomentum_lab.race.bracket import Axis, Choice, Point, Score, SearchSpace, is_finite
from adamomentum_lab.race.record import Place, Record, RunRecord
from adamomentum_lab.race.referee import LOST, Conduct, Entrant, Pair
from adamomentum_lab.race.sensitivity import Sensitivity
from adamomentum_lab.race.spaces import listed_space, point_of
from adamomentum_lab.race.verdict import Verdict
from adamomentum_lab.selection import FAULTS, Measure, Trained, reported_epoch, trial_score
from adamomentum_lab.space import Settings, Value, ends
from adamomentum_lab.stats.comparisons import relative_rounding
from adamomentum_lab.stats.estimates import Estimate, finite
from adamomentum_lab.stats.verdicts import LEVEL

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
    """Or lost by a fault of the machine."""
    digits: int | None = None
    """Significant digits of the values, where the record has fewer than were measured."""
    verdict: Verdict | None = None
    """Beside the baseline; None of the baseline itself, and if there is none."""
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
    verdict: Verdict
    """On the contender with the change beside the one without."""
    differing: dict[str, list[object]]
    """Settings that were not the same, without the change and with it."""
    caveat: str
    """What else the difference may come from; empty if nothing."""


def task_score(stage: Stage, run: Trained, by: Measure) -> Score | None:
    """What the referee is told of a run, smaller is better: infinite if it diverged, None if it
    failed for a reason that is not the optimizer's."""
    if run.status in FAULTS:
        return None
    if stage == "tuning":
        return trial_score(run, by)
    value = reported_epoch(run, by).get("test", {}).get(by.metric)
    if value is None or not math.isfinite(value):
        return LOST
    return (-value if by.larger_is_better else value, 0.0)


def tell_trials(own: Entrant, tried: Iterable[tuple[Point, Trained]], by: Measure) -> None:
    """Tell a contender the results of its tuning.

    With successive halving, those that trained longest count.
    """
    runs = [(point, run, task_score("tuning", run, by)) for point, run in tried]
    own.faulty |= any(score is None for _, _, score in runs)
    able = [len(run.epochs) for _, run, score in runs if score is not None and is_finite(score)]
    longest = max(able, default=0)
    for point, run, score in runs:
        if score is None or not is_finite(score) or len(run.epochs) == longest:
            own.trials[point] = score or LOST


def contenders_of(record: Record) -> dict[str, Entrant]:
    """What the referee knew of each contender at the end of the race."""
    return {name: _contender(name, record) for name in record.spec.optimizers}


def _contender(name: str, record: Record) -> Entrant:
    runs = [run for run in record.runs if run.spec.optimizer == name]
    tried = [run for run in runs if run.stage == "tuning"]
    if name in record.search.axes:
        axes = tuple(
            Axis(a.name, a.start, _point(a.first), _exact(a.low), _exact(a.high))
            for a in record.search.axes[name]
        )
        listed = record.search.choices.get(name, {})
        whole = record.spec.search == "bracket"
        choices = tuple(Choice(k, values, whole) for k, values in listed.items())
        space = SearchSpace({}, axes, choices)
    else:
        space = listed_space([run.settings for run in (tried or runs)])

    def place(run: RunRecord) -> Point:
        return point_of(space, run.settings) if run.point is None else _point(run.point)

    own = Entrant(space, None)
    # A small record has one epoch of a trial; what counts is how long it trained.
    tell_trials(own, [(place(run), _Trial(run)) for run in tried], record.workload)
    for run in runs:
        if run.stage != "tuning":
            score = task_score(run.stage, run, record.workload)
            own.faulty |= score is None
            own.finals.setdefault(place(run), {})[run.spec.seed] = (score or LOST)[0]
    own.asked = list(own.finals)
    own.seeds = len(own.finals.get(own.tuned, ()))
    return own


class _Trial:
    """A trial with as many epochs as it trained."""

    def __init__(self, run: RunRecord) -> None:
        self.status = run.status
        missing = run.trained - len(run.epochs)
        self.epochs = run.epochs if missing <= 0 else (run.epochs[:1] * missing + run.epochs)


def _point(place: Place) -> Point:
    return tuple(_exact(position) for position in place)


def _exact(position: float | None) -> Fraction | None:
    return None if position is None else Fraction(position)


def conduct_of(record: Record, pairs: tuple[Pair, ...]) -> Conduct:
    """How the race was conducted, for these pairs. A pair that the race did not look at by itself
    has the level of those it did."""
    race = record.spec
    levels: dict[int, float] = {}
    by_pair: dict[Pair, dict[int, float]] = {}
    for look in record.looks:
        levels[look.seeds] = max(levels.get(look.seeds, 0.0), look.level)
        by_pair.setdefault(Pair(look.a, look.b), {})[look.seeds] = look.level
    return Conduct(
        race.trials, levels or {race.seeds: LEVEL}, pairs, by_pair, race.certify, race.margin
    )


def ranking(
    finals: Mapping[str, Sequence[RunRecord]],
    goal: Goal,
    verdicts: Iterable[Verdict] = (),
    digits: int | None = None,
) -> list[Row]:
    """Best first. Contenders that lost runs rank behind those that did not, and those that
    were not raced behind all."""
    about = {verdict.a: verdict for verdict in verdicts}
    rows = {
        name: replace(_row(name, runs, goal, digits), verdict=about.get(name))
        for name, runs in finals.items()
    }
    sign = -1 if goal.larger_is_better else 1
    order = sorted(
        rows.values(),
        key=lambda row: (
            not row.values,
            row.lost,
            row.score.mean is None,
            sign * (row.score.mean or 0.0),
        ),
    )
    ranked: list[Row] = []
    for i, row in enumerate(order):
        tie = i > 0 and share_rank(row, order[i - 1])
        ranked.append(replace(row, rank=ranked[-1].rank if tie else i + 1))
    places = list(rows)
    return sorted(ranked, key=lambda row: (row.rank, places.index(row.optimizer)))


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
        settings=runs[0].settings if runs else {},
        score=Estimate.of([score for score in scores if score is not None]),
        values=scores,
        diverged=sum(run.status == "diverged" for run in runs),
        failed=sum(run.status in FAULTS for run in runs),
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
