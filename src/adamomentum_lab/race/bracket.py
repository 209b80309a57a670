"""The search that brackets the best value of each setting and then narrows the bracket.

It sees scores of the tuning seed only. Positions on an axis are exact fractions of a decade from
the axis's start, so that the same search always asks for the same values.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from adamomentum_lab.space import Settings, Value

Position = Fraction | int | None
"""On an axis: decades from its start, or None for the value 0. Of a choice: an index."""
Point = tuple[Position, ...]
"""A position for each axis of a space, then one for each choice."""
Score = tuple[float, float]
"""What trials are ranked by, smaller is better: the metric, then the loss. Infinite if diverged."""

RESOLVED = Fraction(1, 4)
"""Decades. A narrower gap beside the best value is not split any further."""
DIGITS = 6
"""Significant digits of the values that are tried: every machine agrees on these."""


@dataclass(frozen=True)
class Axis:
    """A setting that is searched on a logarithmic scale."""

    name: str
    start: float
    """The value at position 0."""
    first: tuple[Position, ...] = (Fraction(0),)
    """The positions that are tried before any other."""
    low: Fraction | None = None
    """The smallest position that may be tried; None if there is no such wall."""
    high: Fraction | None = None

    @property
    def has_zero(self) -> bool:
        """Whether 0 is tried too, as for weight decay."""
        return None in self.first

    def value(self, position: Position) -> float:
        """The value at a position, rounded to DIGITS significant digits."""
        if position is None:
            return 0.0
        return float(f"{self.start * 10.0 ** float(position):.{DIGITS}g}")

    def position_of(self, value: float) -> Position:
        """The position of a value."""
        return Fraction(math.log10(value / self.start)) if value else None

    def clip(self, position: Fraction) -> Fraction:
        """The nearest position inside the walls."""
        position = position if self.low is None else max(position, self.low)
        return position if self.high is None else min(position, self.high)


@dataclass(frozen=True)
class Choice:
    """A setting that takes one of a few values."""

    name: str
    values: tuple[Value, ...]
    whole: bool = True
    """Whether all values are tried at the best learning rate. If not, they are those of a list of
    trials."""


@dataclass(frozen=True)
class SearchSpace:
    """What is searched for one contender, and the settings that are not."""

    fixed: Settings
    axes: tuple[Axis, ...] = ()
    """The learning rate first."""
    choices: tuple[Choice, ...] = ()
    decay: float | None = None
    """lr * weight_decay where the weight decay follows the learning rate and is not searched; None
    where it is fixed or an axis `decay` searches it."""

    @property
    def start(self) -> Point:
        """The point that is tried first."""
        return (*(axis.first[0] for axis in self.axes), *(0 for _ in self.choices))

    def settings(self, point: Point) -> Settings:
        """The settings of a point."""
        made: dict[str, Any] = dict(self.fixed)
        for axis, position in zip(self.axes, point, strict=False):
            made[axis.name] = axis.value(position)
        for choice, index in zip(self.choices, point[len(self.axes) :], strict=True):
            assert isinstance(index, int)
            made[choice.name] = choice.values[index]
        strength = made.pop("decay", self.decay)
        if strength is not None:
            # The comparable unit of decoupled weight decay is lr * weight_decay.
            made["weight_decay"] = float(f"{strength / made['lr']:.{DIGITS}g}")
        return made


Search = Generator[Point, Score, None]
"""Yields the next point to try and is sent its score."""


def order(score: Score, point: Point, start: Point) -> tuple[Any, ...]:
    """Sorts trials, best first: by score, then nearer to the start, then smaller."""
    distance = sum(
        99.0 if a is None or b is None else abs(float(a) - float(b))
        for a, b in zip(point, start, strict=True)
        if a != b
    )
    return (*score, distance, tuple(-math.inf if p is None else p for p in point))


def best_point(tried: Mapping[Point, Score], start: Point) -> Point:
    """The point whose settings are raced."""
    least = min(tried.values())
    ties = [point for point, score in tried.items() if score == least]
    return min(ties, key=lambda point: order(least, point, start)) if len(ties) > 1 else ties[0]


def bracket(space: SearchSpace) -> Search:
    """Bracket and narrow the learning rate, then the other settings, then the learning rate again.

    Choices are tried at the best learning rate, and at last each at the best one of its own. Ends
    when every searched setting is resolved. The caller stops earlier once trials run out.
    """
    tried: dict[Point, Score] = {}

    def best() -> Point:
        return best_point(tried, space.start)

    def try_point(point: Point) -> Search:
        if point not in tried:
            tried[point] = yield point

    def along(k: int, first: tuple[Position, ...], through: Point | None = None) -> Search:
        """Resolve axis k on the line through a point, or else through the best one."""
        line = through or (best() if tried else space.start)
        for position in first:
            yield from try_point(move(line, k, position))
        while True:
            mine = on_line(tried, through, k) if through else tried
            here = best_point(mine, space.start)
            if not is_finite(tried[here]):
                here = min(mine, key=lambda point: _at(point, k))
                wanted: Position = space.axes[k].clip(_number(here[k]) - 1)
            else:
                wanted = next_position(space.axes[k], line_of(tried, here, k), here[k])
            if wanted is None or move(here, k, wanted) in tried:
                return
            yield from try_point(move(here, k, wanted))

    if not space.axes:
        yield from try_point(space.start)
    else:
        yield from along(0, space.axes[0].first)
    while True:
        before = best()
        for k in range(1, len(space.axes)):
            yield from along(k, space.axes[k].first)
        for k, choice in enumerate(space.choices, len(space.axes)):
            line = best()
            for i in range(len(choice.values)):
                yield from try_point(move(line, k, i))
        now = best()
        if not space.axes:
            return
        if now[1:] != before[1:]:
            # The best learning rate may have moved with the other settings.
            middle = _number(now[0])
            for position in (middle + RESOLVED, middle - RESOLVED):
                yield from try_point(move(now, 0, space.axes[0].clip(position)))
            if best() != now:
                yield from along(0, ())
                continue
        for k, choice in enumerate(space.choices, len(space.axes)):
            for i in range(len(choice.values)):
                yield from along(0, (), move(now, k, i))
        if best() == now:
            return


def first_points(space: SearchSpace) -> list[Point]:
    """The start, and every value that a bracketing search tries whatever the scores."""
    firsts = [axis.first for axis in space.axes]
    firsts += [tuple(range(len(choice.values))) for choice in space.choices]
    moved = [move(space.start, k, place) for k, own in enumerate(firsts) for place in own]
    return list(dict.fromkeys([space.start, *moved]))


def next_position(axis: Axis, tried: list[Position], best: Position) -> Position:
    """Where to look next on a line; None if it is resolved.

    First a decade beyond the best value where nothing was tried on that side, then the middle of
    the wider of the two gaps beside it.
    """
    if best is None:
        return None  # 0 is a natural end, and its neighbour was tried
    smallest = min(_number(position) for position in tried if position is not None)
    places = sorted(smallest - 1 if position is None else _number(position) for position in tried)
    here = _number(best)
    above = [place for place in places if place > here]
    below = [place for place in places if place < here]
    if not above and axis.clip(here + 1) > here:
        return axis.clip(here + 1)
    if not below and axis.clip(here - 1) < here:
        return axis.clip(here - 1)
    up = above[0] - here if above else Fraction(0)
    down = here - below[-1] if below else Fraction(0)
    if max(up, down) <= RESOLVED:
        return None
    return here + up / 2 if up >= down else here - down / 2


def on_line(points: Mapping[Point, Score], through: Point, k: int) -> dict[Point, Score]:
    """The points that share all coordinates but k with one."""
    line = (move(through, k, position) for position in line_of(points, through, k))
    return {point: points[point] for point in line}


def line_of(points: Mapping[Point, Any], through: Point, k: int) -> list[Position]:
    """The positions on axis k of the points that share all other coordinates with one."""
    return [p[k] for p in points if p[:k] == through[:k] and p[k + 1 :] == through[k + 1 :]]


def move(point: Point, k: int, position: Position) -> Point:
    """The point with another coordinate k."""
    return (*point[:k], position, *point[k + 1 :])


def is_finite(score: Score) -> bool:
    """Whether a trial neither diverged nor failed."""
    return score[0] < math.inf


def _at(point: Point, k: int) -> float:
    position = point[k]
    return -math.inf if position is None else float(position)


def _number(position: Position) -> Fraction:
    assert position is not None
    return Fraction(position)
