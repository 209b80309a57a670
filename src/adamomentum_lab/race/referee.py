"""The referee: which runs a race needs next, and what they say about who is better.

It knows no workload and no optimizer, only contenders with search spaces, points in these spaces,
and scores (smaller is better). A race asks it for tasks and tells it their results; a simulation
does the same with a table in place of training. The same results always lead to the same tasks.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

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
)
from adamomentum_lab.stats.potential import Potential, mean, potential
from adamomentum_lab.stats.verdicts import Interval, Kind, Standing, interval, kind_of

Stage = Literal["tuning", "final"]
LOST: Score = (math.inf, math.inf)


@dataclass(frozen=True)
class Task:
    """A run that is wanted."""

    contender: str
    point: Point
    seed: int
    stage: Stage


@dataclass(frozen=True)
class Pair:
    """Two contenders that are compared: A beside B, which is the baseline if there is one."""

    a: str
    b: str


@dataclass(frozen=True)
class Conduct:
    """How a race is conducted: the same for every contender."""

    trials: int
    """Tuning runs of each contender, at most."""
    levels: Mapping[int, float]
    """The seeds at which the race looks at its results, in ascending order, with the level that
    each look spends."""
    pairs: tuple[Pair, ...]
    certify: int = 8
    """Settings that may be run beyond the neighbours of the tuned one, for each contender."""
    margin: float | None = None
    """A difference below this is of no interest, in the unit of the metric."""
    tuning_seed: int = 0

    @property
    def seeds(self) -> list[int]:
        """The numbers of seeds at which results are looked at."""
        return list(self.levels)


@dataclass
class Contender:
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

    @property
    def tuned(self) -> Point:
        """The point that tuning chose."""
        return best_point(self.trials, self.space.start) if self.trials else self.space.start

    def scores(self, point: Point, seeds: int) -> list[float]:
        """By seed."""
        return list(self.finals[point].values())[:seeds]

    def run_points(self, seeds: int) -> list[Point]:
        """The points that were run on at least so many seeds."""
        return [point for point, own in self.finals.items() if len(own) >= seeds]

    def curves(self, seeds: int, floor: float = 0.0) -> list[tuple[int, list[Point], Potential]]:
        """By axis: the points on the line through the tuned one, and what they leave to find.

        The score is taken to be convex in the logarithm of a setting. Beside 0 it cannot be: there
        it is nearly constant. An axis with 0 is judged by the setting itself as well, and the
        larger reach counts.
        """
        found = []
        done = dict.fromkeys(self.run_points(seeds))
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
                )
                for scale in scales
            ]
            found.append((k, points, max(bounds, key=lambda one: one.reach)))
        return found

    def standing(self, seeds: int, floor: float = 0.0) -> Standing:
        """Where it stands after so many final seeds."""
        points = self.run_points(seeds)
        scores = {point: self.scores(point, seeds) for point in points}
        best = min(points, key=lambda point: mean(scores[point]))
        curves = self.curves(seeds, floor)
        reach = sum(found.reach for _, _, found in curves)
        bound = list(scores[best])
        for _, line, found in curves:
            if found.best is not None and found.bound:  # potentials add
                lowest = scores[line[found.best]]
                bound = [
                    value + low - own
                    for value, low, own in zip(bound, found.bound, lowest, strict=True)
                ]
        return Standing(scores[self.tuned], scores[best], reach, bound)


class Referee:
    """Conducts a race."""

    def __init__(
        self,
        spaces: Mapping[str, SearchSpace],
        conduct: Conduct,
        searches: Mapping[str, Search],
    ) -> None:
        self.conduct = conduct
        self.resolution = 0.0
        """Of the metric. Set it before the first final result is told."""
        self.contenders = {
            name: Contender(space, searches.get(name) if conduct.trials else None)
            for name, space in spaces.items()
        }
        self._out: set[Task] = set()
        self._look = 0
        self.judged = False
        """Whether the last look has been taken."""

    def begin(self) -> list[Task]:
        """The first tasks."""
        tasks = []
        for name, own in self.contenders.items():
            if own.search is not None:
                tasks.append(Task(name, next(own.search), self.conduct.tuning_seed, "tuning"))
        self._out |= set(tasks)
        return tasks or self._finals()

    def tell(self, task: Task, score: Score | None) -> list[Task]:
        """Take the result of a task; the tasks that follow from it.

        A score of None says that the run was lost for a reason that is not the optimizer's.
        """
        own = self.contenders[task.contender]
        self._out.discard(task)
        own.faulty |= score is None
        score = LOST if score is None else score
        if task.stage == "final":
            own.finals[task.point][task.seed] = score[0]
            return [] if self._out else self._finals()
        own.trials[task.point] = score
        if len(own.trials) < self.conduct.trials and own.search is not None:
            try:
                after = Task(task.contender, own.search.send(score), task.seed, "tuning")
            except StopIteration:
                own.search = None
            else:
                self._out.add(after)
                return [after]
        return [] if self._out else self._finals()

    def interval(self, pair: Pair) -> Interval | None:
        """Of A minus B at their best; None if runs are missing."""
        a, b = (self.contenders[name] for name in (pair.a, pair.b))
        n = min(a.seeds, b.seeds)
        if a.faulty or b.faulty or not n:
            return None
        floor = self.resolution / math.sqrt(6)
        level = self.conduct.levels[n] / len(self.conduct.pairs)
        return interval(a.standing(n, floor), b.standing(n, floor), level, self.resolution)

    def kind(self, pair: Pair) -> Kind:
        """The verdict on A."""
        found = self.interval(pair)
        return "not comparable" if found is None else kind_of(found, self.conduct.margin)

    def _finals(self) -> list[Task]:
        """What is still to be run on the final seeds, all earlier tasks being done."""
        if not self._look:
            self._look = self.conduct.seeds[0]
            for own in self.contenders.values():
                own.seeds = self._look
                self._ask(own, own.tuned)
        while not self.judged:
            if tasks := self._missing():
                self._out |= set(tasks)
                return tasks
            if not self._extend():
                self._next_look()
        return []

    def _ask(self, own: Contender, point: Point) -> None:
        if point not in own.asked:
            own.asked.append(point)
            own.finals[point] = {}

    def _missing(self) -> list[Task]:
        first = self.conduct.tuning_seed + 1
        return [
            Task(name, point, seed, "final")
            for name, own in self.contenders.items()
            for point in own.asked
            for seed in range(first, first + own.seeds)
            if seed not in own.finals[point]
        ]

    def _extend(self) -> bool:
        """Ask for the points that could change a verdict; whether there are any."""
        wanted: dict[str, None] = {}
        for pair in self.conduct.pairs:
            wanted |= dict.fromkeys(self._in_doubt(pair))
        added = [self._add_points(self.contenders[name]) for name in wanted]
        return any(added)

    def _in_doubt(self, pair: Pair) -> Iterable[str]:
        """The contenders of a pair whose tuning alone stands between it and a verdict."""
        found = self.interval(pair)
        if found is None or kind_of(found, self.conduct.margin) != "undecided":
            return []
        standings = {
            name: self.contenders[name].standing(self.contenders[name].seeds)
            for name in (pair.a, pair.b)
        }
        # One that diverged everywhere may work at a smaller learning rate.
        lost = [name for name, own in standings.items() if not math.isfinite(mean(own.best))]
        if lost:
            others = [own for name, own in standings.items() if name not in lost]
            return lost if all(math.isfinite(mean(own.tuned)) for own in others) else []
        if found.seeds_high < 0:
            return [pair.b]
        if found.seeds_low > 0:
            return [pair.a]
        margin = self.conduct.margin
        if margin is not None and -margin < found.seeds_low and found.seeds_high < margin:
            return [name for name, own in standings.items() if own.reach > 0]
        return []

    def _add_points(self, own: Contender) -> bool:
        """Ask for the neighbours of the tuned point, or for the point that helps most."""
        if not own.space.axes:
            return False
        if len(own.asked) == 1 and (neighbours := self._neighbours(own)):
            for point in neighbours:
                self._ask(own, point)
            return True
        if own.certified >= self.conduct.certify:
            return False
        curves = own.curves(own.seeds, self.resolution / math.sqrt(6))
        k, points, found = max(curves, key=lambda curve: curve[2].reach)
        if found.weakest is None:
            return False
        places = [point[k] for point in points]
        new = _further_position(places, found)
        axis = own.space.axes[k]
        new = new if new is None else axis.clip(Fraction(new))
        if new is None or new in places:
            return False
        own.certified += 1
        self._ask(own, move(own.tuned, k, new))
        return True

    def _neighbours(self, own: Contender) -> list[Point]:
        """The points beside the tuned one that tuning tried, on every axis."""
        found = []
        for k in range(len(own.space.axes)):
            here = own.tuned[k]
            places = line_of(own.trials, own.tuned, k)
            above = [p for p in places if p is not None and (here is None or p > here)]
            below = [p for p in places if here is not None and (p is None or p < here)]
            if own.space.axes[k].has_zero:
                # One seed tells small weight decays from none too badly to leave any out.
                found += [move(own.tuned, k, p) for p in places if p != here]
                continue
            beside: list[Position] = []
            if below:
                beside.append(max(below, key=_number_or_least))
            if above:
                beside.append(min(above, key=float))
            found += [move(own.tuned, k, p) for p in beside]
        return found

    def _next_look(self) -> None:
        """Take more seeds for the pairs that are undecided, if the race allows."""
        later = [n for n in self.conduct.seeds if n > self._look]
        open_pairs = [pair for pair in self.conduct.pairs if self.kind(pair) == "undecided"]
        if not later or not open_pairs:
            self.judged = True
            return
        self._look = later[0]
        for name in dict.fromkeys(name for pair in open_pairs for name in (pair.a, pair.b)):
            own = self.contenders[name]
            own.asked = _beside_best(own)
            own.seeds = self._look


def on_scale(places: Sequence[Position]) -> list[Fraction]:
    """Positions in decades. 0 counts as a decade below the smallest other value."""
    numbers = [Fraction(p) for p in places if p is not None]
    zero = min(numbers, default=Fraction(0)) - 1
    return [zero if p is None else Fraction(p) for p in places]


def _number_or_least(position: Position) -> float:
    return -math.inf if position is None else float(position)


def _beside_best(own: Contender) -> list[Point]:
    """The tuned point, and on each axis the best one with its neighbours."""
    kept = [own.tuned]
    for _, points, found in own.curves(own.seeds):
        if found.best is not None and len(points) > 1:
            kept += points[max(0, found.best - 1) : found.best + 2]
    return list(dict.fromkeys(kept))


def _further_position(places: Sequence[Position], found: Potential) -> Position:
    """The middle of the weakest gap, or one step beyond the outermost point."""
    at = on_scale(places)
    assert found.weakest is not None
    left, right = found.weakest.left, found.weakest.right
    if found.weakest.place == "gap":
        return (at[left] + at[right]) / 2
    if places[left] is None and found.weakest.place == "below":
        return None
    gaps = [b - a for a, b in itertools.pairwise(at)]
    if found.weakest.place == "above":
        return at[-1] + max(RESOLVED, gaps[-1] if gaps else RESOLVED)
    return at[0] - max(RESOLVED, gaps[0] if gaps else RESOLVED)
