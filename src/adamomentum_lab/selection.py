"""Which epoch of a run is reported, and by what score trials are ranked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from adamomentum_lab.rules import Selection

EpochRecord = dict[str, Any]
"""Of one epoch: its number, and the scores of train and, where measured, validation and test."""


class Measure(Protocol):
    """By what runs are judged: what a workload and its record have in common."""

    @property
    def metric(self) -> str:
        """The score that counts."""

    @property
    def larger_is_better(self) -> bool:
        """Of that score."""

    @property
    def selection(self) -> Selection:
        """The epoch that is reported: the best on validation; the last; the best on test."""


class Trained(Protocol):
    """What is known of a run."""

    @property
    def status(self) -> str:
        """How it ended."""

    @property
    def epochs(self) -> Sequence[EpochRecord]:
        """Those it has."""


def select_epoch(epochs: Sequence[EpochRecord], by: Measure) -> EpochRecord | None:
    """The epoch that is reported, by the rule of selection, if it has a score."""
    if by.selection == "last" or not epochs:
        return epochs[-1] if epochs else None
    sign = 1 if by.larger_is_better else -1
    best, most = None, -math.inf
    for record in epochs:
        score = record[by.selection][by.metric]
        if score is not None and math.isfinite(score) and sign * score > most:
            best, most = record, sign * score
    return best


def reported_epoch(run: Trained, by: Measure, epochs: int | None = None) -> EpochRecord:
    """What is reported of a run: the selected epoch with its scores; nothing if it diverged.

    Args:
        run: what was trained.
        by: the metric and the rule of selection that count.
        epochs: look at no more than so many.
    """
    record = select_epoch(run.epochs[:epochs], by)
    enough = epochs and len(run.epochs) >= epochs  # it diverged later, if at all
    lost = run.status == "failed" or (run.status == "diverged" and not enough)
    return {} if lost or record is None else record


def trial_score(run: Trained, by: Measure) -> tuple[float, float]:
    """What a trial is chosen by, smaller is better: the metric, then the loss, on validation."""
    scores = reported_epoch(run, by).get("validation")
    if scores is None:
        return (math.inf, math.inf)
    metric, loss = scores[by.metric], scores.get("loss", 0.0)
    sign = -1 if by.larger_is_better else 1
    return (sign * metric, math.inf if loss is None or math.isnan(loss) else loss)
