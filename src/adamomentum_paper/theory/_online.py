"""Online convex problems with a known best point, and AdaMomentum in the regret theorem's form.

Arrays are (schedule of beta1, alpha, seed, coordinate). Each seed has its own stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from adamomentum import rule

Array = NDArray[np.float64]

BETA1, BETA2, EPS = 0.9, 0.999, 1e-16
DECAY = 0.99  # lambda
SCHEDULES = {"decaying": DECAY, "constant": 1.0}
ALPHAS = (0.001, 0.01, 0.1)


class LossStream(Protocol):
    """One convex function per round, for each seed. The iterates start at 0."""

    seeds: int
    dimension: int

    def at(self, t: int, theta: Array) -> tuple[Array, Array]:
        """Losses and gradients of round t, from 1."""

    def comparator(self, rounds: int) -> tuple[Array, Array]:
        """Return the best fixed points of the first rounds, and the sums of losses there."""


class Quadratic:
    """f_t = |theta - c_t|^2 / 2 with c_t uniform in [-1, 1]^d; the best point is their mean."""

    dimension = 10

    def __init__(self, rounds: int, seeds: int) -> None:
        self.seeds = seeds
        shape = (rounds, seeds, self.dimension)
        self._c = np.random.default_rng(1).uniform(-1, 1, shape)

    def at(self, t: int, theta: Array) -> tuple[Array, Array]:
        """Losses and gradients of round t, from 1."""
        g = theta - self._c[t - 1]
        return 0.5 * (g * g).sum(-1), g

    def comparator(self, rounds: int) -> tuple[Array, Array]:
        """Return the means."""
        c = self._c[:rounds]
        best = c.mean(0)
        return best, 0.5 * ((c - best) ** 2).sum((0, 2))


class Digits:
    """Logistic regression on images of digits, one per round: is the digit 5 or more?

    A small ridge penalty ensures that a unique best point exists.
    """

    ridge = 1e-3

    def __init__(self, rounds: int, seeds: int) -> None:
        from adamomentum_lab.digits import digits

        splits = digits()
        x = np.concatenate([images.flatten(1).double().numpy() for images, _ in splits])
        labels = np.concatenate([y.numpy() for _, y in splits])
        x = np.concatenate([x, np.ones((len(x), 1))], 1)
        self._signed = np.where(labels >= 5, 1.0, -1.0)[:, None] * x
        self.seeds, self.dimension = seeds, x.shape[1]
        self._order = np.random.default_rng(2).integers(len(x), size=(rounds, seeds))

    def at(self, t: int, theta: Array) -> tuple[Array, Array]:
        """Losses and gradients of round t, from 1."""
        x = self._signed[self._order[t - 1]]
        margin = (theta * x).sum(-1)
        loss = np.logaddexp(0, -margin) + self.ridge / 2 * (theta * theta).sum(-1)
        return loss, self.ridge * theta - x * _wrong(margin)[..., None]

    def comparator(self, rounds: int) -> tuple[Array, Array]:
        """Return the best points, found by Newton's method."""
        found = [self._newton(self._order[:rounds, s]) for s in range(self.seeds)]
        return np.stack([best for best, _ in found]), np.array([loss for _, loss in found])

    def _newton(self, order: NDArray[np.int64]) -> tuple[Array, float]:
        images, counts = np.unique(order, return_counts=True)
        x, weight = self._signed[images], counts / len(order)
        theta = np.zeros(self.dimension)

        def value(point: Array) -> float:
            losses = weight @ np.logaddexp(0, -x @ point)
            return float(losses + self.ridge / 2 * point @ point)

        for _ in range(100):
            p = _wrong(x @ theta)
            g = self.ridge * theta - x.T @ (weight * p)
            if np.abs(g).max() < 1e-12:
                break
            hessian = (x.T * (weight * p * (1 - p))) @ x + self.ridge * np.eye(self.dimension)
            step, scale = np.linalg.solve(hessian, g), 1.0
            while scale > 1e-6 and value(theta - scale * step) > value(theta) + 1e-15:
                scale /= 2
            theta = theta - scale * step
        return theta, len(order) * value(theta)


class Sparse:
    """Absolute loss |theta_i - c_{t,i}| of the present features. The i-th is in 1/i^2 of rounds.

    Gradients are -1, 0 or 1 everywhere. The best point is the median of each feature.
    """

    dimension = 100

    def __init__(self, rounds: int, seeds: int) -> None:
        self.seeds = seeds
        random = np.random.default_rng(3)
        shape = (rounds, seeds, self.dimension)
        # float32, since these are the largest arrays of the page.
        often = np.arange(1, self.dimension + 1) ** -2.0
        self._present = random.random(shape, dtype=np.float32) < often
        centre = random.uniform(-2, 0, (seeds, self.dimension)).astype(np.float32)
        self._c = centre + 2 * random.random(shape, dtype=np.float32)

    def at(self, t: int, theta: Array) -> tuple[Array, Array]:
        """Losses and gradients of round t, from 1."""
        off = (theta - self._c[t - 1]) * self._present[t - 1]
        return np.abs(off).sum(-1), np.sign(off)

    def comparator(self, rounds: int) -> tuple[Array, Array]:
        """Return the medians, or 0 for a feature that was never present."""
        best, loss = np.zeros((self.seeds, self.dimension)), np.zeros(self.seeds)
        for s in range(self.seeds):
            for i in range(self.dimension):
                values = self._c[:rounds, s, i][self._present[:rounds, s, i]].astype(np.float64)
                if len(values):
                    best[s, i] = np.median(values)
                    loss[s] += np.abs(values - best[s, i]).sum()
        return best, loss


