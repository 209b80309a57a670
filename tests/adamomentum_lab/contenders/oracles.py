"""Float64 contenders, written apart from the lab: what each is held against.

An oracle is a function of all gradients so far (first axis: time, weight decay included where it
is coupled), the present lr and the settings; it returns what is subtracted from theta. Averages are
sums over the history, not recursions, except Yogi's, which is no linear average.
test_contenders.py checks the first steps by hand.
"""

from __future__ import annotations

import numpy as np


def walk(oracle, theta, gradients, rates, *, decay, decoupled, settings):
    """Theta after all the gradients, each step at its own lr."""
    history = []
    for g, lr in zip(gradients, rates, strict=True):
        history.append(g if decoupled else g + decay * theta)
        update = oracle(np.array(history), lr, settings)
        theta = theta - (lr * decay * theta if decoupled else 0) - update
    return theta


def weighted(values, beta):
    """sum_i beta^(t-i) values_i, the newest with weight 1."""
    ages = np.arange(len(values))[::-1].reshape(-1, *[1] * (values.ndim - 1))
    return np.sum(beta**ages * values, axis=0)


def mean(values, beta):
    return (1 - beta) * weighted(values, beta)


def means(values, beta):
    """The mean at each time."""
    return np.array([mean(values[: t + 1], beta) for t in range(len(values))])


def unbiased(values, beta):
    return mean(values, beta) / (1 - beta ** len(values))


def ratio(a, b):
    return np.divide(a, b, out=np.zeros_like(a), where=b != 0)


def radams(t, b2):
    """RAdam's r_t, or None while the variance is intractable."""
    rho_inf = 2 / (1 - b2) - 1
    rho = rho_inf - 2 * t * b2**t / (1 - b2**t)
    if rho < 5:
        return None
    return np.sqrt((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho))


def rectified(gs, lr, s, v):
    """RAdam's step, whatever second moment v (uncorrected) goes into it."""
    (b1, b2), t = s["betas"], len(gs)
    r = radams(t, b2)
    if r is None:
        return lr * unbiased(gs, b1)
    return lr * r * np.sqrt(1 - b2**t) * ratio(unbiased(gs, b1), np.sqrt(v) + s["eps"])


def sgdm(gs, lr, s):
    return lr * weighted(gs, s["momentum"])


def adam(gs, lr, s):
    b1, b2 = s["betas"]
    return lr * ratio(unbiased(gs, b1), np.sqrt(unbiased(gs**2, b2)) + s["eps"])


def adam_translated(gs, lr, s):
    b1 = s["betas"][0]
    return adam(gs, lr * np.sqrt((1 + b1) / (1 - b1)), s)


def yogi(gs, lr, s):
    (b1, b2), t = s["betas"], len(gs)
    start = 1e-6
    m = mean(gs, b1) + b1**t * start
    v = np.full_like(gs[0], start)
    for square in gs**2:
        v = np.where(v > square, v - (1 - b2) * square, v + (1 - b2) * square * (v != square))
    return lr * m / (1 - b1**t) / (np.sqrt(v / (1 - b2**t)) + s["eps"])


def adabound(gs, lr, s):
    (b1, b2), t = s["betas"], len(gs)
    final = s["final_lr"] * lr / s["lr"]  # s["lr"] is the one it began with
    lower, upper = final * (1 - 1 / (s["gamma"] * t + 1)), final * (1 + 1 / (s["gamma"] * t))
    with np.errstate(divide="ignore"):
        rate = lr * np.sqrt(1 - b2**t) / (1 - b1**t) / (np.sqrt(mean(gs**2, b2)) + s["eps"])
    return np.minimum(np.maximum(rate, lower), upper) * mean(gs, b1)


def radam(gs, lr, s):
    return rectified(gs, lr, s, mean(gs**2, s["betas"][1]))


def adabelief(gs, lr, s):
    (b1, b2), eps = s["betas"], s["eps"]
    surprises = (gs - means(gs, b1)) ** 2 + eps / (1 - b2)
    if s["rectify"]:
        return rectified(gs, lr, s, mean(surprises, b2))
    return lr * ratio(unbiased(gs, b1), np.sqrt(unbiased(surprises, b2)) + eps)


def adamomentum(gs, lr, s):
    b1, b2 = s["betas"]
    squares = means(gs, b1) ** 2 + s["eps"] / (1 - b2)
    if s.get("rectify"):
        return rectified(gs, lr, s, mean(squares, b2))
    return lr * ratio(unbiased(gs, b1), np.sqrt(unbiased(squares, b2)))


def adamomentum_rectified(gs, lr, s):
    return adamomentum(gs, lr, {**s, "rectify": True})


def adamomentum_debiased(gs, lr, s):
    b1, b2 = s["betas"]
    momenta = np.array([unbiased(gs[: t + 1], b1) for t in range(len(gs))])
    second = unbiased(momenta**2 + s["eps"] / (1 - b2), b2)
    return lr * ratio(momenta[-1], np.sqrt(second))


def adamomentum_outer_eps(gs, lr, s):
    b1, b2 = s["betas"]
    second = unbiased(means(gs, b1) ** 2, b2)
    return lr * ratio(unbiased(gs, b1), np.sqrt(second) + s["eps"])


def eadam(gs, lr, s):
    b1, b2 = s["betas"]
    return lr * ratio(unbiased(gs, b1), np.sqrt(unbiased(gs**2 + s["eps"] / (1 - b2), b2)))


def rmsprop(gs, lr, s):
    seconds = means(gs**2, s["alpha"])  # never corrected for its start
    return lr * weighted(ratio(gs, np.sqrt(seconds) + s["eps"]), s["momentum"])


def nadam(gs, lr, s):
    (b1, b2), t = s["betas"], len(gs)
    # Dozat's warming momentum, mu_1 to mu_{t+1}; torch's momentum_decay is its 0.004.
    mus = b1 * (1 - 0.5 * 0.96 ** (np.arange(1, t + 2) * s["momentum_decay"]))
    numerator = mus[t] * mean(gs, b1) / (1 - np.prod(mus))
    numerator = numerator + (1 - mus[t - 1]) * gs[-1] / (1 - np.prod(mus[:t]))
    return lr * ratio(numerator, np.sqrt(unbiased(gs**2, b2)) + s["eps"])


def sign(gs, lr, s):
    return lr * np.sign(gs[-1])


ORACLES = {
    "sgdm": sgdm,
    "adam": adam,
    "adamw": adam,
    "yogi": yogi,
    "adabound": adabound,
    "radam": radam,
    "adabelief": adabelief,
    "adamomentum": adamomentum,
    "adam-translated": adam_translated,
    "adamomentum-debiased": adamomentum_debiased,
    "adamomentum-outer-eps": adamomentum_outer_eps,
    "adamomentum-rectified": adamomentum_rectified,
    "eadam": eadam,
    "nadam": nadam,
    "rmsprop": rmsprop,
    "sign": sign,
}
