"""Algorithm 1 of "Rethinking Adam: A Twofold Exponential Moving Average Approach".

The whole method, once, in the paper's symbols:

    m_t     = b1 m_{t-1} + (1 - b1) g_t
    v_t     = b2 v_{t-1} + (1 - b2) m_t^2 + eps
    theta_t = theta_{t-1} - lr * (m_t / (1 - b1^t)) / sqrt(v_t / (1 - b2^t))

Two things differ from Adam: v averages squared *momentum*, and eps is part of v, entering at
every step, so that nothing is added outside the root.

What depends on the step number alone is computed once per step, by `scalars`; `direction` has the
arithmetic of every element. The learning rate and weight decay are the caller's:
`theta = theta - lr * direction`.

No framework is imported: `xp` is the array namespace, numpy, torch, jax.numpy or keras.ops. Python
numbers need none; `floats` is theirs.
"""

import math
from typing import Any, NamedTuple

# 2 / d - 1 + 2 / log(1 - d) = d / 6 + d^2 / 12 + ...: twice Gregory's coefficients.
GREGORY = (1 / 6, 1 / 12, 19 / 360, 3 / 80, 863 / 30240, 275 / 12096, 33953 / 1814400)


class Scalars(NamedTuple):
    """The scalars of one step: Python floats, or arrays where the step number is one."""

    beta1: Any
    beta2: Any
    eps: Any
    k: Any
    """Factor of m before it is squared; None (no factor) without debias_momentum."""
    a: Any
    """Factor of m in the numerator."""
    b: Any
    """Factor of g in the numerator; None without nesterov."""
    scale: Any
    """Factor of the root. With rectify, 0 says that there is no denominator yet."""
    outside: Any
    """eps again, added to the root; None without rectify."""


def direction(xp, g, m, v, scalars, v_max=None):
    """One step of AdaMomentum: the direction to walk against, and the new state.

    Args:
        xp: array namespace of the next three.
        g: gradient at this step. Real: view complex arrays as pairs of reals first.
        m: average of the gradients before this step; zeros at first.
        v: average of the squared momenta before this step; zeros at first. Keep it, and this
            arithmetic, in float32 or wider: the default eps is zero in float16.
        scalars: what `scalars` returns for this step.
        v_max: largest v so far (zeros before the first step) selects AMSGrad. It holds the
            *uncorrected* v, eps included, as in the authors' code. Not with rectify.

    Returns:
        The direction and the new m, v and v_max, which stays None where it was None.
    """
    beta1, beta2, eps, k, a, b, scale, outside = scalars
    m = beta1 * m + (1 - beta1) * g
    average = m if k is None else k * m
    # With eps added last, XLA would compute v twice, and keep a copy of the old one for that.
    v = beta2 * v + ((1 - beta2) * (average * average) + eps)
    if v_max is not None:
        if outside is not None:
            raise ValueError(
                "rectify=True ignores the maximum that AMSGrad keeps; use one of the two."
            )
        # The maximum, NaN if either is. keras.ops.maximum rounds float64 to float32 on torch.
        v_max = _of(xp, v).where((v > v_max) | (v != v), v, v_max)

    root = square_root(v if v_max is None else v_max, xp)
    if outside is None:
        denominator = scale * root
    else:
        denominator = _of(xp, scale).where(scale > 0, scale * (root + outside), 1.0)
    numerator = a * m if b is None else a * m + b * g
    return numerator / denominator, m, v, v_max


