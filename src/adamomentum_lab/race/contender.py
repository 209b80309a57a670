"""A contender as the referee knows it: its runs, and what a setting not run could still give."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, TypeVar

from adamomentum_lab.race.bracket import (
    RESOLVED,
    Point,
    Position,
    Score,
    Search,
    SearchSpace,
    best_point,
    line_of,
    move,
    on_line,
)
from adamomentum_lab.stats.potential import Potential, mean, potential
from adamomentum_lab.stats.verdicts import Standing

Line = tuple[int, list[Point], Potential]
"""An axis, the points on it, and what they leave to find."""
T = TypeVar("T")
WIDEST = 0.5001
"""Decades. Scores often level off a decade from the best lr: at that of an untrained network."""


@dataclass
class Entrant:
    """What the referee knows of a contender."""

    space: SearchSpace
    search: Search | None
    """None if nothing is searched."""
    trials: dict[Point, Score] = field(default_factory=dict)
    finals: dict[Point, dict[int, float]] = field(default_factory=dict)
    """By point and seed, the scores on test; infinite where a run diverged."""
    asked: list[Point] = field(default_factory=list)
    """The points that are run on the final seeds: the tuned one first."""
    certified: int = 0
    """How many of them are neither the tuned point nor a neighbour that tuning had tried."""
    seeds: int = 0
    """How many final seeds its points are run on."""
    faulty: bool = False
    """Whether a run was lost for a reason that is not the optimizer's."""
    _known: dict[Any, Any] = field(default_factory=dict, repr=False)
    """Curves and standings that follow from the runs there are."""
    _runs: int = 0
    """How many runs these follow from."""

    @property
    def tuned(self) -> Point:
        """The point that tuning chose."""
        if not self.trials:
            return self.space.start
        return self._once("tuned", lambda: best_point(self.trials, self.space.start))

    def scores(self, point: Point, seeds: int) -> list[float]:
        """Of the first so many seeds, in their order."""
        return [score for _, score in sorted(self.finals[point].items())[:seeds]]

    def run_points(self, seeds: int) -> list[Point]:
        """The points that were run on at least so many seeds."""
        return [point for point, own in self.finals.items() if len(own) >= seeds]

    def alternatives(self) -> list[Point]:
        """The points with another value of one choice: at the tuned lr, and at the lr that tuning
        found best with that value."""
        found: dict[Point, None] = {}
        for k, choice in enumerate(self.space.choices, len(self.space.axes)):
            for i in range(len(choice.values)):
                point = move(self.tuned, k, i)
                if i == self.tuned[k] or not (choice.whole or point in self.trials):
                    continue
                found[point] = None
                if choice.whole and self.space.axes:
                    line = on_line(self.trials, point, 0)
                    found[best_point(line, self.tuned) if line else point] = None
        return list(found)

    def neighbours(self) -> list[Point]:
        """The points beside the tuned one: on every axis those that tuning tried, and the other
        values of every choice. One seed tells choices apart too badly to leave any out."""
        found = self.alternatives()
        for k, axis in enumerate(self.space.axes):
            here = self.tuned[k]
            places = line_of(self.trials, self.tuned, k)
            above = [p for p in places if p is not None and (here is None or p > here)]
            below = [p for p in places if here is not None and (p is None or p < here)]
            if axis.has_zero:
                # One seed tells small weight decays from none too badly to leave any out.
                found += [move(self.tuned, k, p) for p in places if p != here]
                continue
            beside: list[Position] = []
            if below:
                beside.append(max(below, key=_number_or_least))
            if above:
                beside.append(min(above, key=float))
            found += [move(self.tuned, k, p) for p in beside]
        return found

    def _once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """What was computed before, unless there are new runs."""
        runs = len(self.trials) + sum(map(len, self.finals.values()))
        if runs != self._runs:
            self._known, self._runs = {}, runs
        if key not in self._known:
            self._known[key] = compute()
        found: T = self._known[key]
        return found

    def curves(self, seeds: int, floor: float = 0.0, without: Point | None = None) -> list[Line]:
        """By axis: the points on the line through the tuned one, and what they leave to find.

        The score is taken to be convex in the logarithm of a setting. Beside 0 it cannot be: there
        it is nearly constant. An axis with 0 is judged by the setting itself as well, and the
        larger reach counts.
        """
        key = seeds, floor, without
        return self._once(key, lambda: self._curves(*key))

    def _curves(self, seeds: int, floor: float, without: Point | None) -> list[Line]:
        found = []
        done = {point: None for point in self.run_points(seeds) if point != without}
        for k, axis in enumerate(self.space.axes):
            line = sorted(line_of(done, self.tuned, k), key=_number_or_least)
            points = [move(self.tuned, k, p) for p in line]
            scores = [self.scores(point, seeds) for point in points]
            scales = [[float(p) for p in on_scale(line)]]
            if axis.has_zero:
                scales.append([axis.value(p) / axis.start for p in line])
            bounds = [
                potential(
                    scale,
                    scores,
                    ends_below=line[0] is None or (axis.low is not None and line[0] == axis.low),
                    ends_above=axis.high is not None and line[-1] == axis.high,
                    floor=floor,
                    widest=math.inf if axis.has_zero else WIDEST,
                )
                for scale in scales
            ]
            found.append((k, points, max(bounds, key=lambda one: one.reach)))
        return found

    def next_point(
        self, seeds: int, floor: float = 0.0, without: Point | None = None
    ) -> Point | None:
        """The point that would lower the largest reach; None if there is none."""
        curves = self.curves(seeds, floor, without)
        done = {point: None for point in self.run_points(seeds) if point != without}
        if (corner := self._corner(curves, done, seeds)) not in done:
            return corner
        if not curves:
            return None
        k, points, found = max(curves, key=lambda curve: curve[2].reach)
        places = [point[k] for point in points]
        new = _further_position(places, found) if found.weakest is not None else None
        if new is None:
            return None
        point = move(self.tuned, k, self.space.axes[k].clip(Fraction(new)))
        return None if point in points else point

    def _corner(self, curves: Sequence[Line], done: Collection[Point], seeds: int) -> Point:
        """The point that is the best on every axis and of every choice."""
        corner = self.tuned
        for k, line, found in curves:
            if found.best is not None:
                corner = move(corner, k, line[found.best][k])
        others = [point for point in self.alternatives() if point in done]
        for k in range(len(curves), len(corner)):
            ways = [self.tuned, *(point for point in others if point[k] != self.tuned[k])]
            best = min(ways, key=lambda point: mean(self.scores(point, seeds)))
            corner = move(corner, k, best[k])
            if curves and best[0] != self.tuned[0]:
                corner = move(corner, 0, best[0])
        return corner

    def _lacks(self, curves: Sequence[Line], done: Collection[Point], seeds: int) -> bool:
        """Whether another choice, or the best of all settings together, was not run."""
        needed = [*self.alternatives(), self._corner(curves, done, seeds)]
        return any(point not in done for point in needed)

    def lacks_combination(self, seeds: int, floor: float = 0.0) -> bool:
        """Whether its best values of several settings were not run together."""
        return self._lacks(self.curves(seeds, floor), self.run_points(seeds), seeds)

    def standing(self, seeds: int, floor: float = 0.0) -> Standing:
        """Where it stands after so many final seeds."""
        return self._once((seeds, floor), lambda: self._stand(seeds, floor))

    def _stand(self, seeds: int, floor: float) -> Standing:
        # Points are run one after another, so one that would be the next without it was the last.
        # The order need not be known: a record that is read again gives the same verdict.
        first = {self.tuned, *self.neighbours()}
        last = [
            point
            for point in self.run_points(seeds)
            if point not in first and self.next_point(seeds, floor, point) == point
        ]
        before = tuple(self._stand_without(point, seeds, floor) for point in last)
        return replace(self._stand_without(None, seeds, floor), before=before)

    def _stand_without(self, without: Point | None, seeds: int, floor: float) -> Standing:
        scores = {p: self.scores(p, seeds) for p in self.run_points(seeds) if p != without}
        best = min(scores, key=lambda point: mean(scores[point]))
        curves = self.curves(seeds, floor, without)
        reach = sum(found.reach for _, _, found in curves)
        if self._lacks(curves, scores, seeds):
            reach = math.inf
        if not math.isfinite(reach):
            return Standing(scores[self.tuned], scores[best], reach)
        # Potentials add: so does what the bounds on each axis lie below its best point.
        falls = [
            [
                [low - own for low, own in zip(bound, scores[line[found.best]], strict=True)]
                for bound in found.bounds
            ]
            for _, line, found in curves
            if found.best is not None and found.bounds
        ]
        bounds = [
            list(map(sum, zip(scores[best], *parts, strict=True)))
            for parts in itertools.product(*falls)
        ]
        return Standing(scores[self.tuned], scores[best], reach, bounds if falls else ())


