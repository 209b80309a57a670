"""How much an optimizer depends on its learning rate, from the trials of its tuning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from adamomentum_lab.race.record import RunRecord
from adamomentum_lab.selection import Measure, reported_epoch
from adamomentum_lab.stats.estimates import finite
from adamomentum_lab.stats.profiles import expected_best

WITHIN = 0.02
"""How far from the best, relative to it, a score still counts as good: our choice."""
FEWEST = 3
"""Learning rates below which nothing is said of their spread."""


@dataclass(frozen=True)
class Point:
    """A learning rate that was tried."""

    lr: float
    best: float | None
    """The best validation score of its trials; None where all were lost."""
    trials: int


@dataclass(frozen=True)
class Sensitivity:
    """Of one optimizer, on validation."""

    optimizer: str
    points: list[Point]
    """By learning rate, smallest first. Other settings were tried along with them."""
    decades: float | None
    """From the smallest to the largest learning rate whose best score comes within 2 % of the best
    of all optimizers; 0 if there is one such. None if there is none, or too few were tried."""
    note: str | None
    """Why there are no decades, where there are none."""
    expected_best: list[float | None]
    """After 1, 2, ... trials drawn from those run."""


def sensitivity(
    tried: Sequence[RunRecord], by: Measure, within: float = WITHIN
) -> dict[str, Sensitivity]:
    """By optimizer, from the tuning runs of a race.

    What is good is measured by the best of all optimizers: one that is equally bad at every
    learning rate shall not pass for robust.
    """
    ends = [reported_epoch(run, by).get("validation", {}) for run in tried]
    scores = finite([end.get(by.metric) for end in ends])
    pick = max if by.larger_is_better else min
    best = pick((score for score in scores if score is not None), default=math.nan)
    room = within * abs(best)
    found = {}
    for name in dict.fromkeys(run.spec.optimizer for run in tried):
        by_lr: dict[float, list[float | None]] = {}
        mine = []
        for run, score in zip(tried, scores, strict=True):
            if run.spec.optimizer == name and "lr" in dict(run.spec.settings):
                by_lr.setdefault(dict(run.spec.settings)["lr"], []).append(score)
                mine.append(score)
        points = []
        for lr, at in sorted(by_lr.items()):
            points.append(Point(lr, pick((s for s in at if s is not None), default=None), len(at)))
        good = [p.lr for p in points if p.best is not None and abs(p.best - best) <= room]
        note = None
        if any(run.status == "stopped" for run in tried):
            note = "trials were stopped at different epochs"
        elif len(points) < FEWEST:
            note = f"fewer than {FEWEST} learning rates were tried"
        elif not good:
            note = f"no learning rate came within {within:.0%} of the best of all"
        found[name] = Sensitivity(
            optimizer=name,
            points=points,
            decades=None if note else math.log10(good[-1] / good[0]),
            note=note,
            expected_best=expected_best(mine, by.larger_is_better),
        )
    return found
