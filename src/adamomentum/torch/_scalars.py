"""The scalars of a step, gathered for the backends that do not call rule.direction.

param = kept param + (a m + b g) / (sqrt(v) scale + shift), where rectify adds eps to sqrt(v).
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from adamomentum import rule
from adamomentum.torch._slot import in_graph, precise, scalar

# One scalar per tensor: floats, or 0-dim tensors where a graph must not bake the step in.
PerTensor: TypeAlias = Any


class Scalars(NamedTuple):
    """The scalars of one step; a and b carry -lr."""

    correction1: PerTensor
    a: PerTensor
    b: PerTensor  # only with nesterov
    scale: PerTensor
    shift: PerTensor  # only with rectify


def scalars_of(ts: list[Tensor], group: dict[str, Any]) -> Scalars:
    """The scalars of each tensor, at the steps that `ts` have counted."""
    if in_graph(group):
        of_all = scalars_at(precise(torch.stack(ts)), group)
        return Scalars(*(x.unbind() if torch.is_tensor(x) else [x] * len(ts) for x in of_all))
    counts = [float(t) for t in ts]
    at = {t: scalars_at(t, group) for t in set(counts)}
    return Scalars(*zip(*(at[t] for t in counts), strict=True))


def scalars_at(t: Any, group: dict[str, Any]) -> Scalars:
    """The scalars at step t, a number or a tensor of several."""
    lr, (beta1, beta2) = scalar(group["lr"]), group["betas"]
    correction1, correction2 = rule.remaining(beta1, t), rule.remaining(beta2, t)
    if group["nesterov"]:
        a, b = -lr * beta1 / rule.remaining(beta1, t + 1), -lr * (1 - beta1) / correction1
    else:
        a, b = -lr / correction1, 0.0
    if group["rectify"]:
        on, r = rule.rectification(beta2, t)
        return Scalars(correction1, a, b, on / (r * correction2**0.5), 1 - on)
    return Scalars(correction1, a, b, correction2**-0.5, 0.0)