def on_scale(places: Sequence[Position]) -> list[Fraction]:
    """Positions in decades. 0 counts as a decade below the smallest other value."""
    numbers = [Fraction(p) for p in places if p is not None]
    if len(numbers) == len(places):
        return numbers
    zero = min(numbers, default=Fraction(0)) - 1
    return [zero if p is None else Fraction(p) for p in places]


def _number_or_least(position: Position) -> float:
    return -math.inf if position is None else float(position)


def _further_position(places: Sequence[Position], found: Potential) -> Position:
    """The middle of the weakest gap, or one step beyond the outermost point."""
    at = on_scale(places)
    assert found.weakest is not None
    left, right = found.weakest.left, found.weakest.right
    if found.weakest.place == "gap":
        # A point that bounds nothing may lie inside.
        parts = itertools.pairwise(at[left : right + 1])
        low, high = max(reversed([*parts]), key=lambda part: part[1] - part[0])
        return (low + high) / 2
    if places[left] is None and found.weakest.place == "below":
        return None
    gaps = [b - a for a, b in itertools.pairwise(at)]
    if found.weakest.place == "above":
        return at[-1] + max(RESOLVED, gaps[-1] if gaps else RESOLVED)
    return at[0] - max(RESOLVED, gaps[0] if gaps else RESOLVED)
