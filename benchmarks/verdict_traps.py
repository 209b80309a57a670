"""Races that were built to mislead the referee, and how often it is misled.

    python -m benchmarks.verdict_traps [--races 1000] [--trials 2,4,10] [--seeds 10] [--only NAME]

The other suite (`verdicts.py`) replays recorded tables. Here every run of every race draws anew,
from the laws of `verdict_laws.py`: scores may depend on learning rate, seed, contender and other
settings in any way.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import Counter
from fractions import Fraction

from benchmarks.verdict_laws import Run, Trap, World, traps
from benchmarks.verdicts import ALLOWED, looks, upper_bound

from adamomentum_lab.race.bracket import Axis, Choice, Point, SearchSpace, bracket
from adamomentum_lab.race.referee import Conduct, Pair, Referee


def spaces_of(trap: Trap, names: list[str]) -> dict[str, SearchSpace]:
    """What each contender searches."""
    made = {}
    for name in names:
        axes = [Axis("lr", 10.0 ** trap.starts[name == "b"])]
        if trap.axis and name == "b":
            axes.append(Axis("eps", 1e-6, (Fraction(0), Fraction(4))))
        values = tuple(range(trap.choices)) if name == "b" else ()
        made[name] = SearchSpace({}, tuple(axes), (Choice("betas", values),) if values else ())
    return made


def race(trap: Trap, conduct: Conduct, draw: random.Random) -> Referee:
    """One race, on luck of its own."""
    names = list(dict.fromkeys(name for pair in conduct.pairs for name in (pair.a, pair.b)))
    spaces = spaces_of(trap, names)
    referee = Referee(spaces, conduct, {name: bracket(own) for name, own in spaces.items()})
    referee.resolution = trap.resolution
    worlds = {name: World(draw) for name in names if name != "b"}
    worlds["b"] = next(iter(worlds.values()))
    tasks = referee.begin()
    while tasks:
        task = tasks.pop()
        is_b = task.contender == "b"
        x, other = place(trap, is_b, task.point)
        run = Run(worlds[task.contender], is_b, x, other, task.seed, task.stage == "tuning")
        score = trap.law(run)
        told = None if score is None else (score, 0.0 if math.isfinite(score) else math.inf)
        tasks += referee.tell(task, told)
    return referee


def place(trap: Trap, is_b: bool, point: Point) -> tuple[float, float]:
    """log10(lr), and the other setting."""
    other = 0.0
    if len(point) > 1:
        other = float(point[1] or 0) - (6 if trap.axis else 0)
    return trap.starts[is_b] + float(point[0] or 0), other


def count_kinds(trap: Trap, trials: int, seeds: list[int], races: int) -> tuple[Counter[str], int]:
    """The verdicts on the first pair, and the number of races with a false verdict on any."""
    pairs = tuple(Pair(f"a{i or ''}", "b") for i in range(trap.contenders))
    budget = 2 * trials if trap.axis or trap.choices else trials
    conduct = Conduct(budget, looks(seeds), pairs, margin=trap.margin)
    draw = random.Random(f"{trap.name} {trials} {seeds}")
    kinds, false = Counter[str](), 0
    right = {1: {"better"}, -1: {"worse"}, 0: {"equivalent"} if trap.margin else set()}[trap.truth]
    for _ in range(races):
        referee = race(trap, conduct, draw)
        found = [referee.kind(pair) for pair in pairs]
        kinds[found[0]] += 1
        false += any(kind not in {*right, "undecided", "not comparable"} for kind in found)
    return kinds, false


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--races", type=int, default=1000)
    parser.add_argument("--trials", default="2,4,10")
    parser.add_argument("--seeds", default="10")
    parser.add_argument("--only", default="", help="traps whose names begin so")
    options = parser.parse_args()
    trials = [int(part) for part in options.trials.split(",")]
    seeds = [int(part) for part in options.seeds.split(",")]
    worst = 0.0
    print("| trap | false, % | at most | better, worse, of all, % |\n|---|---|---|---|")
    for trap in traps():
        if not trap.name.startswith(options.only):
            continue
        cells = [count_kinds(trap, count, seeds, options.races) for count in trials]
        bound = max(upper_bound(false, options.races) for _, false in cells)
        worst = max(worst, bound) if trap.knowable else worst
        rates = " ".join(f"{100 * false / options.races:.1f}" for _, false in cells)
        total = sum((kinds for kinds, _ in cells), Counter[str]())
        parts = (100 * total[kind] / total.total() for kind in ("better", "worse"))
        name = trap.name if trap.knowable else f"{trap.name} *"
        print(f"| {name} | {rates} | {100 * bound:.1f} | {', '.join(f'{p:.0f}' for p in parts)} |",
              flush=True)  # fmt: skip
    print(f"\nColumns by T = {options.trials}. * breaks an assumption; not counted below.")
    print(f"Worst upper 95 % bound: {worst:.2%}. {'Too many.' if worst > ALLOWED else ''}")


if __name__ == "__main__":
    main()
