"""Algorithm 1 of "Rethinking Adam: A Twofold Exponential Moving Average Approach".

The whole method, once, in the paper's symbols:

    m_t     = b1 m_{t-1} + (1 - b1) g_t
    v_t     = b2 v_{t-1} + (1 - b2) m_t^2 + eps
    theta_t = theta_{t-1} - lr * (m_t / (1 - b1^t)) / sqrt(v_t / (1 - b2^t))

Two things differ from Adam. v averages squared *momentum* instead of squared gradients. And eps is
added to v at every step instead of to the root.

`scalars` computes the numbers that depend only on the step number, once per step. `direction`
updates every element. The caller applies the learning rate and weight decay:
`theta = theta - lr * direction`.

This module imports no framework. `xp` is the array namespace: numpy, torch, jax.numpy or keras.ops.
Python numbers need no namespace; they use `floats`.
"""

import math
from typing import Any, NamedTuple

# 2 / d - 1 + 2 / log(1 - d) = d / 6 + d^2 / 12 + ...: twice Gregory's coefficients.
GREGORY = (1 / 6, 1 / 12, 19 / 360, 3 / 80, 863 / 30240, 275 / 12096, 33953 / 1814400)

TINY = 2.0**-126
"""The smallest normal number of float32. Hardware may replace smaller ones by 0."""


class Scalars(NamedTuple):
    """The scalars of one step: Python floats, or arrays if the step number is an array."""

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
    """Factor of the root. With rectify, 0 means that the step has no denominator yet."""
    outside: Any
    """eps again, added to the root; None without rectify."""


def direction(xp, g, m, v, scalars, v_max=None):
    """Compute the direction of one step (to be subtracted, times lr) and the new state.

    Args:
        xp: array namespace of g, m and v.
        g: gradient of this step. It must be real; view complex arrays as pairs of reals first.
        m: average of the gradients before this step; zeros before the first step.
        v: average of the squared momenta before this step; zeros before the first step. Use
            float32 or wider for all arrays: the default eps is zero in float16.
        scalars: the result of `scalars` for this step.
        v_max: largest v so far (zeros before the first step). Passing it selects AMSGrad. It holds
            v *before* bias correction, with eps, as in the authors' code. Not allowed with rectify.

    Returns:
        The direction and the new m, v and v_max (None if v_max was None).
    """
    beta1, beta2, eps, k, a, b, scale, outside = scalars
    m = beta1 * m + (1 - beta1) * g
    average = m if k is None else k * m
    # If eps were added last, XLA would compute v twice and keep a copy of the old v.
    v = beta2 * v + ((1 - beta2) * (average * average) + eps)
    if v_max is not None:
        if outside is not None:
            raise ValueError(
                "rectify=True ignores the maximum that AMSGrad keeps; use one of the two."
            )
        # Maximum that propagates NaN. keras.ops.maximum rounds float64 to float32 on torch.
        v_max = _of(xp, v).where((v > v_max) | (v != v), v, v_max)

    largest = v if v_max is None else v_max
    # v is at least eps. Where that is known to be positive, also in float32, no zero is replaced.
    positive = isinstance(eps, float) and eps >= TINY
    root = _of(xp, largest).sqrt(largest) if positive else square_root(largest, xp)
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
    """Compute the scalars of step t.

    beta1, beta2 and eps may change from step to step, as in the paper's theorems.

    Args:
        t: number of this step, starting at 1; a number or an array. float32 is exact enough.
        beta1: decay of m.
        beta2: decay of v.
        eps: added to v.
        nesterov: look one step ahead in the numerator. v is unchanged. The paper's conclusion
            mentions it as future work.
        rectify: apply RAdam's variance rectification in the authors' form, which also adds eps
            outside the root.
        debias_momentum: let v average the bias-corrected momentum. The first step is then lr
            instead of lr / (1 - beta1) = 10 lr; late steps are unchanged. Not in the paper.
        bias_correction: False omits both bias corrections, as the paper's theorems do. Use it to
            check the theorems, not to train.
        xp: array namespace; required if any of the numbers above is an array.
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
    """Return sqrt(v), with 1 where v is 0.

    v is 0 only if eps is 0 and every squared momentum so far was 0. m is then zero too (or
    nearly), and so is the update m / 1. The zeros are replaced before the root, so that the
    derivative stays finite.
    """
    xp = _of(xp, v)
    return xp.sqrt(xp.where(v == 0, 1.0, v))


def remaining(beta, t, xp=None):
    """Return 1 - beta^t, the total weight of the data in an average that started at zero.

    The formula loses no digits to cancellation, so float32 is enough. Under jit the step number is
    float32.
    """
    x = -_rate(beta, xp) * t
    return -_of(xp, x).expm1(x)


def rectification(beta2, t, xp=None):
    """Return RAdam's switch (1.0 once rho_t >= 5, else 0.0) and its factor r_t.

    rho_t = rho_inf - 2 t beta2^t / (1 - beta2^t) is the length of the average in RAdam's model. It
    is the difference of two numbers near 2 / (1 - beta2). At early steps float32 loses all digits
    of that difference. With x = -t log(beta2) and y = x / 2 the large terms cancel analytically:
    rho_t = t + (rho_inf - 2 t / x) - (2 t / x) (y coth(y) - 1). Gregory's series gives the first
    bracket, Lambert's continued fraction the second. Both converge for x < 0.5 and long averages.
    Elsewhere the plain difference is accurate, or rho_t is far below 5.
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
    # The factor is unused below 5. Clamping keeps it finite (if rho_inf < 5, rho always is too).
    rho, rho_inf = _at_least_5(rho, xp), _at_least_5(rho_inf, xp)
    squared = (rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho)
    return on, _of(xp, squared).sqrt(squared)


def _rate(beta, xp):
    """Return -log(beta). beta - 1 is exact for the stored beta."""
    return -_of(xp, beta).log1p(beta - 1)


def _at_least_5(x, xp):
    return _of(xp, x).where(x >= 5, x, 5.0)


class floats:  # noqa: N801  # used like a module
    """The array namespace for Python numbers."""

    sqrt, expm1 = math.sqrt, math.expm1

    @staticmethod
    def log1p(x):
        """Return log(1 + x), or -inf at -1."""
        return math.log1p(x) if x > -1 else -math.inf

    @staticmethod
    def where(condition, a, b):
        """Return a if condition else b."""
        return a if condition else b


def _of(xp, x):
    """Return the namespace of x: `floats` for a number, else `xp`."""
    return floats if isinstance(x, float | int) else xp
