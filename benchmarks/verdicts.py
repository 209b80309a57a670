"""How often the referee's verdicts are false, by problem and by number of trials.

    python -m benchmarks.verdicts [--races 2000] [--trials 4,6,8,10,12] [--seeds 10]
        [--contenders 1] [--rows 256] [--only NAME] [--jobs 1]

A table of scores by setting and seed is drawn once for each problem of `verdict_problems.py`; races
are replayed on it with seeds drawn from the table. A verdict is false if it names the wrong winner,
a winner where both are equal at their best, or `equivalent` beyond the margin. With several
contenders of the first kind beside the baseline a race is false if any verdict is. Several numbers
of seeds are looks, taken in turn until decided.
"""

from __future__ import annotations

import argparse
import functools
import math
import multiprocessing
import random
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction

from benchmarks.verdict_problems import Problem, problems

from adamomentum_lab.race.bracket import Axis, Point, SearchSpace, bracket
from adamomentum_lab.race.referee import Conduct, Pair, Referee
from adamomentum_lab.stats.verdicts import LEVEL, level_left

DECAY = Axis("decay", 1e-5, first=(None, Fraction(0), Fraction(1), Fraction(-1)))
HEAD = """\
| problem | gap, sd | false, % | at most | decided, % | points | runs |
|---|---|---|---|---|---|---|"""
SEEDS = 256
"""In a table."""
ALLOWED = 0.07
"""Of the one-sided 95 % bound of the rate of false verdicts in a cell."""


@dataclass
class Cell:
    """Races of one problem with so many trials."""

    trials: int
    races: int
    kinds: Counter[str] = field(default_factory=Counter)
    """The verdicts on the first pair."""
    winners: int = 0
    """Races with a false winner."""
    equals: int = 0
    """Races with a false `equivalent`."""
    points: float = 0.0
    """Settings that were run on the final seeds, per race."""
    runs: float = 0.0
    """Runs of any kind, per race."""

    @property
    def decided(self) -> float:
        """The share of races with a verdict."""
        return 1 - self.kinds["undecided"] / self.races

    @property
    def bound(self) -> float:
        """The upper 95 % bound of the larger rate of false verdicts."""
        return upper_bound(max(self.winners, self.equals), self.races)


class Table:
    """The scores of every contender at every point by seed, drawn once for each problem."""

    def __init__(self, problem: Problem, seeds: int) -> None:
        self.problem, self.seeds = problem, seeds
        self._rows: dict[tuple[str, Point, bool], list[float]] = {}
        source = random.Random(f"{problem.name} shared")
        self._shared = [source.gauss(0, 1) for _ in range(seeds)]
        self._shifts = [problem.shift * source.gauss(0, 1) for _ in range(seeds)]

    def scores(self, contender: str, point: Point, tuning: bool) -> list[float]:
        """Of every seed."""
        key = contender, point, tuning
        if key not in self._rows:
            self._rows[key] = self._draw(*key)
        return self._rows[key]

    def _draw(self, contender: str, point: Point, tuning: bool) -> list[float]:
        problem = self.problem
        curve = problem.b if contender == "b" else problem.a
        start = problem.starts[contender == "b"]
        x, gained = start + float(point[0] or 0), 0.0
        name = f"{x:.9f} {point[1:]}" if problem.same else f"{contender} {point}"
        source = random.Random(f"{problem.name} {name}")
        if problem.decay is not None and contender[0] in problem.decays:
            strength = -math.inf if point[1] is None else -5 + float(point[1])
            gained = problem.decay(strength + problem.tilt * (x + 2.2))
        sd = problem.sd if not tuning or problem.tuning_sd is None else problem.tuning_sd
        sd *= 10.0 ** (problem.growth * (x + 3))
        risk = problem.risk(x) if problem.risk is not None else 0.0
        noise = []
        for shared in self._shared:
            z = math.sqrt(problem.shared) * shared
            z += math.sqrt(1 - problem.shared) * source.gauss(0, 1)
            if problem.skew:
                z = (math.exp(0.8 * z) - math.exp(0.32)) / 1.3
            if source.random() < problem.collapse:
                z += 15
            noise.append(z)
        # The truth is that of the table: what is equal is so on its seeds, too.
        middle = sum(noise) / len(noise)
        row = []
        for z, shift in zip(noise, self._shifts, strict=True):
            expected = curve(x - shift) - gained
            lost = source.random() < risk or not expected < 1e6
            score = math.inf if lost else expected + sd * (z - middle)
            if problem.rounded and not lost:
                score = round(score / problem.resolution) * problem.resolution
            row.append(score)
        return row


def looks(seeds: list[int]) -> dict[int, float]:
    """What each look spends: all of the level, if there is only one."""
    if len(seeds) == 1:
        return {seeds[0]: LEVEL}
    levels: dict[int, float] = {}
    for count in seeds:
        levels[count] = level_left(count, sum(levels.values()))
    return levels


