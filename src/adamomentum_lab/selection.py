"""Select the epoch of a run that is reported, and score trials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from adamomentum_lab.rules import Selection

EpochRecord = dict[str, Any]
"""One epoch: its number, and the scores of each split that was evaluated."""


class Measure(Protocol):
    """How runs are judged. Workloads and their records both have these properties."""

    @property
    def metric(self) -> str:
        """The name of the score that counts."""

    @property
    def larger_is_better(self) -> bool:
        """Whether a larger score is better."""

    @property
    def selection(self) -> Selection:
        """Which epoch is reported: the best on validation, the last, or the best on test."""


class Trained(Protocol):
    """A run, as far as this module reads it."""

    @property
    def status(self) -> str:
        """How the run ended."""

    @property
    def epochs(self) -> Sequence[EpochRecord]:
        """The records of its epochs."""


def select_epoch(epochs: Sequence[EpochRecord], by: Measure) -> EpochRecord | None:
    """Return the reported epoch. None if no epoch has a finite score.

    The rule `last` returns the last epoch, whatever its score.
    """
    if by.selection == "last" or not epochs:
        return epochs[-1] if epochs else None
    sign = 1 if by.larger_is_better else -1
    best, most = None, -math.inf
    for record in epochs:
        score = record[by.selection][by.metric]
        if score is not None and math.isfinite(score) and sign * score > most:
            best, most = record, sign * score
    return best


FAULTS = ("failed", "lost")
"""The status of a run that failed by a fault of the problem, or was lost by one of the machine.
Neither counts against an optimizer."""


def reported_epoch(run: Trained, by: Measure, epochs: int | None = None) -> EpochRecord:
    """Return the selected epoch of a run, or an empty record if it failed or diverged.

    Args:
        run: the run.
        by: the metric and the selection rule.
        epochs: use only this many first epochs. A run that diverged later counts.
    """
    record = select_epoch(run.epochs[:epochs], by)
    enough = epochs and len(run.epochs) >= epochs  # divergence after these epochs does not matter
    lost = run.status in FAULTS or (run.status == "diverged" and not enough)
    return {} if lost or record is None else record


def trial_score(run: Trained, by: Measure) -> tuple[float, float]:
    """Return the score of a trial, smaller is better: validation metric, then validation loss."""
    scores = reported_epoch(run, by).get("validation", {})
    metric, loss = scores.get(by.metric), scores.get("loss", 0.0)
    if metric is None or not math.isfinite(metric):
        return (math.inf, math.inf)
    sign = -1 if by.larger_is_better else 1
    return (sign * metric, math.inf if loss is None or math.isnan(loss) else loss)
