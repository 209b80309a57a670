"""Float64 contenders, written apart from the lab: what each is held against.

An oracle is a function of all gradients so far (first axis: time, weight decay included where it
is coupled), the present lr and the settings; it returns what is subtracted from theta. Averages are
sums over the history, not recursions, except Yogi's, which is no linear average.
test_contenders.py checks the first steps by hand.
"""

from __future__ import annotations

import functools

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


def adam_matched_rms(gs, lr, s):
    own, other = eadam(gs, lr, s), adamomentum(gs, lr, s)
    return own * ratio(np.sqrt(np.mean(other**2)), np.sqrt(np.mean(own**2)))


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


def lion(gs, lr, s):
    b1, b2 = s["betas"]
    before = mean(gs[:-1], b2) if len(gs) > 1 else 0
    return lr * np.sign(b1 * before + (1 - b1) * gs[-1])


def adan(gs, lr, s):
    b1, b2, b3 = s["betas"]
    steps = np.diff(gs, axis=0, prepend=gs[:1])
    momentum = unbiased(gs, b1) + b2 * unbiased(steps, b2)
    return lr * ratio(momentum, np.sqrt(unbiased((gs + b2 * steps) ** 2, b3)) + s["eps"])


def from_first(values, beta):
    """The mean at each time, if the first value starts it."""
    return np.array([
        beta**t * values[0] + (mean(values[1 : t + 1], beta) if t else 0)
        for t in range(len(values))
    ])  # fmt: skip


def adopt(gs, lr, s):
    b1, b2 = s["betas"]
    roots = np.maximum(np.sqrt(from_first(gs**2, b2)), s["eps"])
    limits = np.arange(1, len(gs)) ** 0.25
    limits = limits.reshape(-1, *[1] * (gs.ndim - 1))
    return lr * mean(np.clip(gs[1:] / roots[:-1], -limits, limits), b1)


def ademamix(gs, lr, s):
    (b1, b2, b3), t = s["betas"], len(gs)
    parts = np.minimum(1, np.arange(1, t + 1) / s["warmup"]) if s["warmup"] else np.ones(t)
    # Half-lives grow in proportion: 1 / ln(beta) goes from that of b1 to that of b3.
    betas = np.exp(1 / ((1 - parts) / np.log(b1) + parts / np.log(b3)))
    slow = sum((1 - betas[i]) * np.prod(betas[i + 1 :]) * gs[i] for i in range(t))
    both = unbiased(gs, b1) + s["alpha"] * parts[-1] * slow
    return lr * ratio(both, np.sqrt(unbiased(gs**2, b2)) + s["eps"])


def laprop(gs, lr, s):
    b1, b2 = s["betas"]
    seconds = np.array([unbiased(gs[: t + 1] ** 2, b2) for t in range(len(gs))])
    return lr * unbiased(ratio(gs, np.sqrt(seconds) + s["eps"]), b1)


def adafamily(gs, lr, s):
    (b1, b2), mu = s["betas"], s["mu"]
    blends = 2 * (1 - abs(mu - 0.5)) * ((1 - mu) * gs - mu * means(gs, b1))
    return lr * ratio(unbiased(gs, b1), np.sqrt(unbiased(blends**2 + s["eps"] / (1 - b2), b2)))


def bcos(gs, lr, s):
    b1, b2 = s["betas"]
    momenta = from_first(gs, b1)
    return lr * ratio(momenta[-1], np.sqrt(from_first(momenta**2, b2)[-1]) + s["eps"])


def orthogonal(matrix, steps=5):
    """Newton-Schulz as Jordan 2024 writes it, which maps each singular value x by 5 times
    a x + b x^3 + c x^5."""
    u, values, v = np.linalg.svd(matrix, full_matrices=False)
    values = values / max(np.linalg.norm(values), 1e-7)
    for _ in range(steps):
        values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
    return u * values @ v


def muon(gs, lr, s):
    if gs.ndim < 3:
        return adam(gs, lr, s)
    mu, (rows, *columns) = s["momentum"], gs.shape[1:]
    nesterov = (gs[-1] + mu * weighted(gs, mu)).reshape(rows, -1)
    length = 0.2 * np.sqrt(max(rows, np.prod(columns)))
    return lr * length * orthogonal(nesterov).reshape(gs.shape[1:])


def left_vectors(matrix):
    """Its left singular vectors, a whole basis: the eigenvectors of matrix times its transpose."""
    return np.linalg.svd(matrix)[0]


def unfold(tensor, axis):
    """The matrix whose rows are the slices along an axis."""
    return np.moveaxis(tensor, axis, 0).reshape(tensor.shape[axis], -1)


