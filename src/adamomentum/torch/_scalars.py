"""The scalars of a step, computed once for every distinct step number of a group.

With them a step is

    g     = factor grad + coupled param
    m     = beta1 m + weight1 g
    v     = beta2 v + weight2 (k m)^2 + eps
    v_max = max(v_max, v)                    only with amsgrad
    root  = sqrt(v), or 1 where v is 0       with amsgrad, of v_max
    root  = scale root                       with rectify scale (root + eps) instead, and 1 if
                                             scale is 0
    param = kept param - lr ((a m + b g) / root)

m, v and v_max are stored. lr is applied last, because lr m can overflow where the quotient does
not. v is 0 if eps is 0 and all gradients so far were 0; 0 / 0 would be NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from adamomentum import rule
from adamomentum.torch._state import Group


class Scalars(NamedTuple):
    """The scalars in the order that the kernels expect (`Scalars` of _cpu.h).

    While a graph is recorded, those that depend on a tensor are 0-dim tensors.
    """

    t: Any
    factor: Any
    """Factor of the gradient: its sign, and the unscaling."""
    coupled: Any
    beta1: Any
    weight1: Any
    k: Any
    beta2: Any
    weight2: Any
    eps: Any
    scale: Any
    """With rectify, 0 until the step has a denominator."""
    a: Any
    b: Any
    lr: Any
    kept: Any
    """Factor of the parameter: what decoupled weight decay leaves of it."""


class Table:
    """The scalars of one step of a group."""

    def __init__(self, group: Group, grad_scale: Tensor | None = None) -> None:
        self.group = group
        sign = -1.0 if group["maximize"] else 1.0
        scale = 1.0 if grad_scale is None else float(grad_scale)
        self.factor = sign / scale if scale else sign * math.inf  # as tensors are divided
        self._rows: dict[float, Scalars] = {}
        self._rules: dict[float, rule.Scalars] = {}

    @property
    def coupled(self) -> Any:
        """Weight decay that is added to the gradient."""
        return 0.0 if self.group["decoupled_weight_decay"] else self._option("weight_decay")

    @property
    def decay(self) -> Any:
        """Weight decay that shrinks the parameter."""
        return self._option("weight_decay") if self.group["decoupled_weight_decay"] else 0.0

    @property
    def eps(self) -> Any:
        """The number added to the second moment at every step."""
        return self._option("eps")

    def _option(self, name: str) -> Any:
        """Return an option as a number, or as a tensor if autograd or a graph must track it."""
        value = self.group[name]
        if not isinstance(value, Tensor):
            return value
        follow = self.group["differentiable"] or in_graph(self.group)
        return _scalar(value) if follow else float(_scalar(value.detach()))

    @property
    def lr(self) -> float | Tensor:
        """The learning rate, read when the step runs because autograd may track it."""
        return _scalar(self.group["lr"])

    @property
    def kept(self) -> Any:
        """Factor of the parameter after decoupled weight decay; a tensor if lr is one."""
        return 1 - self.lr * self.decay if self.decay else 1.0

    def at(self, t: float) -> Scalars:
        """Return the scalars of step t, all floats."""
        row = self._rows.get(t)
        if row is None:
            if not 1 <= t < math.inf:
                raise ValueError(
                    f"'step' in the state of a parameter is {t - 1:g}; it must be at least 0 "
                    f"and finite."
                )
            beta1, beta2 = map(float, self.group["betas"])
            tensors = self._row(t, float(self.lr), beta1, beta2)
            row = self._rows[t] = Scalars(*map(float, tensors))
        return row

    def of(self, ts: Sequence[Tensor]) -> list[Scalars]:
        """Return the scalars of the steps `ts`; tensors in a graph."""
        if not in_graph(self.group):
            return [self.at(float(t)) for t in ts]
        row = self._row(precise(torch.stack(list(ts))), self.lr, *self.group["betas"])
        columns = [x.unbind() if isinstance(x, Tensor) and x.dim() else [x] * len(ts) for x in row]
        return [Scalars(*values) for values in zip(*columns, strict=True)]

    def rule_at(self, t: Tensor) -> rule.Scalars:
        """Return the scalars of rule.py for step t; tensors where an option is a tensor."""
        if in_graph(self.group):
            return self._rule(precise(t), *map(_scalar, self.group["betas"]))
        at = float(t)
        if at not in self._rules:
            self._rules[at] = self._rule(at, *map(_scalar, self.group["betas"]))
        return self._rules[at]

    def _row(self, t: Any, lr: Any, beta1: Any, beta2: Any) -> Scalars:
        s = self._rule(t, beta1, beta2)
        return Scalars(
            t,
            self.factor,
            self.coupled,
            beta1,
            1 - beta1,
            1.0 if s.k is None else s.k,
            beta2,
            1 - beta2,
            s.eps,
            s.scale,
            s.a,
            0.0 if s.b is None else s.b,
            lr,
            1 - lr * self.decay if self.decay else 1.0,
        )

    def _rule(self, t: Any, beta1: Any, beta2: Any) -> rule.Scalars:
        options = {key: self.group[key] for key in ("nesterov", "rectify", "debias_momentum")}
        found: rule.Scalars = rule.scalars(
            t, beta1=beta1, beta2=beta2, eps=self.eps, **options, xp=torch
        )
        return found


def in_graph(group: Group) -> bool:
    """Return whether the step may be recorded and replayed; its number then stays a tensor."""
    return group["capturable"] or torch.compiler.is_compiling()


def precise(t: Tensor) -> Tensor:
    """Return t in float64, for float64 parameters. MPS supports only float32."""
    return t if t.device.type == "mps" else t.double()


def _scalar(x: float | Tensor) -> float | Tensor:
    """Return the option in a form that broadcasts to any shape."""
    return x.squeeze() if isinstance(x, Tensor) else x
