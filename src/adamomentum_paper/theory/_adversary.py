"""Linear streams on [-1, 1] that make averages of squares forget too fast.

After Reddi, Kale and Kumar, "On the convergence of Adam and beyond" (2018), section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from adamomentum import rule
from adamomentum_paper.theory import Numbers, Tick
from adamomentum_paper.theory._bounds import Regret
from adamomentum_paper.theory._online import BETA1, BETA2, DECAY, EPS, Array


@dataclass(frozen=True)
class Adversary:
    """A stream of C theta, then -theta for the rest of a period, and the method's settings.

    With `random`, C theta comes at random times with the same frequency. The mean gradient is
    positive, so the best point is -1 and the worst is 1.
    """

    name: str
    large: float  # C
    period: int
    beta1: float
    decay: float
    beta2: float
    alpha: float
    random: bool = False


# The first is the stream and the beta2 = 1/(1+C^2) of their Theorem 1; gamma stays below 1.
SETTINGS = (
    Adversary("every third round, beta2 0.1", 3.0, 3, 0.1, DECAY, 0.1, 0.5),
    Adversary("at random, beta2 0.1", 3.0, 3, 0.1, DECAY, 0.1, 0.5, random=True),
    Adversary("every third round, default betas", 3.0, 3, BETA1, DECAY, BETA2, 0.5),
    Adversary("every 6,000th round, default betas", 12_000.0, 6_000, BETA1, DECAY, BETA2, 2.0),
    Adversary("the same, beta1 constant", 12_000.0, 6_000, BETA1, 1.0, BETA2, 2.0),
)


def play(rounds: int, tick: Tick) -> Numbers:
    """Play both forms on all streams. Regret is relative to the worst point, at ends of periods."""
    gradients = np.stack([_gradients(setting, rounds) for setting in SETTINGS], 1)
    sums = gradients.cumsum(0)
    every = max(3, rounds // 20 // 3 * 3)
    ends = [t for t in range(every, rounds + 1, every) if t % 6_000 == 0 or rounds < 6_000]
    numbers: Numbers = {
        "settings": [setting.name for setting in SETTINGS],
        "large": [setting.large for setting in SETTINGS],
        "rounds": ends,
    }
    at = np.array(ends) - 1
    for i, form in enumerate(("algorithm1", "amsgrad")):
        played = _play(gradients, amsgrad=form == "amsgrad")
        regret = played.pop("losses").cumsum(0)[at] + np.abs(sums[at])  # -1 pays minus the sum
        bounds = [[_bound(played, gradients, j, t) for j in range(len(SETTINGS))] for t in ends]
        numbers[form] = {
            "part": (regret / (2 * np.abs(sums[at]))).tolist(),
            "average": (regret / (at + 1)[:, None]).tolist(),
            "of_bound": (regret / np.array(bounds)).tolist(),
            "end": played["theta"][-1].tolist(),
            "fell_much": played["fell_much"].mean(0).tolist(),
        }
        tick((i + 1) / 2)
    return numbers


def _bound(played: dict[str, Array], gradients: Array, j: int, rounds: int) -> float:
    """Return the theorem's bound for one stream."""
    s = SETTINGS[j]
    t = np.arange(1, rounds + 1)
    roots = np.sqrt(played["used"][:rounds, j])
    return Regret(
        rounds, s.alpha, s.beta1, s.beta2,
        distance=float((played["theta"][:rounds, j] + 1).max()),
        roots=float(roots[-1]),
        weighted=float((s.beta1 * s.decay**t * np.sqrt(t) * roots).sum()),
        norms=float(np.sqrt((gradients[:rounds, j] ** 2).sum())),
    ).bound()  # fmt: skip


def _gradients(setting: Adversary, rounds: int) -> Array:
    if setting.random:
        large = np.random.default_rng(4).random(rounds) < 1 / setting.period
    else:
        large = np.arange(rounds) % setting.period == 0
    return np.where(large, setting.large, -1.0)


def _play(gradients: Array, *, amsgrad: bool) -> dict[str, Array]:
    """Return losses, points, the v in use, and whether t v_t fell, by round and stream."""
    beta1, decay, beta2, alpha = np.array(
        [[s.beta1, s.decay, s.beta2, s.alpha] for s in SETTINGS]
    ).T
    theta, m, v = np.zeros((3, len(SETTINGS)))
    v_max = np.zeros_like(v) if amsgrad else None
    points, used = np.zeros((2, *gradients.shape))
    for t, g in enumerate(gradients, 1):
        points[t - 1] = theta
        scalars = rule.scalars(
            t, beta1=beta1 * decay**t, beta2=beta2, eps=EPS, bias_correction=False
        )
        direction, m, v, v_max = rule.direction(np, g, m, v, scalars, v_max)
        theta = np.clip(theta - alpha / t**0.5 * direction, -1, 1)
        used[t - 1] = v if v_max is None else v_max
    weighted = used * np.arange(1, len(used) + 1)[:, None]
    fell = weighted[1:] < weighted[:-1] * (1 - 1e-12)
    return {"losses": gradients * points, "theta": points, "used": used, "fell_much": fell}
