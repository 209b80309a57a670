"""The referee: which runs a race needs next, and what they say about who is better.

It knows no workload and no optimizer, only contenders with search spaces, points in these spaces,
and scores (smaller is better). A race asks it for tasks and tells it their results; a simulation
does the same with a table in place of training. The same results always lead to the same tasks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from adamomentum_lab.race.bracket import Point, Score, Search, SearchSpace
from adamomentum_lab.race.contender import Entrant as Entrant
from adamomentum_lab.stats.potential import mean
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
    pair_levels: Mapping[Pair, Mapping[int, float]] = field(default_factory=dict)
    """The levels of pairs that were looked at before, which have less to spend."""
    certify: int = 8
    """Settings that may be run beyond the neighbours of the tuned one, for each contender."""
    margin: float | None = None
    """A difference below this is of no interest, in the unit of the metric."""
    tuning_seed: int = 0

    @property
    def seeds(self) -> list[int]:
        """The numbers of seeds at which results are looked at."""
        return list(self.levels)

    def level(self, pair: Pair, seeds: int) -> float:
        """What a look at a pair spends; 0 if it is no look of the race."""
        return self.pair_levels.get(pair, self.levels).get(seeds, 0.0)


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
            name: Entrant(space, searches.get(name) if conduct.trials else None)
            for name, space in spaces.items()
        }
        self._waiting = 0
        """How many tasks have no result yet."""
        self._look = 0
        self.judged = False
        """Whether the last look has been taken."""

    def begin(self) -> list[Task]:
        """The first tasks."""
        tasks = []
        for name, own in self.contenders.items():
            if own.search is not None:
                tasks.append(Task(name, next(own.search), self.conduct.tuning_seed, "tuning"))
        self._waiting = len(tasks)
        return tasks or self._finals()

    def tell(self, task: Task, score: Score | None) -> list[Task]:
        """Take the result of a task; the tasks that follow from it.

        A score of None says that the run was lost for a reason that is not the optimizer's. A
        contender that loses a trial so is not raced: nobody knows how it would have been tuned.
        """
        own = self.contenders[task.contender]
        self._waiting -= 1
        if score is None:
            own.faulty, score = True, LOST
            if task.stage == "tuning":  # what it would have been tuned to is not known
                own.search = None
        if task.stage == "final":
            own.finals[task.point][task.seed] = score[0]
            return [] if self._waiting else self._finals()
        own.trials[task.point] = score
        if len(own.trials) < self.conduct.trials and own.search is not None:
            try:
                after = Task(task.contender, own.search.send(score), task.seed, "tuning")
            except StopIteration:
                own.search = None
            else:
                self._waiting += 1
                return [after]
        return [] if self._waiting else self._finals()

    def interval(self, pair: Pair) -> Interval | None:
        """Of A minus B at their best; None if runs are missing."""
        a, b = (self.contenders[name] for name in (pair.a, pair.b))
        n = min(a.seeds, b.seeds)
        if a.faulty or b.faulty or not n:
            return None
        floor = self.resolution / math.sqrt(6)
        level = self.conduct.level(pair, n) / len(self.conduct.pairs)
        first, second = (standing_of(own, self.conduct, n, floor) for own in (a, b))
        return interval(first, second, level, self.resolution, 1 + self.conduct.certify)

    def kind(self, pair: Pair) -> Kind:
        """The verdict on A."""
        found = self.interval(pair)
        return "not comparable" if found is None else kind_of(found, self.conduct.margin)

    def _finals(self) -> list[Task]:
        """What is still to be run on the final seeds, all earlier tasks being done."""
        if not self._look:
            self._look = self.conduct.seeds[0]
            for own in self.contenders.values():
                if own.faulty:
                    continue
                own.seeds = self._look
                self._ask(own, own.tuned)
        while not self.judged:
            if tasks := self._missing():
                self._waiting += len(tasks)
                return tasks
            if not self._extend():
                self._next_look()
        return []

    def _ask(self, own: Entrant, point: Point) -> None:
        if point not in own.asked:
            own.asked.append(point)
            own.finals[point] = {}

    def _missing(self) -> list[Task]:
        first = self.conduct.tuning_seed + 1
        return [
            Task(name, point, seed, "final")
            for name, own in self.contenders.items()
            for point, done in [(point, own.finals[point]) for point in own.asked]
            for seed in range(first, first + own.seeds)
            if seed not in done
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
        if not self.conduct.trials:
            return []
        if found is None or kind_of(found, self.conduct.margin) != "undecided":
            return []
        floor = self.resolution / math.sqrt(6)
        standings = {
            name: self.contenders[name].standing(self.contenders[name].seeds, floor)
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

    def _add_points(self, own: Entrant) -> bool:
        """Ask for the neighbours of the tuned point, or for the point that helps most."""
        if len(own.asked) == 1 and (neighbours := own.neighbours()):
            for point in neighbours:
                self._ask(own, point)
            return True
        if own.certified >= self.conduct.certify:
            return False
        new = own.next_point(own.seeds, self.resolution / math.sqrt(6))
        if new is None:
            return False
        own.certified += 1
        self._ask(own, new)
        return True

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


def standing_of(own: Entrant, conduct: Conduct, seeds: int, floor: float) -> Standing:
    """Where a contender stands; if nothing was tuned, the question is about its settings alone."""
    if conduct.trials:
        return own.standing(seeds, floor)
    scores = own.scores(own.space.start, seeds)
    return Standing(scores, scores, 0.0)


def _beside_best(own: Entrant) -> list[Point]:
    """The tuned point, its other choices, and on each axis the best point with its neighbours."""
    kept = [own.tuned, *(point for point in own.alternatives() if point in own.finals)]
    for _, points, found in own.curves(own.seeds):
        if found.best is not None and len(points) > 1:
            kept += points[max(0, found.best - 1) : found.best + 2]
    return list(dict.fromkeys(kept))
