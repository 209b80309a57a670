"""Smooth functions with known constants, and runs of AdaMomentum in the theorem's form."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adamomentum import rule
from adamomentum_paper.theory import Numbers, Size, Tick
from adamomentum_paper.theory._bounds import Smooth, horizons

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Function:
    """A function that is applied to each coordinate and summed. Its minimum is 0."""

    value: Callable[[Array], Array]
    gradient: Callable[[Array], Array]
    lipschitz: float  # L, the largest |f''|
    largest: float  # of |f'|


FUNCTIONS = {
    "log(1+x^2)": Function(lambda x: np.log1p(x * x), lambda x: 2 * x / (1 + x * x), 2.0, 1.0),
    "1-cos x": Function(lambda x: 1 - np.cos(x), np.sin, 1.0, 1.0),
    "x^2/(1+x^2)": Function(
        lambda x: x * x / (1 + x * x), lambda x: 2 * x / (1 + x * x) ** 2, 2.0, 3 * math.sqrt(3) / 8
    ),
}  # fmt: skip
NOISE = 0.5  # of each coordinate, with random sign: |g| <= |f'| + 0.5, sigma^2 = 0.25 d
DIMENSION = 10
START = np.linspace(0.5, 2.5, DIMENSION)


@dataclass(frozen=True)
class DescentSetting:
    """The settings of a run. alpha None is the largest that the conditions admit."""

    name: str
    eps: float
    beta2: float
    alpha: float | None
    constant: bool = False  # beta1 = 0.9 instead of 1 - 1/sqrt(t)


SETTINGS = (
    DescentSetting("admitted, eps 1, beta2 0.9", 1.0, 0.9, None),
    DescentSetting("admitted, eps 1, beta2 0.999", 1.0, 0.999, None),
    DescentSetting("default eps, alpha 0.01", 1e-16, 0.999, 0.01),
    DescentSetting("default eps, alpha 0.1", 1e-16, 0.999, 0.1),
    DescentSetting("default eps, alpha 0.1, beta1 0.9", 1e-16, 0.999, 0.1, constant=True),
)
SHORT = (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000)  # horizons without noise
# Steps, trajectories.
_SIZES = {"smoke": (300, 8), "default": (100_000, 40), "paper": (1_000_000, 40)}


def smooth(function: str, setting: DescentSetting) -> Smooth:
    """Return the theorem's constants."""
    f = FUNCTIONS[function]
    return Smooth(f.lipschitz, f.largest + NOISE, setting.eps, setting.beta2)


def compute(size: Size, tick: Tick) -> Numbers:
    """Run many trajectories of all functions and settings, then short ones without noise."""
    steps, many = _SIZES[size]
    ends = horizons(steps)
    alphas = [
        [s.alpha or smooth(name, s).admissible(steps) for s in SETTINGS] for name in FUNCTIONS
    ]
    shape = (len(FUNCTIONS), len(SETTINGS), many, DIMENSION)
    theta, m, v = np.broadcast_to(START, shape).copy(), np.zeros(shape), np.zeros(shape)
    alpha = np.array(alphas)[..., None, None]
    eps, beta2, constant = (
        np.array([getattr(s, key) for s in SETTINGS])[:, None, None]
        for key in ("eps", "beta2", "constant")
    )
    functions = list(FUNCTIONS.values())
    random = np.random.default_rng(1)
    total, averages, roots = np.zeros(shape[:-1]), [], []
    for t in range(steps + 1):
        exact = np.stack([f.gradient(x) for f, x in zip(functions, theta, strict=True)])
        total += (exact * exact).sum(-1)
        if t in ends:
            averages.append((total / (t + 1)).tolist())
            tick(t / steps)
        g = exact + np.where(random.random((many, DIMENSION)) < 0.5, NOISE, -NOISE)
        beta1 = np.where(constant, 0.9, 1 - (t + 1) ** -0.5)
        scalars = rule.scalars(t + 1, beta1=beta1, beta2=beta2, eps=eps, bias_correction=False)
        direction, m, v, _ = rule.direction(np, g, m, v, scalars)
        theta = theta - alpha / (t + 1) ** 0.5 * direction
        if t in ends:
            roots.append(np.sqrt(v).mean((-1, -2)).tolist())
    return {
        "steps": steps, "trajectories": many, "horizons": ends, "alphas": alphas,
        "gap": [float(f.value(START).sum()) for f in functions],
        "squared": [float((f.gradient(START) ** 2).sum()) for f in functions],
        "averages": averages, "roots": roots,
        "short": [_short(printed=True), _short(printed=False)],
        "constant_gradient": [_constant_gradient(t) for t in SHORT],
    }  # fmt: skip


QUIET = Smooth(lipschitz=1.0, gradient=1.0, eps=1.0, beta2=0.999)


def _short(*, printed: bool) -> Numbers:
    """Run 1 - cos x from 0.1 without noise, with the largest admitted alpha, for some horizons."""
    alphas = np.array([QUIET.admissible(steps, printed=printed) for steps in SHORT])
    theta, m, v, total = np.full(len(SHORT), 0.1), *np.zeros((3, len(SHORT)))
    averages = [0.0] * len(SHORT)
    for t in range(max(SHORT) + 1):
        g = np.sin(theta)
        total += g * g
        if t in SHORT:
            averages[SHORT.index(t)] = float(total[SHORT.index(t)] / (t + 1))
        direction, m, v = _quiet_step(g, m, v, t + 1)
        theta = theta - alphas / (t + 1) ** 0.5 * direction
    gap, squared = 1 - math.cos(0.1), math.sin(0.1) ** 2
    bounds = [
        QUIET.bound(steps, alpha, gap, squared, 0.0, printed_b_l=printed)
        for steps, alpha in zip(SHORT, alphas, strict=True)
    ]
    return {"alphas": alphas.tolist(), "averages": averages, "bounds": bounds}


def _quiet_step(g: Any, m: Any, v: Any, t: int) -> Any:
    """Return the direction of step t, and the averages after it."""
    scalars = rule.scalars(
        t, beta1=1 - t**-0.5, beta2=QUIET.beta2, eps=QUIET.eps, bias_correction=False
    )
    return rule.direction(np, g, m, v, scalars)[:3]


def _constant_gradient(steps: int) -> float:
    """Return 1/sqrt(v) after `steps` gradients of 1, which is its smallest value."""
    m = v = 0.0
    for t in range(1, steps + 1):
        _, m, v = _quiet_step(1.0, m, v, t)
    return float(v**-0.5)


def admitted(eps: float, beta2: float = 0.999, steps: int = 100_000) -> dict[str, float]:
    """Return what the conditions admit for L = G = 1, and when the bound is below |f'| <= 1."""
    made_of = Smooth(1.0, 1.0, eps, beta2)
    alpha = made_of.admissible(steps)
    longest = min(1 / math.sqrt(1 - beta2), made_of.b_u(1))

    def says(exponent: float) -> float:
        long = round(10**exponent)
        # One coordinate with f - min f = 1, f'^2 = 0.5 and sigma^2 = 0.25.
        return made_of.bound(long, made_of.admissible(long), 1.0, 0.5, 0.25)

    low, high = 0.0, 60.0
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (middle, high) if says(middle) > 1 else (low, middle)
    return {
        "coupled": made_of.coupled(steps),
        "curvature": made_of.curvature(steps),
        "alpha": alpha,
        "path": 2 * alpha * math.sqrt(steps) * longest,
        "informative": 10**high,
    }
