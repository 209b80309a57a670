"""A baseline at other lengths of training: its learning rate is checked again, then it is raced.

Like the referee, it knows points and scores only: a race asks it for tasks and tells it their
results. The same results always lead to the same tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from adamomentum_lab.errors import LabError
from adamomentum_lab.race.bracket import (
    RESOLVED,
    Point,
    Score,
    SearchSpace,
    best_point,
    is_finite,
    move,
)

AUTO = (0.5, 1.0, 2.0)
"""What `auto` begins with. Where a contender lies outside, it goes on to the ends of REACH."""
REACH = (0.25, 4.0)
FURTHER = 4
"""Steps of a quarter of a decade that the learning rate may move beyond its first neighbours."""


def parse_budgets(text: str) -> tuple[tuple[float, ...], bool]:
    """The budgets that a user gives, such as "0.5,1,2", and whether they are only the first.

    The usual length is always among them.
    """
    if text.strip() == "auto":
        return AUTO, True
    try:
        found = {1.0, *(float(part) for part in text.split(","))}
    except ValueError:
        found = {0.0}
    if not all(0.01 <= one <= 100 for one in found):
        raise LabError(
            f"--budgets is {text!r}; it must be auto, or lengths in parts of a usual run, such as "
            "0.5,1,2."
        )
    if len(found) < 2:
        raise LabError("--budgets needs a length beside 1, such as 0.5,1,2.")
    return tuple(sorted(found)), False


def lengths(budgets: Iterable[float], epochs: int, strict: bool = True) -> tuple[int, ...]:
    """The epochs of each budget but the usual one.

    With `strict`, budgets that are the same number of epochs, or none, raise an error; otherwise
    they are left out.
    """
    found: list[int] = []
    for budget in sorted(budgets):
        length = round(budget * epochs)
        usable = length >= 1 and length not in found and (length != epochs or budget == 1.0)
        if usable:
            found.append(length)
        elif strict:
            raise LabError(
                f"--budgets {budget:g} of {epochs} epochs is no length of its own: lengths are "
                "whole epochs, each of them different."
            )
    return tuple(length for length in found if length != epochs)


@dataclass(frozen=True)
class BudgetTask:
    """A run of the baseline that is wanted."""

    epochs: int
    point: Point
    seed: int
    stage: Literal["tuning", "final"]


@dataclass
class Length:
    """One length of training."""

    trials: dict[Point, Score] = field(default_factory=dict)
    waiting: int = 0
    moves: int = 0


class Budgets:
    """Conducts the runs of the baseline at other lengths."""

    def __init__(
        self, space: SearchSpace, tuned: Point, tuning_seed: int, seeds: Sequence[int]
    ) -> None:
        self.space, self.tuned = space, tuned
        self.tuning_seed, self.seeds = tuning_seed, seeds
        self.lengths: dict[int, Length] = {}

    def begin(self, epochs: Iterable[int]) -> list[BudgetTask]:
        """The first tasks at these lengths."""
        tasks = []
        for length in epochs:
            own = self.lengths[length] = Length()
            points = [self.tuned, *self._beside(self.tuned)] if self.checks_lr else []
            own.waiting = len(points)
            tasks += [BudgetTask(length, p, self.tuning_seed, "tuning") for p in points]
            tasks += [] if points else self._finals(length)
        return tasks

    def tell(self, task: BudgetTask, score: Score) -> list[BudgetTask]:
        """Take the result of a task; the tasks that follow from it."""
        if task.stage == "final":
            return []
        own = self.lengths[task.epochs]
        own.trials[task.point] = score
        own.waiting -= 1
        if own.waiting:
            return []
        best = best_point(own.trials, self.tuned)
        new = [point for point in self._beside(best) if point not in own.trials]
        if is_finite(own.trials[best]) and new and own.moves < FURTHER:
            own.moves += 1
            own.waiting = len(new)
            return [BudgetTask(task.epochs, p, self.tuning_seed, "tuning") for p in new]
        return self._finals(task.epochs)

    @property
    def checks_lr(self) -> bool:
        """Whether there is a learning rate that was searched."""
        return bool(self.space.axes) and self.space.axes[0].name == "lr"

    def _beside(self, point: Point) -> list[Point]:
        """A quarter of a decade to either side, within the walls."""
        axis, here = self.space.axes[0], point[0]
        assert here is not None
        places = (axis.clip(here + step) for step in (RESOLVED, -RESOLVED))
        return [move(point, 0, place) for place in places if place != here]

    def _finals(self, epochs: int) -> list[BudgetTask]:
        trials = self.lengths[epochs].trials
        best = best_point(trials, self.tuned) if trials else self.tuned
        return [BudgetTask(epochs, best, seed, "final") for seed in self.seeds]
