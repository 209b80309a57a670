"""The bounds of the paper's two convergence theorems, as printed and as derived in their proofs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


def lemma(beta1: float, beta2: float) -> float:
    """Return the proof's factor of sqrt(1 + log T) |g_1:T| that bounds the sum of m^2/sqrt(t v)."""
    gamma = beta1 / math.sqrt(beta2)
    return 1 / ((1 - beta1) ** 2 * (1 - gamma) * math.sqrt(1 - beta2))


def short_lemma(beta1: float, beta2: float) -> float:
    """Return a smaller factor, from v >= (1 - beta2) m^2 and sum m^2 <= sum g^2 / (1 - beta1)."""
    return 1 / math.sqrt((1 - beta1) * (1 - beta2))


@dataclass(frozen=True)
class Regret:
    """The quantities in the bound of the convex theorem, after T rounds."""

    rounds: int
    alpha: float
    beta1: float
    beta2: float
    distance: float  # D_inf
    roots: float  # sum over i of sqrt(v_T)
    weighted: float  # sum over t and i of beta_{1,t} sqrt(t v_t)
    norms: float  # sum over i of |g_1:T|_2

    def bound(self, constant: float | None = None) -> float:
        """Return the theorem's bound, or the bound with another factor than its lemma's."""
        constant = lemma(self.beta1, self.beta2) if constant is None else constant
        half = self.distance**2 / (2 * self.alpha * (1 - self.beta1))
        logs = math.sqrt(1 + math.log(self.rounds))
        momenta = self.alpha * logs * constant / (1 - self.beta1) * self.norms
        return half * (math.sqrt(self.rounds) * self.roots + self.weighted) + momenta


@dataclass(frozen=True)
class Average:
    """The quantities in the convex corollary's bound on R(T)/T."""

    rounds: int
    dimension: int
    alpha: float
    beta1: float
    beta2: float
    decay: float  # lambda
    eps: float
    distance: float
    gradient: float  # G_inf

    def terms(self) -> tuple[float, float, float]:
        """Return the three terms, without the factors G and G + sqrt(eps/(1-beta2))."""
        root = math.sqrt(self.rounds)
        half = self.distance**2 / (2 * self.alpha * (1 - self.beta1))
        logs = math.sqrt(1 + math.log(self.rounds))
        momenta = self.alpha * logs * lemma(self.beta1, self.beta2) / ((1 - self.beta1) * root)
        last = half * self.beta1 / ((1 - self.decay) ** 2 * self.rounds)
        return self.dimension * momenta, self.dimension * half / root, self.dimension * last

    def printed(self) -> float:
        """Return the bound as the corollary prints it."""
        momenta, middle, last = self.terms()
        floor = math.sqrt(self.eps / (1 - self.beta2))
        return (momenta + middle) * (self.gradient + floor) + last * self.gradient

    def derived(self) -> float:
        """Return the bound as its proof derives it: eps only in the two terms with sqrt(v)."""
        momenta, middle, last = self.terms()
        floor = math.sqrt(self.eps / (1 - self.beta2))
        return momenta * self.gradient + (middle + last) * (self.gradient + floor)


@dataclass(frozen=True)
class Smooth:
    """The setting of the non-convex theorem, with alpha_t and 1 - beta_{1,t} of order 1/sqrt(t).

    Step k, counted from 1, has alpha/sqrt(k) and 1 - beta_1 = 1/sqrt(k), so the smallest beta_1 is
    0. The paper's alpha_t belongs to the step from theta_t, which is step k = t + 1. So t begins at
    0, and alpha_T is alpha/sqrt(T+1). The average is over theta_0 ... theta_T; the proof also takes
    the step from theta_T.
    """

    lipschitz: float
    gradient: float  # largest |g|_inf, noise included
    eps: float
    beta2: float

    def b_u(self, t: int) -> float:
        """Return the largest 1/sqrt(v_t)."""
        return 1 / math.sqrt(self.eps * _partial(self.beta2, t) / (1 - self.beta2))

    def b_l(self, steps: int, *, printed: bool = False) -> float:
        """Return the smallest 1/sqrt(v).

        The proof has 1-beta2^t under the root, at its last step T + 1. The paper prints it outside.
        """
        root = math.sqrt(self.gradient**2 + self.eps / (1 - self.beta2))
        rest = _partial(self.beta2, steps if printed else steps + 1)
        return 1 / (root * (rest if printed else math.sqrt(rest)))

    def coupled(self, steps: int, *, printed: bool = False) -> float:
        """Return the largest alpha with alpha_t <= (1 - beta_{1,t+1}) A, the same for every t."""
        b_l = self.b_l(steps, printed=printed)
        return math.sqrt(b_l / (2 * self.lipschitz**2 * self.b_u(1) ** 3))

    def curvature(self, steps: int, since: int = 1, *, printed: bool = False) -> float:
        """Return the largest alpha with alpha_t <= b_l/(2 L b_u^2) from step `since` on."""
        b_l = self.b_l(steps, printed=printed)
        return b_l * math.sqrt(since) / (2 * self.lipschitz * self.b_u(since) ** 2)

    def admissible(self, steps: int, *, printed: bool = False) -> float:
        """Return the largest alpha that meets both conditions from the first step on."""
        return min(self.coupled(steps, printed=printed), self.curvature(steps, printed=printed))

    def bound(
        self,
        steps: int,
        alpha: float,
        gap: float,
        squared: float,
        variance: float,
        *,
        printed_q2: bool = False,
        printed_b_l: bool = False,
    ) -> float:
        """Return the bound on the mean of |grad f|^2.

        Args:
            steps: T.
            alpha: the step size is alpha/sqrt(k).
            gap: f - min f at the start.
            squared: |grad f|^2 at the start.
            variance: sigma^2, of the whole noise vector.
            printed_q2: use Q2 as printed.
            printed_b_l: use b_l as printed.
        """
        b_l, b_u = self.b_l(steps, printed=printed_b_l), self.b_u(1)
        q1 = 2 * gap / b_l
        q1 += math.sqrt(1 / (2 * self.lipschitz**2 * b_u * b_l)) * (variance + squared)
        power = 1 if printed_q2 else 2
        q2 = math.sqrt(2 / (self.lipschitz**power * b_u * b_l)) * variance
        return (q1 + q2 * harmonic(steps + 1)) / (alpha * math.sqrt(steps + 1))


def horizons(most: int) -> list[int]:
    """Return four numbers of steps per decade from 10 on, and the last."""
    return sorted({round(10 ** (k / 4)) for k in range(4, 99) if 10 ** (k / 4) < most} | {most})


def rate(steps: Sequence[int], values: Sequence[float]) -> float:
    """Fit the exponent of values over the last one and a half decades of steps."""
    late = [i for i, t in enumerate(steps) if t >= steps[-1] / 30]
    x, y = ([row[i] for i in late] for row in (steps, values))
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def harmonic(n: int) -> float:
    """Return 1 + 1/2 + ... + 1/n."""
    if n < 100:
        return sum(1 / k for k in range(1, n + 1))
    return math.log(n) + 0.5772156649015329 + 1 / (2 * n) - 1 / (12 * n**2)


def _partial(beta: float, t: int) -> float:
    """Return 1 - beta^t, also exact for small t."""
    return -math.expm1(t * math.log(beta))
