"""Which epoch of a run is reported, and by what score trials are ranked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from adamomentum_lab.workload import Workload

EpochRecord = dict[str, Any]
"""Of one epoch: its number, and the scores of train and, where measured, validation and test."""


class Trained(Protocol):
    """What is known of a run."""

    status: str
    epochs: list[EpochRecord]


def select_epoch(epochs: Sequence[EpochRecord], workload: Workload) -> EpochRecord | None:
    """The epoch that is reported, by the workload's rule of selection, if it has a score."""
    selection = workload.selection
    if selection == "last" or not epochs:
        return epochs[-1] if epochs else None
    best = None
    for record in epochs:
        score = record[selection][workload.metric]
        if not math.isnan(score) and (
            best is None or workload.better(score, best[selection][workload.metric])
        ):
            best = record
    return best


def reported_epoch(run: Trained, workload: Workload, epochs: int | None = None) -> EpochRecord:
    """What is reported of a run: the selected epoch with its scores; nothing if it diverged.

    Args:
        run: what was trained.
        workload: whose metric and rule of selection count.
        epochs: look at no more than so many.
    """
    record = select_epoch(run.epochs[:epochs], workload)
    enough = epochs and len(run.epochs) >= epochs  # it diverged later, if at all
    lost = run.status == "failed" or (run.status == "diverged" and not enough)
    return {} if lost or record is None else record


def trial_score(run: Trained, workload: Workload) -> tuple[float, float]:
    """What a trial is chosen by, smaller is better: the metric, then the loss, on validation."""
    scores = reported_epoch(run, workload).get("validation")
    if scores is None:
        return (math.inf, math.inf)
    metric, loss = scores[workload.metric], scores.get("loss", 0.0)
    sign = -1 if workload.larger_is_better else 1
    return (sign * metric, math.inf if math.isnan(loss) else loss)
