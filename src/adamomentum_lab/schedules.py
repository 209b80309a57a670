"""Learning rates over a run. A schedule gives the lr at a time from the lr at its start."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Moment:
    """Where in a run an update is: updates since the start, and epochs, parts included."""

    update: int
    epoch: float
    epochs: int
    history: tuple[float, ...] = ()
    """The metric after each epoch, on the split that chooses."""


class Schedule(Protocol):
    """The lr of one update."""

    def lr(self, base: float, now: Moment) -> float:
        """The lr of the update `now`, where `base` is the optimizer's own."""
        ...


@dataclass(frozen=True)
class Constant:
    """The same lr throughout."""

    def lr(self, base: float, _: Moment) -> float:
        """The base."""
        return base


@dataclass(frozen=True)
class Step:
    """Times `factor` at each of these parts of the run, at the beginning of an epoch.

    The paper's CIFAR-10 schedule, 0.2 at 60, 120 and 160 of 200 epochs, is the default.
    """

    at: tuple[float, ...] = (0.3, 0.6, 0.8)
    factor: float = 0.2

    def lr(self, base: float, now: Moment) -> float:
        """The base, reduced once for each part that has passed."""
        return self.since(0, base, now)

    def since(self, start: int, base: float, now: Moment) -> float:
        """The base, reduced once for each part that has passed from an epoch on."""
        drops = [max(1, round(part * now.epochs)) for part in self.at]
        return base * self.factor ** sum(start <= drop <= now.epoch for drop in drops)


@dataclass(frozen=True)
class Restarted:
    """Steps that begin at the base again, once, when the score has stalled.

    What the authors' scripts do to SGD on Penn Treebank: after the first epoch whose perplexity is
    above the best of those more than `patience` before it, they go on with torch's ASGD at the
    first lr. Its average is never looked at, and without it ASGD's steps are SGD's. (But torch's
    ASGD takes the lr of the update before: a change comes one update late, which it does not here.)
    """

    steps: Step
    patience: int = 5

    def lr(self, base: float, now: Moment) -> float:
        """The base, reduced once for each part that has passed since the restart."""
        return self.steps.since(self._restart(now.history), base, now)

    def _restart(self, scores: tuple[float, ...]) -> int:
        for epoch in range(self.patience + 1, len(scores)):
            if scores[epoch] > min(scores[: epoch - self.patience]):
                return epoch + 1
        return 0


@dataclass(frozen=True)
class Cosine:
    """Half a cosine from the base to `final`, update by update, after a linear `warmup`.

    Args:
        final: the lr at the end, as a part of the base.
        warmup: its length as a part of the run.
    """

    final: float = 0.0
    warmup: float = 0.0

    def lr(self, base: float, now: Moment) -> float:
        """The lr on the curve."""
        part = now.epoch / now.epochs
        if part < self.warmup:
            return base * part / self.warmup
        part = (part - self.warmup) / (1 - self.warmup)
        return base * (self.final + (1 - self.final) * (1 + math.cos(math.pi * part)) / 2)


@dataclass(frozen=True)
class InverseSqrt:
    """Linear from `start` to the base in `warmup` updates, then falling as 1/sqrt(update).

    The paper's Transformer: 8000 updates from 1e-7, never below 1e-9. `start` and `least` are
    learning rates, not parts of the base.
    """

    warmup: int = 8000
    start: float = 1e-7
    least: float = 1e-9

    def lr(self, base: float, now: Moment) -> float:
        """The lr on the curve."""
        update = now.update + 1
        if update < self.warmup:
            return self.start + (base - self.start) * update / self.warmup
        return max(self.least, base * math.sqrt(self.warmup / update))
