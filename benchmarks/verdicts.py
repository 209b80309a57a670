"""How often the referee's verdicts are false, by problem and by number of trials.

    python -m benchmarks.verdicts [--races 2000] [--trials 4,6,8,10,12] [--seeds 10] [--jobs 2]

Every problem is a pair of contenders whose truth is known: a curve of the score over the learning
rate for each, and noise over seeds. A table of lr x seed is drawn once for each problem; races are
replayed on it with seeds drawn from the table. A verdict is false if it names the wrong winner, a
winner where both are equal at their best, or `equivalent` beyond the margin.
"""

from __future__ import annotations

import argparse
import functools
import math
import multiprocessing
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from adamomentum_lab.race.bracket import Axis, Point, SearchSpace, bracket
from adamomentum_lab.race.referee import Conduct, Pair, Referee

DECAY = Axis("decay", 1e-5, first=(None, Fraction(0), Fraction(1), Fraction(-1)))
SEEDS = 256
"""Rows of a table."""
Curve = Callable[[float], float]
"""Expected score at x = log10(lr); infinite where training diverges."""


@dataclass(frozen=True)
class Problem:
    """Two contenders with a known truth. Scores are smaller-is-better."""

    name: str
    a: Curve
    b: Curve
    decay: Curve | None = None
    """What B gains at p = lr * weight_decay, as a function of log10(p), with -inf for 0; where it
    is given, both search weight decay too."""
    decays: str = "b"
    """The contender that gains."""
    starts: tuple[float, float] = (-3.0, -3.0)
    sd: float = 0.1
    """Of a score over seeds."""
    shared: float = 0.0
    """Correlation of a seed's noise between settings and contenders."""
    tuning_sd: float | None = None
    """Of the validation score; the same as `sd` if None."""
    skew: bool = False
    """Whether noise is log-normal instead of normal."""
    collapse: float = 0.0
    """Chance that a seed ends far off the others."""
    resolution: float = 0.0
    margin: float | None = None
    assumed: bool = True
    """Whether it meets what the referee assumes: a score that is convex in log lr around the best
    point, and seeds that vary about normally. The error rates of others are only reported."""

    @functools.cached_property
    def truth(self) -> float:
        """A minus B, each at its best learning rate."""
        gained = 0.0 if self.decay is None else -lowest(lambda u: -self.decay(u))
        gap = lowest(self.a) - lowest(self.b) + (gained if self.decays == "b" else -gained)
        return gap if abs(gap) > 1e-6 else 0.0


def lowest(curve: Curve) -> float:
    """The minimum of a curve: on a grid, then by thirds around the best point of it."""
    at = min((k / 256 for k in range(-9 * 256, 4 * 256)), key=curve)
    low, high = at - 1 / 256, at + 1 / 256
    for _ in range(80):
        third = (high - low) / 3
        if curve(low + third) <= curve(high - third):
            high -= third
        else:
            low += third
    return min(curve(at), curve(low))


def bowl(best: float, at: float, width: float = 1.0, cliff: float = math.inf) -> Curve:
    """A parabola in log lr; it diverges beyond the cliff."""
    return lambda x: math.inf if x > cliff else best + ((x - at) / width) ** 2


def vee(best: float, at: float, down: float, up: float) -> Curve:
    """Two straight slopes: convex, and sharp at the optimum."""
    return lambda x: best + (down * (at - x) if x < at else up * (x - at))


def plateau(best: float, left: float, right: float, slope: float = 1.0) -> Curve:
    """Flat between two learning rates."""
    return lambda x: best + slope * (max(0.0, left - x) ** 2 + max(0.0, x - right) ** 2)


def flat(best: float) -> Curve:
    """No dependence on the learning rate."""
    return lambda _: best


def saturating(best: float, at: float, top: float) -> Curve:
    """A bowl that flattens out at the score of an untrained network: not convex far away."""
    return lambda x: best + (top - best) * (1 - math.exp(-(((x - at) / 1.2) ** 2)))


def vanishing(scale: float) -> Curve:
    """A loss that goes to 0 as the learning rate does."""
    return lambda x: scale * 10.0 ** (2 * x)


def gain(most: float, at: float = -4.3) -> Curve:
    """What weight decay p takes off the score: most at p = 10^at, nothing at 0."""
    return lambda u: (
        most * max(-3.0, 1 - (1 - 10.0 ** (u - at)) ** 2)
        if u < at + 0.3
        else (most * (1 - (1 - 10.0**0.3) ** 2 - 2 * (u - at - 0.3)))
    )


def two_valleys(best: float, near: float, far: float, rise: float) -> Curve:
    """A shallow valley beside a deep one."""
    return lambda x: min(best + (x - far) ** 2, best + rise + 2 * (x - near) ** 2)


