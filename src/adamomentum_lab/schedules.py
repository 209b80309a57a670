"""Learning-rate schedules. A schedule computes the lr of an update from the optimizer's lr."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Moment:
    """The position of an update in a run: updates and (fractional) epochs since its start."""

    update: int
    epoch: float
    epochs: int
    history: tuple[float, ...] = ()
    """The metric after each epoch, on the split that selects the epoch."""


class Schedule(Protocol):
    """Anything with this method is a schedule."""

    def lr(self, base: float, now: Moment) -> float:
        """Return the lr of the update `now`. `base` is the lr of the optimizer."""
        ...


@dataclass(frozen=True)
class Constant:
    """The same lr throughout."""

    def lr(self, base: float, _: Moment) -> float:
        """Return the base."""
        return base


@dataclass(frozen=True)
class Step:
    """Multiplies the lr by `factor` at some epochs, given as fractions `at` of the run.

    The default is the paper's schedule for CIFAR-10: 0.2 at 60, 120 and 160 of 200 epochs.
    """

    at: tuple[float, ...] = (0.3, 0.6, 0.8)
    factor: float = 0.2

    def lr(self, base: float, now: Moment) -> float:
        """Return the base, reduced once for each drop so far."""
        return self.since(0, base, now)

    def since(self, start: int, base: float, now: Moment) -> float:
        """Return the base, reduced once for each drop from the epoch `start` on."""
        drops = [max(1, round(part * now.epochs)) for part in self.at]
        return base * self.factor ** sum(start <= drop <= now.epoch for drop in drops)


@dataclass(frozen=True)
class Restarted:
    """A `Step` schedule that restarts at the base once, when the score has stalled.

    The score has stalled after the first epoch that is worse than the best epoch more than
    `patience` before it. The authors' scripts then replace SGD by torch's ASGD with the initial lr,
    on Penn Treebank. They never use its average, so its steps are those of SGD. One difference
    remains: in torch's ASGD a change of the lr takes effect one update late.
    """

    steps: Step
    patience: int = 5

    def lr(self, base: float, now: Moment) -> float:
        """Return the base, reduced once for each drop since the restart."""
        return self.steps.since(self._restart(now.history), base, now)

    def _restart(self, scores: tuple[float, ...]) -> int:
        for epoch in range(self.patience + 1, len(scores)):
            if scores[epoch] > min(scores[: epoch - self.patience]):
                return epoch + 1
        return 0


@dataclass(frozen=True)
class Cosine:
    """Half a cosine from the base to `final`, updated at every update, after a linear `warmup`.

    Args:
        final: the lr at the end, as a fraction of the base.
        warmup: length of the warm-up, as a fraction of the run.
        end: the lr at the end, in place of `final`. It is not a fraction of the base. Where the
            base is smaller, the lr stays at the base.
    """

    final: float = 0.0
    warmup: float = 0.0
    end: float | None = None

    def lr(self, base: float, now: Moment) -> float:
        """Return the lr on the curve."""
        part = now.epoch / now.epochs
        if part < self.warmup:
            return base * part / self.warmup
        part = (part - self.warmup) / (1 - self.warmup)
        final = self.final if self.end is None else min(1.0, self.end / base)
        return base * (final + (1 - final) * (1 + math.cos(math.pi * part)) / 2)


@dataclass(frozen=True)
class InverseSqrt:
    """Linear from `start` to the base in `warmup` updates, then proportional to 1/sqrt(update).

    The defaults are the paper's for the Transformer: 8000 updates from 1e-7, and never below 1e-9.
    `start` and `least` are learning rates, not fractions of the base.
    """

    warmup: int = 8000
    start: float = 1e-7
    least: float = 1e-9

    def lr(self, base: float, now: Moment) -> float:
        """Return the lr on the curve."""
        update = now.update + 1
        if update < self.warmup:
            return self.start + (base - self.start) * update / self.warmup
        return max(self.least, base * math.sqrt(self.warmup / update))