def orthonormal(columns):
    """Gram-Schmidt, twice for precision."""
    for _ in range(2):
        found = []
        for column in columns.T:
            for other in found:
                column = column - (other @ column) * other
            found.append(column / np.linalg.norm(column))
        columns = np.array(found).T
    return columns


def soap(gs, lr, s):
    """With one matrix that turns all elements of a parameter, the Kronecker product of its axes'.
    The first gradient only gives the axes."""
    (b1, b2), shape, t = s["betas"], gs.shape[1:], len(gs) - 1
    turned = [len(shape) > 1 and length <= s["max_precond_dim"] for length in shape]
    bases = [
        left_vectors(unfold(gs[0], axis)) if turned[axis] else np.eye(length)
        for axis, length in enumerate(shape)
    ]
    second, update = np.zeros(shape), np.zeros(gs[0].size)
    for now in range(1, t + 1):
        whole = functools.reduce(np.kron, bases)
        second = b2 * second + (1 - b2) * (whole.T @ gs[now].ravel()).reshape(shape) ** 2
        momentum = whole.T @ unbiased(gs[1 : now + 1], b1).ravel()
        root = np.sqrt(second.ravel() / (1 - b2**now))
        update = whole @ ratio(momentum, root + s["eps"])
        if now % s["precondition_frequency"]:
            continue
        for axis in np.flatnonzero(turned):
            rows = np.array([unfold(g, axis) for g in gs[: now + 1]])
            power = mean(rows @ rows.transpose(0, 2, 1), b2) @ bases[axis]
            order = np.argsort(-np.sum(bases[axis] * power, 0), kind="stable")
            bases[axis] = orthonormal(power[:, order])
            second = np.take(second, order, axis)
    return lr * update.reshape(shape)


def adafactor(theta, gradients, rates, decay, s):
    """With a step that depends on the parameters, so of the whole run."""
    rows = columns = whole = 0
    for t, (g, lr) in enumerate(zip(gradients, rates, strict=True), 1):
        beta = 1 - t ** s["beta2_decay"]
        whole = beta * whole + (1 - beta) * g**2
        second = whole
        if g.ndim > 1:
            rows = beta * rows + (1 - beta) * np.mean(g**2, -1, keepdims=True)
            columns = beta * columns + (1 - beta) * np.mean(g**2, -2, keepdims=True)
            second = rows * columns / np.mean(rows)
        u = ratio(g, np.sqrt(second))
        u = u / max(1, np.sqrt(np.mean(u**2)) / s["d"])
        step = max(s["eps"][1], np.sqrt(np.mean(theta**2))) * min(lr, 1 / np.sqrt(t))
        theta = theta - lr * decay * theta - step * u
    return theta


def schedule_free(theta, gradients, rates, decay, s):
    """Where gradients are taken: between x, which is evaluated, and z, which moves."""
    (b1, b2), x, y, z = s["betas"], theta, theta, theta
    total = largest = 0
    for t, (g, lr) in enumerate(zip(gradients, rates, strict=True), 1):
        second = unbiased(np.array(gradients[:t]) ** 2, b2)
        lr = lr * min(t / s["warmup_steps"], 1) if s["warmup_steps"] else lr
        z = z - lr * (ratio(g, np.sqrt(second) + s["eps"]) + decay * y)
        largest = max(largest, lr)
        total += largest**2
        part = largest**2 / total if total else 0
        x = (1 - part) * x + part * z
        y = (1 - b1) * z + b1 * x
    return y


WHOLE = {"adafactor": adafactor, "schedule-free": schedule_free}
"""Oracles of a whole run: theta after (theta, gradients, rates, decay, settings)."""
ORACLES = {
    "lion": lion,
    "adan": adan,
    "adopt": adopt,
    "ademamix": ademamix,
    "laprop": laprop,
    "adafamily": adafamily,
    "bcos": bcos,
    "muon": muon,
    "soap": soap,
    "sgdm": sgdm,
    "adam": adam,
    "adamw": adam,
    "yogi": yogi,
    "adabound": adabound,
    "radam": radam,
    "adabelief": adabelief,
    "adamomentum": adamomentum,
    "adam-matched-rms": adam_matched_rms,
    "adam-translated": adam_translated,
    "adamomentum-debiased": adamomentum_debiased,
    "adamomentum-outer-eps": adamomentum_outer_eps,
    "adamomentum-rectified": adamomentum_rectified,
    "eadam": eadam,
    "nadam": nadam,
    "rmsprop": rmsprop,
    "sign": sign,
}
