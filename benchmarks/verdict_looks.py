"""How often someone who looks again until the answer pleases gets a false verdict.

    python -m benchmarks.verdict_looks [--people 400] [--only NAME]

All contenders are equally good, so every winner is false. Each person has a results folder of their
own and asks again in one way: with more seeds, more trials, other baselines... until a race has a
winner. Untuned races are chance alone. In tuned ones, two sharp curves make the bound on what was
not run as tight as it can be. Nothing protects from those marked *; the page says so.
"""

from __future__ import annotations

import argparse
import math
import random
import tempfile
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

from benchmarks.verdict_laws import World, vee
from benchmarks.verdicts import upper_bound

from adamomentum_lab.contender import Entry
from adamomentum_lab.engine.store import Store
from adamomentum_lab.race.bracket import Axis, SearchSpace, bracket
from adamomentum_lab.race.looks import plan_looks, record_looks
from adamomentum_lab.race.plan import Race
from adamomentum_lab.race.referee import Conduct, Referee

EIGHT = ("adamw", "adam", "sgdm", "yogi", "adabound", "radam", "adabelief", "adamomentum")
PAIR = Race("w", "code", EIGHT[:2], trials=0, seeds=5, scale="mini", protocol="fair")
Means = dict[str, float]
"""By contender, the mean of its final scores."""
Races = Generator[Race, Means, None]
"""The races that someone runs one after another. It is sent the means of each."""


def more_seeds(race: Race) -> Races:
    for seeds in range(2, 31):
        yield replace(race, seeds=seeds)


def until_decided(race: Race) -> Races:
    yield replace(race, looks="until decided")
    yield from (replace(race, seeds=seeds) for seeds in (20, 30, 40))


def more_settings(race: Race) -> Races:
    for seeds in (5, 10, 20):
        for certify in (8, 16, 32):
            yield replace(race, seeds=seeds, certify=certify)


def more_trials(race: Race) -> Races:
    for seeds in (5, 10, 20):
        for trials in (2, 4, 6, 8, 10, 12):
            yield replace(race, seeds=seeds, trials=trials)


def other_names(race: Race) -> Races:
    for seeds in range(3, 21):
        entry = Entry("/home/me/mine.py:Mine", {}, "code", {})
        name = f"name{seeds}"
        yield replace(race, optimizers=("adamw", name), entries={name: entry}, seeds=seeds)


def other_baselines(race: Race) -> Races:
    for name in EIGHT:
        yield replace(race, optimizers=EIGHT, baseline=name)
    yield replace(race, optimizers=EIGHT, baseline=None)


def best_and_worst(race: Race) -> Races:
    for seeds in (5, 10, 20):
        means = yield replace(race, optimizers=EIGHT, seeds=seeds)
        ends = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
        yield replace(race, optimizers=ends, baseline=ends[0], seeds=seeds)


def edited_files(race: Race) -> Races:
    for seeds in range(3, 21):
        yield replace(race, code=f"code{seeds}", seeds=seeds)


PEOPLE = {
    "untuned, more seeds": (more_seeds, False),
    "untuned, until decided, then more": (until_decided, False),
    "untuned, other names and more seeds": (other_names, False),
    "untuned, eight, every baseline": (other_baselines, False),
    "untuned, eight, then best and worst alone": (best_and_worst, False),
    "untuned, a comment in the workload and more seeds *": (edited_files, False),
    "tuned, more seeds": (more_seeds, True),
    "tuned, more settings, then more seeds": (more_settings, True),
    "tuned, more trials, then more seeds": (more_trials, True),
    "tuned, eight, then best and worst alone": (best_and_worst, True),
}


def score(world: World, name: str, x: float, seed: int, tuned: bool) -> float:
    name = "mine" if name.startswith("name") else name
    if not tuned:
        return world.z(name, seed)
    curve = vee(x + 3, 0.5, 0.5) if name == "adamw" else vee(x + 2.97, 1, 3)
    return curve + 0.01 * world.z(name, x, seed)


def conduct_race(race: Race, store: Store, world: World) -> tuple[bool, Means]:
    """Whether it has a winner, and the means."""
    levels = plan_looks(race, store)
    conduct = Conduct(
        race.trials, dict.fromkeys(race.look_seeds, 0.0), race.pairs, levels, race.certify
    )
    spaces = {name: SearchSpace({}, (Axis("lr", 1e-3),)) for name in race.optimizers}
    referee = Referee(spaces, conduct, {name: bracket(own) for name, own in spaces.items()})
    referee.resolution = 1e-6
    tasks = referee.begin()
    while tasks:
        task = tasks.pop()
        x = float(task.point[0] or 0) - 3
        found = score(world, task.contender, x, task.seed, race.trials > 0)
        tasks += referee.tell(task, (found, 0.0))
    scores = {name: own.scores(own.tuned, own.seeds) for name, own in referee.contenders.items()}
    record_looks(race, store, levels, scores)
    means = {name: math.fsum(own) / len(own) for name, own in scores.items()}
    return any(referee.kind(pair) in ("better", "worse") for pair in race.pairs), means


def misled(person: Callable[[Race], Races], tuned: bool, world: World, folder: Path) -> bool:
    """Whether someone gets a winner."""
    store = Store(folder)
    races = person(replace(PAIR, trials=8 if tuned else 0))
    race = next(races)
    while True:
        won, means = conduct_race(race, store, world)
        if won:
            return True
        try:
            race = races.send(means)
        except StopIteration:
            return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=400)
    parser.add_argument("--only", default="", help="those whose names begin so")
    options = parser.parse_args()
    print("| who asks again with | misled, % | at most |\n|---|---|---|")
    for name, (person, tuned) in PEOPLE.items():
        if not name.startswith(options.only):
            continue
        draw, count = random.Random(name), 0
        for _ in range(options.people):
            with tempfile.TemporaryDirectory() as folder:
                count += misled(person, tuned, World(draw), Path(folder))
        rate, bound = count / options.people, upper_bound(count, options.people)
        print(f"| {name} | {100 * rate:.1f} | {100 * bound:.1f} |", flush=True)


if __name__ == "__main__":
    main()
