"""Float64 AdaMomentum, written apart from the library: what every backend is held against.

The averages are sums over the whole history, as Table 1 of the paper writes them, not recursions;
an error in a recursion cannot hide in the same error here. test_oracle.py checks it by hand.
"""

from __future__ import annotations

import numpy as np


class Oracle:
    """Feed gradients to `step`; read `theta`, `m`, `v`, `v_max`. Real arrays."""

    def __init__(
        self,
        theta,
        *,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-16,
        weight_decay=0.0,
        amsgrad=False,
        decoupled_weight_decay=True,
        nesterov=False,
        rectify=False,
        debias_momentum=False,
        maximize=False,
        start=(0.0, 0.0, 0.0, 0),
    ):
        """`start` is m, v, v_max and the number of steps so far, of a run that is continued."""
        self.theta = np.array(theta, dtype=np.float64)
        self.lr, self.betas, self.eps, self.decay = lr, betas, eps, weight_decay
        self.amsgrad, self.decoupled, self.maximize = amsgrad, decoupled_weight_decay, maximize
        self.nesterov, self.rectify, self.debias = nesterov, rectify, debias_momentum
        self.gradients, self.squares = [], []
        *moments, self.t = start
        self.m, self.v, self.v_max = (np.zeros_like(self.theta) + x for x in moments)
        self.m_start, self.v_start = self.m, self.v

    def step(self, gradient):
        self.t += 1
        t, (b1, b2), lr = self.t, self.betas, self.lr
        g = np.asarray(gradient, dtype=np.float64) * (-1 if self.maximize else 1)
        if not self.decoupled:
            g = g + self.decay * self.theta
        self.gradients.append(g)
        n = len(self.gradients)
        ages = np.arange(n)[::-1].reshape(-1, *[1] * g.ndim)

        self.m = (1 - b1) * np.sum(b1**ages * np.array(self.gradients), axis=0)
        self.m = self.m + b1**n * self.m_start
        averaged = self.m / (1 - b1**t) if self.debias else self.m
        self.squares.append(np.square(averaged) + self.eps / (1 - b2))
        self.v = (1 - b2) * np.sum(b2**ages * np.array(self.squares), axis=0)
        self.v = self.v + b2**n * self.v_start
        self.v_max = np.maximum(self.v_max, self.v)

        if self.nesterov:
            numerator = b1 * self.m / (1 - b1 ** (t + 1)) + (1 - b1) * g / (1 - b1**t)
        else:
            numerator = self.m / (1 - b1**t)
        if self.rectify:
            length = 2 / (1 - b2) - 1
            rho = length - 2 * t * b2**t / (1 - b2**t)
            if rho >= 5:
                r = np.sqrt((rho - 4) / (length - 4) * (rho - 2) / (length - 2) * length / rho)
                update = r * np.sqrt(1 - b2**t) * numerator / (np.sqrt(self.v) + self.eps)
            else:
                update = numerator
        else:
            v = self.v_max if self.amsgrad else self.v
            denominator = np.sqrt(v / (1 - b2**t))
            never = denominator == 0
            update = np.where(never, 0.0, numerator / np.where(never, 1.0, denominator))

        if self.decoupled:
            self.theta = self.theta - lr * self.decay * self.theta
        self.theta = self.theta - lr * update
        return self.theta