def replay(table: Table, conduct: Conduct, draw: random.Random) -> Referee:
    """One race."""
    problem = table.problem
    searched = () if problem.decay is None else (DECAY,)
    names = dict.fromkeys(name for pair in conduct.pairs for name in (pair.a, pair.b))
    spaces = {
        name: SearchSpace({}, (Axis("lr", 10.0 ** problem.starts[name == "b"]), *searched))
        for name in names
    }
    referee = Referee(spaces, conduct, {name: bracket(own) for name, own in spaces.items()})
    referee.resolution = problem.resolution
    rows = draw.sample(range(table.seeds), 1 + max(conduct.seeds))
    tasks, last = referee.begin(), None
    while tasks:
        task = tasks.pop()
        if last is None or task.point is not last.point or task.stage != last.stage:
            scores = table.scores(task.contender, task.point, task.stage == "tuning")
            last = task
        score = scores[rows[task.seed]]
        tasks += referee.tell(task, (score, 0.0 if math.isfinite(score) else math.inf))
    return referee


def is_false_winner(truth: float, kind: str) -> bool:
    """Whether the truth contradicts a winner."""
    return truth >= 0 if kind == "better" else truth <= 0 if kind == "worse" else False


def upper_bound(k: int, n: int) -> float:
    """One-sided 95 % bound of a rate (Clopper and Pearson), by bisection."""
    low, high = k / n, 1.0
    if k == n:
        return 1.0
    for _ in range(50):
        p = (low + high) / 2
        below = sum(
            math.exp(
                math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1)
                + i * math.log(p) + (n - i) * math.log1p(-p)
            )
            for i in range(k + 1)
        )  # fmt: skip
        low, high = (p, high) if below > 0.05 else (low, p)
    return high


def simulate(
    problem: Problem,
    trials: list[int],
    seeds: list[int],
    races: int,
    contenders: int = 1,
    rows: int = SEEDS,
) -> list[Cell]:
    """Races of one problem with each of these numbers of trials."""
    table, truth = Table(problem, rows), problem.truth
    pairs = tuple(Pair(f"a{i or ''}", "b") for i in range(contenders))
    cells = []
    for count in trials:
        draw, cell = random.Random(f"{problem.name} {count} {seeds}"), Cell(count, races)
        budget = count if problem.decay is None else 2 * count
        conduct = Conduct(budget, looks(seeds), pairs, margin=problem.margin)
        for _ in range(races):
            referee = replay(table, conduct, draw)
            kinds = [referee.kind(pair) for pair in pairs]
            cell.kinds[kinds[0]] += 1
            cell.winners += any(is_false_winner(truth, kind) for kind in kinds)
            cell.equals += "equivalent" in kinds and abs(truth) > (problem.margin or 0)
            own = referee.contenders.values()
            cell.points += sum(len(one.finals) for one in own) / races
            final = sum(len(by_seed) for one in own for by_seed in one.finals.values())
            cell.runs += (sum(len(one.trials) for one in own) + final) / races
        cells.append(cell)
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--races", type=int, default=2000)
    parser.add_argument("--trials", default="4,6,8,10,12")
    parser.add_argument("--seeds", default="10")
    parser.add_argument("--contenders", type=int, default=1)
    parser.add_argument("--rows", type=int, default=SEEDS, help="seeds in a table")
    parser.add_argument("--only", default="", help="problems whose names begin so")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    suite = [one for one in problems() if one.name.startswith(options.only)]
    trials = [int(part) for part in options.trials.split(",")]
    seeds = [int(part) for part in options.seeds.split(",")]
    work = functools.partial(
        _simulate, options.only, trials, seeds, options.races, options.contenders, options.rows
    )
    worst, power = 0.0, []
    print(HEAD)
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for problem, cells in zip(suite, pool.imap(work, range(len(suite))), strict=True):
            if problem.assumed:
                worst = max(worst, *(cell.bound for cell in cells))
                if problem.gap >= 1.99:
                    power += [cell.decided for cell in cells if cell.trials >= 10]
            print(row(problem, cells), flush=True)
    print(f"\nColumns by T = {options.trials}. * breaks an assumption; not counted below.")
    print(f"Worst upper 95 % bound: {worst:.2%}. {'Too many.' if worst > ALLOWED else ''}")
    if power:
        print(f"Decided where the gap is 2 sd or more, T >= 10: {sum(power) / len(power):.1%}.")


def _simulate(
    only: str,
    trials: list[int],
    seeds: list[int],
    races: int,
    contenders: int,
    rows: int,
    index: int,
) -> list[Cell]:
    """Problems hold functions, which cannot be sent to another process."""
    suite = [one for one in problems() if one.name.startswith(only)]
    return simulate(suite[index], trials, seeds, races, contenders, rows)


def row(problem: Problem, cells: list[Cell]) -> str:
    """Of the table: rates by the number of trials."""
    false = " ".join(f"{100 * cell.winners / cell.races:.1f}" for cell in cells)
    if problem.margin is not None:
        equal = " ".join(f"{100 * cell.equals / cell.races:.1f}" for cell in cells)
        false += f"; equivalent {equal}"
    bound = 100 * max(cell.bound for cell in cells)
    decided = " ".join(f"{100 * cell.decided:.0f}" for cell in cells)
    points = sum(cell.points for cell in cells) / len(cells)
    runs = sum(cell.runs for cell in cells) / len(cells)
    name = problem.name if problem.assumed else f"{problem.name} *"
    return (
        f"| {name} | {problem.gap:.1f} | {false} | {bound:.1f} | {decided} "
        f"| {points:.1f} | {runs:.0f} |"
    )


if __name__ == "__main__":
    main()