def problems() -> list[Problem]:
    """The suite."""
    made = [
        Problem("a clear winner", bowl(1.0, -3), bowl(1.3, -3)),
        Problem("a winner by 2 sd", bowl(1.0, -3.1), bowl(1.2, -2.8)),
        Problem("a tie, the same curve", bowl(1.0, -3), bowl(1.0, -3)),
        Problem("a tie, shifted by 0.64 decades", bowl(1.0, -3), bowl(1.0, -2.36)),
        Problem("a tie, between the first points", bowl(1.0, -3), bowl(1.0, -2.6, 0.5)),
        Problem("a tie, B's optimum 3 decades away", bowl(1.0, -3), bowl(1.0, 0.1)),
        Problem("a tie, B's optimum 4 decades below", bowl(1.0, -3), bowl(1.0, -7.05)),
        Problem("a tie, little noise, narrow", bowl(1.0, -3, 0.4), bowl(1.0, -2.9, 0.4), sd=0.003),
        Problem("a tie, sharp vee", vee(1.0, -3, 0.5, 0.5), vee(1.0, -2.87, 0.5, 2.0), sd=0.01),
        Problem("a tie, cliff beside B's optimum", bowl(1.0, -3), bowl(1.0, -2.7, 1, -2.62)),
        Problem("a winner with a cliff", bowl(1.0, -2.8, 1, -2.7), bowl(1.25, -3), sd=0.1),
        Problem("a tie on plateaus", plateau(1.0, -4, -2.5), plateau(1.0, -3, -1)),
        Problem("a winner on plateaus", plateau(1.0, -4, -2.5), plateau(1.25, -3, -1)),
        Problem("a tie, no dependence on lr", flat(1.0), flat(1.0)),
        Problem("a winner, no dependence on lr", flat(1.0), flat(1.25)),
        Problem(
            "short runs: larger is better up to a cliff",
            lambda x: math.inf if x > -1.3 else 2 - 0.5 * (x + 6),
            lambda x: math.inf if x > -1.1 else 2 - 0.5 * (x + 6) + 0.1,
            sd=0.05,
        ),
        Problem("a tie, heavy noise", bowl(1.0, -3), bowl(1.0, -2.5), sd=0.6),
        Problem("a winner, heavy noise", bowl(1.0, -3), bowl(2.2, -2.5), sd=0.6),
        Problem("a tie, noisy tuning", bowl(1.0, -3), bowl(1.0, -2.5), sd=0.03, tuning_sd=0.5),
        Problem("a winner, noisy tuning", bowl(1.0, -3), bowl(1.2, -2.5), sd=0.05, tuning_sd=0.3),
        Problem("a tie, not convex far away", saturating(1, -3, 2.3), saturating(1, -1.2, 2.3)),
        Problem("a tie, seeds shared", bowl(1.0, -3), bowl(1.0, -2.7), sd=0.2, shared=0.9),
        Problem("a winner, seeds shared", bowl(1.0, -3), bowl(1.15, -2.7), sd=0.2, shared=0.9),
        Problem("a tie within the margin", bowl(1.0, -3), bowl(1.02, -2.7), sd=0.1, margin=0.3),
        Problem("beyond the margin", bowl(1.0, -3), bowl(1.31, -2.7), sd=0.1, margin=0.3),
        Problem("loss vanishes with lr", vanishing(1.0), vanishing(30.0), sd=0.0, resolution=1e-6),
        Problem("skewed noise, a tie", bowl(1.0, -3), bowl(1.0, -2.6), skew=True, assumed=False),
        Problem(
            "collapsing seeds, a tie", bowl(1.0, -3), bowl(1.0, -2.6), collapse=0.05, assumed=False
        ),
        Problem("a tie, B's optimum at wd > 0", bowl(1.0, -3), bowl(1.4, -2.6), decay=gain(0.4)),
        Problem("a winner, B's optimum at wd > 0", bowl(1.0, -3), bowl(1.7, -2.6), decay=gain(0.4)),
        Problem("two valleys, a tie", bowl(1.0, -3), two_valleys(1.0, -3, -1, 0.15), assumed=False),
    ]
    return [*made, *(mirror(problem) for problem in made if problem.truth)]


def mirror(problem: Problem) -> Problem:
    """The same with the contenders exchanged: the baseline may be the better one too."""
    starts = problem.starts[::-1]
    name, decays = f"{problem.name}, mirrored", "a" if problem.decays == "b" else "b"
    return replace(problem, name=name, a=problem.b, b=problem.a, starts=starts, decays=decays)


