"""From the runs of a race to a ranking with its uncertainty."""

from __future__ import annotations

import math
import statistics
from dataclasses import asdict, dataclass, field
from typing import Any

from scipy import stats

from adamomentum_lab.runs.store import Run
from adamomentum_lab.training.loop import chosen
from adamomentum_lab.workloads import Workload

OURS = "adamomentum"


def final(run: Run, workload: Workload, epochs: int | None = None) -> dict[str, Any]:
    """What is reported of a run: the chosen epoch with its scores; nothing if it diverged."""
    record = chosen(run.epochs[:epochs], workload)
    lost = run.status == "failed" or (
        run.status == "diverged" and not (epochs and len(run.epochs) >= epochs)
    )
    return {} if lost or record is None else record


def validation_key(run: Run, workload: Workload) -> tuple[float, float]:
    """What a trial is chosen by, smaller is better: the metric, then the loss, on validation."""
    scores = final(run, workload).get("validation")
    if scores is None:
        return (math.inf, math.inf)
    metric = scores[workload.metric]
    return (-metric if workload.larger_is_better else metric, scores.get("loss", 0.0))


@dataclass(frozen=True)
class Estimate:
    """A mean with half the width of its 95 % t-interval; None where there is no such."""

    mean: float | None
    half: float | None
    n: int

    @classmethod
    def of(cls, values: list[float]) -> Estimate:
        """From independent values."""
        n = len(values)
        if not all(map(math.isfinite, values)):
            return cls(math.nan, None, n)
        if n < 2:
            return cls(values[0] if values else None, None, n)
        half = stats.t.ppf(0.975, n - 1) * statistics.stdev(values) / math.sqrt(n)
        return cls(statistics.fmean(values), float(half), n)


@dataclass
class Row:
    """One contender's place."""

    optimizer: str
    settings: dict[str, Any]
    score: Estimate
    """Of the metric on test."""
    values: list[float | None]
    """By seed; None where the run diverged, failed or has no finite score."""
    diverged: int
    failed: int
    difference: Estimate | None = None
    """To AdaMomentum, seed by seed; positive is a larger metric."""
    epochs_to_target: Estimate | None = None
    reached: int = 0
    rank: int = 0
    edge: str | None = None
    """Whether the chosen lr is the "largest", "smallest" or "only one" of those tried."""
    machine: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """A dictionary that JSON can write."""
        return asdict(self)


def ranking(finals: dict[str, list[Run]], workload: Workload) -> list[Row]:
    """Best first; who has lost a run stands behind all who have not."""
    rows = [_row(name, runs, workload) for name, runs in finals.items()]
    ours = next((row for row in rows if row.optimizer == OURS), None)
    for row in rows:
        if ours is not None and row is not ours:
            pairs = zip(row.values, ours.values, strict=True)
            row.difference = Estimate.of(
                [a - b for a, b in pairs if a is not None and b is not None]
            )
    sign = -1 if workload.larger_is_better else 1

    def key(row: Row) -> tuple[int, float]:
        mean = row.score.mean
        return (row.values.count(None), sign * mean if mean is not None else math.inf)

    rows.sort(key=key)
    for i, row in enumerate(rows):
        row.rank = i + 1
    return rows


def _row(name: str, runs: list[Run], workload: Workload) -> Row:
    metric = workload.metric
    scores = [_number(final(run, workload).get("test", {}).get(metric)) for run in runs]
    times = [run.machine["ms_per_update"] for run in runs if "ms_per_update" in run.machine]
    ended = [run for run in runs if run.status == "done"]
    reached = [epoch for run in ended if (epoch := epochs_to_target(run, workload)) is not None]
    return Row(
        optimizer=name,
        settings=runs[0].spec.as_json()["settings"],
        score=Estimate.of([score for score in scores if score is not None]),
        values=scores,
        diverged=sum(run.status == "diverged" for run in runs),
        failed=sum(run.status == "failed" for run in runs),
        epochs_to_target=Estimate.of([float(epoch) for epoch in reached]),
        reached=len(reached),
        machine={"ms_per_update": statistics.median(times) if times else None},
    )


def _number(score: float | None) -> float | None:
    return score if score is not None and math.isfinite(score) else None


def edge_of(chosen: float, tried: list[float]) -> str | None:
    """Where among the learning rates that were tried the chosen one is, if not in the middle."""
    if len(set(tried)) == 1:
        return "only one"
    if chosen == max(tried):
        return "largest"
    return "smallest" if chosen == min(tried) else None


def epochs_to_target(run: Run, workload: Workload) -> int | None:
    """The first epoch that reached the workload's target, on validation where there is such."""
    if workload.target is None:
        return None
    split = "validation" if workload.selection == "validation" else "test"
    for record in run.epochs:
        score = record[split][workload.metric]
        if score == workload.target or workload.better(score, workload.target):
            return int(record["epoch"])
    return None