def scalars(
    t,
    *,
    beta1=0.9,
    beta2=0.999,
    eps=1e-16,
    nesterov=False,
    rectify=False,
    debias_momentum=False,
    bias_correction=True,
    xp=None,
):
    """The scalars of step t.

    Args:
        t: number of this step, from 1: a number or an array. float32 is exact enough.
        beta1: decay of m; like the next two, it may differ from step to step, as in the theorems.
        beta2: decay of v.
        eps: added to v.
        nesterov: look one step ahead in the numerator; the paper's conclusion names it as future
            work. v is unchanged.
        rectify: RAdam's variance rectification in the authors' form, which adds eps once more,
            outside the root.
        debias_momentum: v averages the bias-corrected momentum, so that the first step is lr
            instead of lr / (1 - beta1), ten times that; late steps are unchanged. Not in the paper.
        bias_correction: False omits the two corrections of the last line, as the paper's theorems
            do; for checking them, not for training.
        xp: array namespace, if any of the numbers above is an array.
    """

    def corrected(beta, t):
        return remaining(beta, t, xp) if bias_correction else 1.0

    if nesterov:
        a, b = beta1 / corrected(beta1, t + 1), (1 - beta1) / corrected(beta1, t)
    else:
        a, b = 1 / corrected(beta1, t), None
    k = 1 / remaining(beta1, t, xp) if debias_momentum else None
    correction2 = corrected(beta2, t)
    root = _of(xp, correction2).sqrt(correction2)
    if not rectify:
        return Scalars(beta1, beta2, eps, k, a, b, 1 / root, None)
    on, r = rectification(beta2, t, xp)
    return Scalars(beta1, beta2, eps, k, a, b, on / (r * root), eps)


def square_root(v, xp=None):
    """sqrt(v), and 1 where v is 0.

    v is 0 only if eps is 0 and no momentum had a nonzero square yet. m is then zero too (or
    nearly), and so is m / 1. Replaced before the root, v has a finite derivative as well.
    """
    xp = _of(xp, v)
    return xp.sqrt(xp.where(v == 0, 1.0, v))


def remaining(beta, t, xp=None):
    """1 - beta^t: the weight an average started at zero has given to data by step t.

    No digits cancel, so float32 is enough, which is what a traced step number has.
    """
    x = -_rate(beta, xp) * t
    return -_of(xp, x).expm1(x)


def rectification(beta2, t, xp=None):
    """RAdam's switch (1.0 once rho_t >= 5, else 0.0) and its factor r_t.

    rho_t = rho_inf - 2 t beta2^t / (1 - beta2^t) is the length of the average of RAdam's model. It
    is a difference of two numbers near 2 / (1 - beta2), so that in float32 it loses everything at
    early steps. Written with x = -t log(beta2) and y = x / 2, they cancel on paper:
    rho_t = t + (rho_inf - 2 t / x) - (2 t / x) (y coth(y) - 1). Gregory's series has the first
    bracket, Lambert's continued fraction the second. They converge for x < 0.5 and long averages;
    elsewhere the difference is harmless, or rho_t far below 5.
    """
    d = 1 - beta2
    rate = _rate(beta2, xp)
    x = rate * t
    left = remaining(beta2, t, xp)
    rho_inf = 2 / d - 1
    late = rho_inf - 2 * t * (1 - left) / left

    y2 = _of(xp, x).where(x < 0.5, x, 0.5) ** 2 / 4
    coth = y2 / (3 + y2 / (5 + y2 / (7 + y2 / (9 + y2 / (11 + y2 / 13)))))
    offset = 0.0
    for coefficient in reversed(GREGORY):
        offset = d * (coefficient + offset)
    early = t + offset - 2 / rate * coth
    rho = _of(xp, x).where(x < 0.5, early, late)

    on = (rho >= 5) * 1.0
    # Below 5 the factor is unused; 5 keeps it finite (rho_inf < 5 means that rho always is).
    rho, rho_inf = _at_least_5(rho, xp), _at_least_5(rho_inf, xp)
    squared = (rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho)
    return on, _of(xp, squared).sqrt(squared)


def _rate(beta, xp):
    """-log(beta). beta - 1 is exact, of whatever beta was rounded to."""
    return -_of(xp, beta).log1p(beta - 1)


def _at_least_5(x, xp):
    return _of(xp, x).where(x >= 5, x, 5.0)


class floats:  # noqa: N801  # it stands for a module
    """The namespace of Python numbers."""

    sqrt, expm1 = math.sqrt, math.expm1

    @staticmethod
    def log1p(x):
        """log(1 + x), and -inf at -1."""
        return math.log1p(x) if x > -1 else -math.inf

    @staticmethod
    def where(condition, a, b):
        """a if condition else b."""
        return a if condition else b


def _of(xp, x):
    """The namespace of x: `floats` for a number, else `xp`."""
    return floats if isinstance(x, float | int) else xp
