"""Simulate the optimizers themselves in basins, with stable gradient noise."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import torch
from torch import nn

from adamomentum_lab import contenders
from adamomentum_paper.theory import Numbers, Tick
from adamomentum_paper.theory._levy import Exits, columns, stable

BETA1, BETA2 = 0.9, 0.999
# Of the algorithm: tail indices; h lr / sigma; half widths of basins in units of lr.
TAILS = (1.2, 1.5, 2.0)
CURVATURES = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
BROAD = (0.3, 1.0, 3.0, 10.0, 30.0)
# Basins of one height, in units of lr sigma; the curvature on the left and on the right.
HEIGHT = 5.0
BASINS = {"sharp": (0.5, 0.5), "flat": (0.02, 0.02), "asymmetric": (0.5, 0.02)}
METHODS = {
    "adam": ("adam", 1.0),
    "adamomentum": ("adamomentum", 1.0),
    "translated": ("adamomentum", math.sqrt((1 - BETA1) / (1 + BETA1))),
}


def run_basins(
    many: int, steps: int, warm: int, random: torch.Generator, tick: Tick
) -> list[Numbers]:
    """Run the optimizers, in units of lr and of the noise: g = h lr/sigma y + noise.

    During the first `warm` steps, trajectories that leave their basin go back to the minimum, at
    rest. Second moments are then those of a long stay, and AdaMomentum's long first steps do not
    count.
    """
    named: list[dict[str, Any]] = []
    for a in TAILS:
        for name, bends in BASINS.items():
            widths = [math.sqrt(2 * HEIGHT / h) for h in bends]
            named.append({"basin": name, "alpha": a, "h": bends, "width": widths})
        for h, w in product(CURVATURES, BROAD):
            named.append({"basin": "broad", "alpha": a, "h": (h, h), "width": (w, w)})
    cases = [(c["alpha"], *c["h"], *c["width"]) for c in named]
    alpha, left, right, width_left, width_right = columns(cases, many)
    params = {key: nn.Parameter(torch.zeros_like(alpha)) for key in METHODS}
    optimizers = {
        key: contenders.get(name).build([params[key]], lr=lr, betas=(BETA1, BETA2), eps=1e-30)
        for key, (name, lr) in METHODS.items()
    }
    exits = {key: Exits(alpha.shape) for key in METHODS}
    squares = torch.zeros(3, *alpha.shape, dtype=torch.float64)  # noise, m, and how many

    for step in range(-warm, steps):
        noise = stable(alpha, random)
        for key, y in params.items():
            at = y.detach()
            if step >= 0 and key == "adamomentum":
                inside = exits[key].inside
                m = optimizers[key].state[y]["exp_avg"]
                squares += torch.stack([noise**2, m**2, torch.ones_like(m)]) * inside
            y.grad = torch.where(at < 0, left, right) * at + noise
            optimizers[key].step()
            still = (y.detach() > -width_left) & (y.detach() < width_right)
            if step >= 0:
                exits[key].pass_time(1.0, still)
            else:  # put trajectories that left back at rest
                y.data.mul_(still)
                optimizers[key].state[y]["exp_avg"].mul_(still)
        tick((step + warm) / (steps + warm))
    means = {key: exits[key].mean() for key in METHODS}
    noise2, m2, count = squares.sum(-1).tolist()
    for i, case in enumerate(named):
        case |= {key: means[key][i] for key in METHODS}
        # The ratio of the two sides of the assumption, which holds from 1 on.
        case["assumption"] = BETA1 * m2[i] / ((2 - BETA1) * noise2[i]) if count[i] else None
    return named
