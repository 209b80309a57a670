"""Linear streams on [-1, 1] against which averages of squares forget too fast.

After Reddi, Kale and Kumar, "On the convergence of Adam and beyond" (2018), section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from adamomentum import rule
from adamomentum_lab.theory import Numbers, Tick
from adamomentum_lab.theory._online import BETA1, BETA2, DECAY, EPS, Array


@dataclass(frozen=True)
class Setting:
    """A stream C theta, then -theta for the rest of a period, and who plays it.

    With `random`, C theta comes at random, as often. On average the gradient is positive: the best
    point is -1, the worst 1.
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
    Setting("every third round, beta2 0.1", 3.0, 3, 0.1, DECAY, 0.1, 0.5),
    Setting("at random, beta2 0.1", 3.0, 3, 0.1, DECAY, 0.1, 0.5, random=True),
    Setting("every third round, default betas", 3.0, 3, BETA1, DECAY, BETA2, 0.5),
    Setting("every 6,000th round, default betas", 12_000.0, 6_000, BETA1, DECAY, BETA2, 2.0),
    Setting("the same, beta1 constant", 12_000.0, 6_000, BETA1, 1.0, BETA2, 2.0),
)


def play(rounds: int, tick: Tick) -> Numbers:
    """Both forms on all streams: regret as a part of the worst point's, where periods end."""
    gradients = np.stack([_gradients(setting, rounds) for setting in SETTINGS], 1)
    sums = gradients.cumsum(0)
    every = max(3, rounds // 20 // 3 * 3)
    ends = [t for t in range(every, rounds + 1, every) if t % 6_000 == 0 or rounds < 6_000]
    numbers: Numbers = {
        "settings": [setting.name for setting in SETTINGS],
        "large": [setting.large for setting in SETTINGS],
        "rounds": ends,
    }
    for i, form in enumerate(("algorithm1", "amsgrad")):
        found = _play(gradients, amsgrad=form == "amsgrad")
        numbers[form] = {
            "part": [(found[0][t - 1] / (2 * np.abs(sums[t - 1]))).tolist() for t in ends],
            "average": [(found[0][t - 1] / t).tolist() for t in ends],
            "end": found[1].tolist(),
            "fell_much": found[2].tolist(),
        }
        tick((i + 1) / 2)
    return numbers


def _gradients(setting: Setting, rounds: int) -> Array:
    if setting.random:
        large = np.random.default_rng(4).random(rounds) < 1 / setting.period
    else:
        large = np.arange(rounds) % setting.period == 0
    return np.where(large, setting.large, -1.0)


def _play(gradients: Array, *, amsgrad: bool) -> tuple[Array, Array, Array]:
    """Regrets by round and stream, the last points, and how often t v_t fell."""
    beta1, decay, beta2, alpha = np.array(
        [[s.beta1, s.decay, s.beta2, s.alpha] for s in SETTINGS]
    ).T
    theta, m, v = np.zeros((3, len(SETTINGS)))
    v_max = np.zeros_like(v) if amsgrad else None
    losses, fell, used = np.zeros_like(gradients), np.zeros(len(SETTINGS)), v
    for t, g in enumerate(gradients, 1):
        losses[t - 1] = g * theta
        direction, m, v, v_max = rule.direction(
            g, m, v, t, beta1=beta1 * decay**t, beta2=beta2, eps=EPS, v_max=v_max,
            bias_correction=False,
        )  # fmt: skip
        theta = np.clip(theta - alpha / t**0.5 * direction, -1, 1)
        before, used = used, v if v_max is None else v_max
        fell += t * used < (t - 1) * before * (1 - 1e-12)
    # The best of [-1, 1] pays minus the modulus of the sum.
    regret = losses.cumsum(0) + np.abs(gradients.cumsum(0))
    return regret, theta, fell / len(gradients)