class Far:
    """f_t = |theta - 10,000| in one dimension: the best point is far from the start."""

    seeds, dimension, point = 1, 1, 10_000.0

    def at(self, t: int, theta: Array) -> tuple[Array, Array]:
        """Losses and gradients, the same in all rounds."""
        del t
        return np.abs(theta - self.point).sum(-1), np.sign(theta - self.point)

    def comparator(self, rounds: int) -> tuple[Array, Array]:
        """Return the point, where the loss is 0."""
        del rounds
        return np.full((1, 1), self.point), np.zeros(1)


STREAMS: dict[str, Callable[[int, int], LossStream]] = {
    "quadratic": Quadratic,
    "digits": Digits,
    "sparse": Sparse,
}


class Play:
    """AdaMomentum without bias correction on a stream: all schedules, alphas and seeds at once."""

    def __init__(
        self, stream: LossStream, *, amsgrad: bool, alphas: tuple[float, ...] = ALPHAS,
        beta1: float = BETA1, beta2: float = BETA2, eps: float = EPS, decays: Any = None,
    ) -> None:  # fmt: skip
        decays = tuple(SCHEDULES.values()) if decays is None else decays
        shape = (len(decays), len(alphas), stream.seeds, stream.dimension)
        self._stream, self.beta2, self.eps = stream, beta2, eps
        self._alphas = np.array(alphas)[:, None, None]
        self._decays, self._beta1 = np.array(decays)[:, None, None, None], beta1
        self.theta, self.m, self.v = np.zeros((3, *shape))
        self.v_max = np.zeros(shape) if amsgrad else None
        self.t = 0
        self.low, self.high = self.theta, self.theta
        self.loss = np.zeros(shape[:-1])
        self.weighted = np.zeros(shape[:-1])
        self.lemma, self.g2 = np.zeros(shape), np.zeros(shape)
        self.m2, self.alone = np.zeros(shape), np.zeros(shape)  # discounted by beta2
        self.g_max = np.zeros(shape[:-1])
        self.fell, self.fell_much, self.step_fails = np.zeros((3, *shape[:-1]))

    def step(self) -> None:
        """Play one round."""
        self.t += 1
        t, before = self.t, self.used
        loss, g = self._stream.at(t, self.theta)
        beta1 = self._beta1 * self._decays**t
        self.low, self.high = np.minimum(self.low, self.theta), np.maximum(self.high, self.theta)
        scalars = rule.scalars(
            t, beta1=beta1, beta2=self.beta2, eps=self.eps, bias_correction=False
        )
        direction, self.m, self.v, self.v_max = rule.direction(
            np, g, self.m, self.v, scalars, self.v_max
        )
        self.theta = self.theta - self._alphas / t**0.5 * direction
        used, m2 = self.used, self.m * self.m
        root = np.sqrt(t * used)
        self.loss += loss
        self.weighted += beta1[..., 0] * root.sum(-1)
        self.lemma += m2 / root
        self.g2 += g * g
        self.m2 = self.beta2 * self.m2 + m2
        self.alone = self.beta2 * self.alone + ((1 - beta1) * g) ** 2
        self.g_max = np.maximum(self.g_max, np.abs(g).max(-1))
        # Rounding errors do not count as a fall.
        self.fell += (used < before * (1 - 1e-12)).mean(-1)
        self.fell_much += (t * used < (t - 1) * before * (1 - 1e-12)).mean(-1)
        self.step_fails += (self.m2 < self.alone * (1 - 1e-12)).mean(-1)

    @property
    def used(self) -> Array:
        """The v of the theorem. In the AMSGrad form, it is the largest so far."""
        return self.v if self.v_max is None else self.v_max

    def so_far(self) -> dict[str, Any]:
        """Return the regret and the quantities in its bound, by schedule, alpha and seed."""
        best, loss = self._stream.comparator(self.t)
        far = np.maximum(self.high - best, best - self.low).max(-1)
        found = {
            "regret": self.loss - loss,
            "distance": far,
            "iterates_distance": (self.high - self.low).max(-1),
            "roots": np.sqrt(self.used).sum(-1),
            "weighted": self.weighted,
            "norms": np.sqrt(self.g2).sum(-1),
            "gradient": self.g_max,
            "lemma": (self.lemma / np.maximum(np.sqrt(self.g2), 1e-300)).max(-1),
            "fell": self.fell / self.t,
            "fell_much": self.fell_much / self.t,
            "step_fails": self.step_fails / self.t,
        }
        return {name: values.tolist() for name, values in found.items()}


def _wrong(margin: Array) -> Array:
    """Return 1/(1 + e^margin) without overflow."""
    return np.exp(-np.logaddexp(0, margin))
