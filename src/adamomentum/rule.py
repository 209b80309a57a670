"""Algorithm 1 of "Rethinking Adam: A Twofold Exponential Moving Average Approach".

The whole method, once, in the paper's symbols:

    m_t     = b1 m_{t-1} + (1 - b1) g_t
    v_t     = b2 v_{t-1} + (1 - b2) m_t^2 + eps
    theta_t = theta_{t-1} - lr * (m_t / (1 - b1^t)) / sqrt(v_t / (1 - b2^t))

Two things differ from Adam: v averages squared *momentum*, and eps is part of v, entering at
every step, so that nothing is added outside the root.

This module imports nothing and uses operators only. Python floats, NumPy, torch and JAX arrays
(and so Keras tensors on these backends) all pass through the same lines. The learning rate and
weight decay are the caller's: `theta = theta - lr * direction`.
"""


def direction(
    g,
    m,
    v,
    t,
    *,
    beta1=0.9,
    beta2=0.999,
    eps=1e-16,
    v_max=None,
    nesterov=False,
    rectify=False,
    debias_momentum=False,
    bias_correction=True,
    corrections=None,
):
    """One step of AdaMomentum: the direction to walk against, and the new state.

    Args:
        g: gradient at this step. Real: view complex arrays as pairs of reals first.
        m: average of the gradients before this step; zeros at first.
        v: average of the squared momenta before this step; zeros at first. Keep it, and this
            arithmetic, in float32 or wider: the default eps is zero in float16.
        t: number of this step, from 1: a number or an array. An array in float32 costs digits in
            1 - beta2^t: at 0.999 1e-5 of an early step, and a percent of an early rectified one;
            unless there are `corrections`.
        beta1: decay of m; like the next two, it may differ from step to step, as in the theorems.
        beta2: decay of v.
        eps: added to v.
        v_max: largest v so far (zeros before the first step) selects AMSGrad. It holds the
            *uncorrected* v, eps included, as in the authors' code.
        nesterov: look one step ahead in the numerator; the paper's conclusion names it as future
            work. v is unchanged.
        rectify: RAdam's variance rectification in the authors' form, which adds eps once more,
            outside the root. Not with `v_max`.
        debias_momentum: v averages the bias-corrected momentum, so that the first step is lr
            instead of lr / (1 - beta1), ten times that; late steps are unchanged. Not in the paper.
        bias_correction: False omits the two corrections of the last line, as the paper's theorems
            do; for checking them, not for training.
        corrections: two functions to take for `remaining` and `rectification`, where the caller has
            more exact ones than operators give: `_traced.corrections` makes them.

    Returns:
        The direction and the new m, v and v_max, which stays None where it was None.
    """
    if rectify and v_max is not None:
        raise ValueError("rectify=True ignores the maximum that AMSGrad keeps; use one of the two.")
    weight, rectified = corrections or (remaining, rectification)
    correction1 = weight(beta1, t) if bias_correction else 1.0
    correction2 = weight(beta2, t) if bias_correction else 1.0

    m = beta1 * m + (1 - beta1) * g
    k = m / weight(beta1, t) if debias_momentum else m
    v = beta2 * v + (1 - beta2) * (k * k) + eps
    if v_max is not None:
        v_max = larger(v, v_max)

    if nesterov:
        ahead = weight(beta1, t + 1) if bias_correction else 1.0
        m_hat = beta1 * m / ahead + (1 - beta1) * g / correction1
    else:
        m_hat = m / correction1

    if rectify:
        on, r = rectified(beta2, t)
        adapted = m_hat * (r * correction2**0.5) / (root(v) + eps)
        return on * adapted + (1 - on) * m_hat, m, v, v_max
    v_hat = (v if v_max is None else v_max) / correction2
    return m_hat / root(v_hat), m, v, v_max


def remaining(beta, t):
    """1 - beta^t: the weight an average started at zero has given to data by step t."""
    return 1 - beta**t


def root(v):
    """sqrt(v), and 1 where v is 0.

    v is 0 only where eps is and there was no momentum whose square is not 0 yet; then m is 0, or as
    good as, and so is m / 1. Added under the root, the one keeps the derivative finite as well.
    """
    return (v + (v == 0)) ** 0.5


def larger(a, b):
    """Elementwise maximum. The power keeps it exact, and right for infinities: x^1 y^0."""
    less = (a < b) * 1.0
    return a ** (1 - less) * b**less


def rectification(beta2, t):
    """RAdam's switch (1.0 once rho_t >= 5, else 0.0) and its factor r_t."""
    decayed = beta2**t
    rho_inf = 2 / (1 - beta2) - 1
    return switch(rho_inf - 2 * t * decayed / (1 - decayed), rho_inf)


def switch(rho, rho_inf):
    """The same of rho_t, the length of the average of RAdam's model, and of its limit."""
    on = (rho >= 5) * 1.0
    # Below 5 the factor is unused; 5 keeps it finite (rho_inf < 5 means that rho always is).
    off = 1 - on
    rho, rho_inf = on * rho + 5 * off, on * rho_inf + 5 * off
    r = ((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho)) ** 0.5
    return on, r
