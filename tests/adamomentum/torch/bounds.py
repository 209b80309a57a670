"""A step by the float64 oracle, and how far rounding may carry a backend from it.

The bounds are those of a running error analysis. Every sum and product may be off by the unit
roundoff of the dtype that a backend calculates in, relative to the sizes of the terms, whatever
their order; what is stored may be off by a rounding to its dtype. Errors of one result go on into
the next. No tolerance is chosen by hand, and where digits cancel the bound is wide by itself.
It is infinite where float32 overflows, or where rounding leaves nothing of the second moment.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from tests.oracle import Oracle

# Relative error of rounding to nearest, and half of the smallest number.
ROUNDOFF = {
    torch.float64: (2.0**-53, 2.0**-1075),
    torch.float32: (2.0**-24, 2.0**-150),
    torch.bfloat16: (2.0**-8, 2.0**-134),
    torch.float16: (2.0**-11, 2.0**-25),
}
FLAGS = ("amsgrad", "decoupled_weight_decay", "nesterov", "rectify", "debias_momentum", "maximize")


class State(NamedTuple):
    """Float64 arrays of a parameter and its moments (or of their errors), and the step number."""

    theta: np.ndarray
    m: np.ndarray
    v: np.ndarray
    v_max: np.ndarray
    t: float


class Dtypes(NamedTuple):
    """Of a parameter and of its three moments, and whether the parameter is rounded at random.

    A moment is rounded at random if it is bfloat16.
    """

    param: torch.dtype
    moments: tuple[torch.dtype, torch.dtype, torch.dtype]
    random_param: bool

    @property
    def wide(self) -> torch.dtype:
        """What a backend calculates in."""
        return torch.float64 if torch.float64 in (self.param, *self.moments[:2]) else torch.float32


def expect(before: State, error: State, grad, group, scale: float, dtypes: Dtypes):
    """The state after a step from `before`, and its largest errors, if `before` has `error`."""
    with np.errstate(all="ignore"):
        return _expect(before, error, grad, group, scale, dtypes)


def _expect(before, error, grad, group, scale, dtypes):
    options = {name: group[name] for name in (*FLAGS, "lr", "betas", "eps", "weight_decay")}
    oracle = Oracle(before.theta, **options, start=before[1:])
    oracle.step(grad / scale if scale else grad * np.inf)
    t, (b1, b2), lr, decay = oracle.t, group["betas"], abs(group["lr"]), group["weight_decay"]
    p, g, m, v = before.theta, oracle.gradients[-1], oracle.m, oracle.v

    u, half_tiny = ROUNDOFF[dtypes.wide]
    tiny = 4 * half_tiny
    huge = float(torch.finfo(dtypes.wide).max) / 4
    # The oracle rounds too: 1 - b^t loses digits at first, and rectification's rho always.
    left1, left2 = 1 - b1**t, 1 - b2**t
    own = 2.0**-53 * (8 + 2 / left1 + 2 / left2 + (16 * 2 / (1 - b2) if group["rectify"] else 0))
    u1 = u + own

    coupled = 0.0 if group["decoupled_weight_decay"] else abs(decay)
    g_terms = np.abs(g) + 2 * coupled * np.abs(p)  # at least |grad| + |decay p|
    g_error = 3 * u * g_terms + coupled * error.theta + _if(g_terms, tiny)
    m_terms = b1 * np.abs(before.m) + (1 - b1) * g_terms
    m_error = 6 * u1 * m_terms + b1 * error.m + (1 - b1) * g_error + _if(m_terms, tiny)

    k = 1 / left1 if group["debias_momentum"] else 1.0
    a_error = k * m_error + 4 * u1 * k * np.abs(m)
    square = np.square(k * np.abs(m) + a_error)
    v_terms = b2 * np.abs(before.v) + (1 - b2) * square + abs(group["eps"])
    v_error = (
        6 * u1 * v_terms
        + b2 * error.v
        + (1 - b2) * (2 * k * np.abs(m) * a_error + np.square(a_error))
        + _if(v_terms, tiny)
    )
    v_max_error = np.maximum(error.v_max, v_error)

    most, most_error = (oracle.v_max, v_max_error) if group["amsgrad"] else (v, v_error)
    relative = np.where(most_error == 0, 0.0, most_error / most)
    lost = ~((relative >= 0) & (relative < 0.5))
    if group["nesterov"]:
        a, b = b1 / (1 - b1 ** (t + 1)), (1 - b1) / left1
    else:
        a, b = 1 / left1, 0.0
    numerator = a * m + b * g
    terms = a * np.abs(m) + b * g_terms
    n_error = a * m_error + b * g_error + 5 * u1 * terms + _if(terms, tiny)
    denominator = _denominator(group, most, t, left2)
    if group["rectify"]:  # there may be none yet
        relative = np.where(denominator == 1.0, 0.0, relative)
        lost = lost & (denominator != 1.0)
    update_error = (n_error + (relative + 10 * u1) * np.abs(numerator)) / denominator
    update_error = update_error / (1 - np.minimum(relative, 0.5))

    partial = (1 + lr * abs(decay)) * np.abs(p) + lr * terms / denominator
    p_unit = max(u1, ROUNDOFF[torch.float32][0] if dtypes.param != torch.float64 else 0.0)
    kept = abs(1 - group["lr"] * decay) if group["decoupled_weight_decay"] else 1.0
    p_error = lr * update_error + 6 * p_unit * partial + kept * error.theta + _if(partial, tiny)

    sizes = (square, g_terms, m_terms, v_terms, k * np.abs(m), max(lr, 1) * terms / denominator)
    over = (partial > huge) | np.any([size > huge for size in sizes], axis=0)

    after = State(oracle.theta, m, v, oracle.v_max, t)
    random = dtypes.random_param
    errors = [_stored(after.theta, np.where(lost | over, np.inf, p_error), dtypes.param, random)]
    for x, e, dtype in zip(
        after[1:4], (m_error, v_error, v_max_error), dtypes.moments, strict=True
    ):
        errors.append(_stored(x, np.where(over, np.inf, e), dtype, dtype is torch.bfloat16))
    return after, State(*errors, 0.0)


def _if(terms, tiny):
    """What underflow may lose of a sum; nothing if all its terms are 0."""
    return np.where(terms == 0, 0.0, tiny)


def _denominator(group, most, t, left2):
    """What the numerator is divided by, from the oracle's second moment."""
    root = np.sqrt(np.where(most == 0, 1.0, most))
    if not group["rectify"]:
        return root / np.sqrt(left2)
    b2 = group["betas"][1]
    length = 2 / (1 - b2) - 1
    rho = length - 2 * t * b2**t / left2
    if rho < 5:
        return np.ones_like(root)
    r = np.sqrt((rho - 4) / (length - 4) * (rho - 2) / (length - 2) * length / rho)
    return (root + group["eps"]) / (r * np.sqrt(left2))


def _stored(value, error, dtype, at_random):
    """The error of a number after it was rounded to a dtype; infinite where that overflows."""
    unit, least = ROUNDOFF[dtype]
    rounding = (2 if at_random else 1) * (unit * (np.abs(value) + error) + least)
    total = error + np.where((value == 0) & (error == 0), 0.0, rounding)
    fits = np.abs(value) + total < float(torch.finfo(dtype).max) * (1 - 2 * unit)
    return np.where(fits, total, np.inf)