class Table:
    """Noise by contender, position and seed, drawn once for each problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._rows: dict[tuple[str, Point], list[float]] = {}
        source = random.Random(f"{problem.name} shared")
        self._shared = [source.gauss(0, 1) for _ in range(SEEDS)]

    def noise(self, contender: str, position: Point) -> list[float]:
        """Of every seed, in standard deviations."""
        key = contender, position
        if key not in self._rows:
            problem, source = self.problem, random.Random(f"{self.problem.name} {key}")
            row = []
            for shared in self._shared:
                own = source.gauss(0, 1)
                z = math.sqrt(problem.shared) * shared + math.sqrt(1 - problem.shared) * own
                if problem.skew:
                    z = (math.exp(0.8 * z) - math.exp(0.32)) / 1.3
                if source.random() < problem.collapse:
                    z += 15
                row.append(z)
            self._rows[key] = row
        return self._rows[key]

    def score(self, contender: str, point: Point, row: int, tuning: bool) -> float:
        """One run."""
        problem = self.problem
        curve, start = (
            (problem.a, problem.starts[0]) if contender == "a" else (problem.b, problem.starts[1])
        )
        expected = curve(start + float(point[0] or 0))
        if problem.decay is not None and contender == problem.decays:
            expected -= problem.decay(-math.inf if point[1] is None else -5 + float(point[1]))
        if not math.isfinite(expected) or expected > 1e6:
            return math.inf
        sd = problem.sd if not tuning or problem.tuning_sd is None else problem.tuning_sd
        return expected + sd * self.noise(contender, point)[row]


def replay(table: Table, conduct: Conduct, draw: random.Random) -> tuple[str, Referee]:
    """One race; the verdict on A."""
    problem = table.problem
    searched = () if problem.decay is None else (DECAY,)
    spaces = {
        name: SearchSpace({}, (Axis("lr", 10.0**start), *searched))
        for name, start in zip("ab", problem.starts, strict=True)
    }
    referee = Referee(spaces, conduct, {name: bracket(own) for name, own in spaces.items()})
    referee.resolution = problem.resolution
    rows = draw.sample(range(SEEDS), 1 + max(conduct.seeds))
    tasks = referee.begin()
    while tasks:
        task = tasks.pop()
        score = table.score(task.contender, task.point, rows[task.seed], task.stage == "tuning")
        tasks += referee.tell(task, (score, 0.0 if math.isfinite(score) else math.inf))
    return referee.kind(Pair("a", "b")), referee


def is_false(problem: Problem, kind: str) -> bool:
    """Whether the truth contradicts a verdict."""
    truth = problem.truth
    if kind == "better":
        return truth >= 0
    if kind == "worse":
        return truth <= 0
    return kind == "equivalent" and abs(truth) > (problem.margin or 0)


def upper_bound(k: int, n: int) -> float:
    """One-sided 95 % bound of a rate (Clopper and Pearson), by bisection."""
    low, high = k / n, 1.0
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


def simulate(cell: tuple[int, int, int, int]) -> tuple[int, int, Counter[str], int, float, float]:
    """All races of one problem with so many trials and seeds."""
    index, trials, seeds, races = cell
    problem = problems()[index]
    table, draw = Table(problem), random.Random(f"{index} {trials} {seeds}")
    trials = trials if problem.decay is None else 2 * trials
    conduct = Conduct(trials, {seeds: 0.05}, (Pair("a", "b"),), margin=problem.margin)
    kinds: Counter[str] = Counter()
    false, points, runs = 0, 0.0, 0.0
    for _ in range(races):
        kind, referee = replay(table, conduct, draw)
        kinds[kind] += 1
        false += is_false(problem, kind)
        own = referee.contenders.values()
        points += sum(len(one.asked) for one in own) / races
        runs += sum(len(one.trials) + sum(map(len, one.finals.values())) for one in own) / races
    return index, cell[1], kinds, false, points, runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--races", type=int, default=2000)
    parser.add_argument("--trials", default="4,6,8,10,12")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    suite = problems()
    trials = [int(part) for part in options.trials.split(",")]
    cells = [(i, t, options.seeds, options.races) for i in range(len(suite)) for t in trials]
    worst, power = 0.0, []
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for index, count, kinds, false, points, runs in pool.imap(simulate, cells):
            problem = suite[index]
            bound = upper_bound(false, options.races)
            worst = max(worst, bound) if problem.assumed else worst
            decided = 1 - kinds["undecided"] / options.races
            gap = abs(problem.truth) / problem.sd if problem.sd else math.inf
            if gap >= 1.99 and count >= 10:
                power.append(decided)
            print(
                f"{problem.name:48} T={count:2}  false {false / options.races:6.2%} "
                f"(at most {bound:5.2%})  decided {decided:6.1%}  gap {gap:5.1f} sd  "
                f"points {points:4.1f}  runs {runs:5.1f}"
            )
    print(
        f"worst bound {worst:.2%}; decided where the gap is 2 sd or more: "
        f"{sum(power) / max(1, len(power)):.1%}"
    )


if __name__ == "__main__":
    main()
