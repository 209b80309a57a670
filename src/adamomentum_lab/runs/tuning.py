"""The trials of a tuning stage: the same number for every contender, from the paper's grids."""

from __future__ import annotations

import random
from typing import Any

from adamomentum_lab.contenders import Contender, space


def trials(
    contender: Contender, grid: str, base: dict[str, Any], count: int
) -> list[dict[str, Any]]:
    """The settings to try: those it starts from, then points of the grid; what the grid holds fixed
    is fixed in all of them.

    The points are a Latin hypercube: over the trials each setting runs evenly through its grid, in
    an order of its own that is the same for every contender.
    """
    if count < 1:
        return []
    grids = space(contender, grid)
    base = base | {name: values[0] for name, values in grids.items() if len(values) == 1}
    searched = {name: values for name, values in grids.items() if len(values) > 1}
    points: list[dict[str, Any]] = [dict(base) for _ in range(count - 1)]
    for name, values in searched.items():
        if name == "lr" and count <= len(values):  # too few for all: not the first one again
            values = tuple(value for value in values if value != base.get(name)) or values
        order = list(range(count - 1))
        random.Random(name).shuffle(order)
        for point, place in zip(points, order, strict=True):
            point[name] = values[int((place + 0.5) / (count - 1) * len(values))]
    return [dict(base), *points]
