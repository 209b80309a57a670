"""Grid and random search: which trials each contender gets, and which of them go on."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from adamomentum_lab.contender import Contender
from adamomentum_lab.errors import LabError
from adamomentum_lab.plugins import provided
from adamomentum_lab.selection import Trained, reported_epoch, trial_score
from adamomentum_lab.space import (
    DECADES_OF_LR,
    LOGARITHMIC,
    TUNABLE,
    Settings,
    Space,
    Value,
    ends,
)

if TYPE_CHECKING:
    from adamomentum_lab.workload import Workload

Search = Literal["bracket", "grid", "random"]


@dataclass(frozen=True)
class Rung:
    """A part of successive halving: so many trials train up to so many epochs."""

    trials: int
    epochs: int


def rungs(count: int, epochs: int, halving: bool) -> tuple[Rung, ...]:
    """All trials a quarter of the epochs, the better half of them one half, the better quarter all.

    Parts are rounded up, so one trial at least reaches the end. Where a run is so short that a
    quarter and a half of it are the same epoch, the better quarter goes on at once.
    """
    if not halving:
        return (Rung(count, epochs),)
    found = [Rung(-(-count // part), -(-epochs * part // 4)) for part in (1, 2, 4)]
    return (found[0], *(b for a, b in itertools.pairwise(found) if b.epochs > a.epochs))


def select_survivors(
    tried: Mapping[int, Trained], going: Iterable[int], count: int, workload: Workload
) -> list[int]:
    """The trials that train on to the next rung: the best `count` on validation.

    Ties go by the number of the trial. Trials that diverged or failed do not go on.
    """
    able = [i for i in going if "validation" in reported_epoch(tried[i], workload)]
    able.sort(key=lambda i: (trial_score(tried[i], workload), i))
    return sorted(able[:count])


def space_of(contender: Contender, workload: type[Workload], tune: Collection[str] = ()) -> Space:
    """The values of each setting of a contender on a workload; single values are held fixed.

    They are those of the workload's `spaces`; else of its `grid`, which a plugin brings; else the
    contender's own. With `tune`, only these settings are searched. What the contender does not
    have is left out. Grids do not count for optimizers that the lab does not know, and what the
    user fixed stays fixed.
    """
    found = _space_of(contender, workload, tune)
    fixed: Space = {name: (value,) for name, value in contender.fixed.items()}
    return {**found, **fixed}


def _space_of(contender: Contender, workload: type[Workload], tune: Collection[str]) -> Space:
    common, named = workload.spaces.get("*", {}), workload.spaces.get(contender.name, {})
    contender.check(named)
    own: Space = {name: common[name] for name in contender.settings if name in common}
    own = {**own, **named}
    users = contender.entry is not None and contender.entry.is_users
    if not own and workload.grid is not None and not users:
        return _ask_plugins(contender, workload.grid, tune)
    if not own and users and contender.space == {"lr": DECADES_OF_LR}:
        own = {"lr": _decades_around(contender.settings["lr"])}
    own = {name: tuple(values) for name, values in (own or contender.space).items()}
    if not tune:
        return own
    fixed = {name: values for name, values in own.items() if len(values) == 1}
    searched = {
        name: own[name] if len(own.get(name, ())) > 1 else _other_values(name, contender, own)
        for name in tune
        if name in contender.settings
    }
    return {**fixed, **searched}


def _decades_around(lr: Value) -> tuple[Value, ...]:
    """Two to either side, the largest first."""
    if not isinstance(lr, (int, float)):
        raise LabError(f"lr is {lr!r}; it must be a number.")
    return tuple(float(f"{lr * factor:.4g}") for factor in (100, 10, 1, 0.1, 0.01))


def _ask_plugins(contender: Contender, grid: str | None, tune: Collection[str]) -> Space:
    """What the first plugin that has grids says."""
    plugins = provided("grids")
    if not plugins and grid is not None:
        raise LabError(f"there is no grid {grid!r}: no plugin that brings grids is installed.")
    found: Space = plugins[0](contender, grid, tune) if plugins else {}
    return found


def _other_values(name: str, contender: Contender, own: Space) -> tuple[Value, ...]:
    """Values of a setting that is asked for, but not in the space or fixed there."""
    values = _ask_plugins(contender, None, [name]).get(name, ())
    if not values:
        there = ", ".join(key for key, of in own.items() if len(of) > 1) or "nothing"
        raise LabError(
            f"there are no values of {name} to search for {contender.name}; {there} can be "
            f"searched, and `spaces` of the workload may list values of {name}."
        )
    return values


def choices(space: Space) -> Space:
    """What is searched of a space: the settings with two values or more, in the one order."""
    order = [*TUNABLE, *(name for name in space if name not in TUNABLE)]
    return {name: space[name] for name in order if len(set(space.get(name, ()))) > 1}


def trials(base: Settings, space: Space, count: int, search: Search = "grid") -> list[Settings]:
    """The settings to try: those it starts from, then points of its space; what the space holds
    fixed is fixed in all of them. No two are the same; there are fewer than `count` only where
    there are no more points.

    `grid`: points of the space as a Latin hypercube. Over the trials each setting runs
    evenly through its values, in an order of its own that is the same for every contender.

    `random`: log-uniform between the ends of a setting's values, or a choice of them, as points of
    a quasi-random sequence, which cover the space more evenly than independent draws. Trial k of
    every contender has the same quantile of each setting, however many trials there are.
    """
    if count < 1:
        return []
    first: dict[str, Value] = {
        name: tuple(of) if isinstance(of, list) else of for name, of in base.items()
    }
    first |= {name: of[0] for name, of in space.items() if len(of) == 1}
    choice = choices(space)
    if search == "grid":
        return sample_grid(first, choice, count)
    for name in LOGARITHMIC & choice.keys():
        least, _ = ends(choice[name])
        if least <= 0:
            why = f"{name} is searched on a logarithmic scale, which has no {least:g}"
            raise LabError(f"{why}; leave that value out, or use --search grid.")
    return sample_random(first, choice, count)


def sample_grid(first: Settings, choice: Space, count: int) -> list[Settings]:
    """A first point and others of the grid, spread as a Latin hypercube."""
    points = [dict(first) for _ in range(count - 1)]
    for name, values in choice.items():
        if name == "lr" and count <= len(values):  # too few for all: not the first one again
            values = tuple(value for value in values if value != first.get(name)) or values
        order = list(range(count - 1))
        random.Random(name).shuffle(order)
        for point, place in zip(points, order, strict=True):
            point[name] = values[int((place + 0.5) / (count - 1) * len(values))]
    found: list[Settings] = [first]
    for point in points:
        nearest = point if point not in found else _nearest(point, choice, found)
        if nearest is not None:
            found.append(nearest)
    return found


def _nearest(point: Settings, choice: Space, taken: list[Settings]) -> Settings | None:
    """The point of the grid nearest to one that is taken: as few settings changed as can be, the lr
    last, and these by as little as can be."""
    used = {_key(other, choice) for other in taken}
    place = {name: values.index(point[name]) for name, values in choice.items()}

    def distance(places: tuple[int, ...]) -> tuple[int, bool, float, tuple[int, ...]]:
        steps = {name: abs(place[name] - i) for name, i in zip(choice, places, strict=True)}
        part = sum(step / len(choice[name]) for name, step in steps.items())
        return sum(map(bool, steps.values())), steps.get("lr", 0) > 0, part, places

    free = (
        places
        for places in itertools.product(*(range(len(values)) for values in choice.values()))
        if tuple(values[i] for values, i in zip(choice.values(), places, strict=True)) not in used
    )
    best = min(free, key=distance, default=None)
    if best is None:
        return None
    return {**point, **{name: choice[name][i] for name, i in zip(choice, best, strict=True)}}


def sample_random(first: Settings, choice: Space, count: int) -> list[Settings]:
    """A first point and others spread between the ends of the grid.

    They are successive points of one scrambled Halton sequence, the same for every contender. A
    setting always has the same coordinate of it.
    """
    found, used = [first], {_key(first, choice)}
    # How many points there are; a first one from outside the lists is one more.
    points = math.inf
    if not LOGARITHMIC & choice.keys():
        points = len({*itertools.product(*choice.values())} | used)
    columns = [*TUNABLE, *(name for name in choice if name not in TUNABLE)]
    sequence = _halton(len(columns))
    while len(found) < min(count, points):
        place = dict(zip(columns, next(sequence), strict=True))
        drawn = {name: _quantile(name, values, place[name]) for name, values in choice.items()}
        point = {**first, **drawn}
        if _key(point, choice) not in used:
            found.append(point)
            used.add(_key(point, choice))
    return found


def _halton(dimensions: int) -> Iterator[list[float]]:
    """Points of the unit cube that fill it evenly, however many are taken."""
    from scipy.stats import qmc  # takes half a second to import

    sequence = qmc.Halton(dimensions, rng=0)
    while True:
        yield sequence.random(1)[0].tolist()


def _quantile(name: str, values: tuple[Value, ...], u: float) -> Value:
    if name not in LOGARITHMIC:
        return values[int(u * len(values))]
    low, high = ends(values)
    # Four digits: what is printed is the value, and machines agree on it.
    return float(f"{low * (high / low) ** u:.4g}")


def _key(settings: Settings, names: Iterable[str]) -> tuple[Value, ...]:
    return tuple(settings[name] for name in names)
