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
Scalars: TypeAlias = Any


class Weights(NamedTuple):
    """The scalars of one step; a and b carry -lr."""

    correction1: Scalars
    a: Scalars
    b: Scalars  # only with nesterov
    scale: Scalars
    shift: Scalars  # only with rectify


def weights_of(ts: list[Tensor], group: dict[str, Any]) -> Weights:
    """The scalars of each tensor, at the steps that `ts` have counted."""
    if in_graph(group):
        of_all = weights_at(precise(torch.stack(ts)), group)
        return Weights(*(x.unbind() if torch.is_tensor(x) else [x] * len(ts) for x in of_all))
    counts = [float(t) for t in ts]
    at = {t: weights_at(t, group) for t in set(counts)}
    return Weights(*zip(*(at[t] for t in counts), strict=True))


def weights_at(t: Any, group: dict[str, Any]) -> Weights:
    """The scalars at step t, a number or a tensor of several."""
    lr, (beta1, beta2) = scalar(group["lr"]), group["betas"]
    correction1, correction2 = rule.remaining(beta1, t), rule.remaining(beta2, t)
    if group["nesterov"]:
        a, b = -lr * beta1 / rule.remaining(beta1, t + 1), -lr * (1 - beta1) / correction1
    else:
        a, b = -lr / correction1, 0.0
    if group["rectify"]:
        on, r = rule.rectification(beta2, t)
        return Weights(correction1, a, b, on / (r * correction2**0.5), 1 - on)
    return Weights(correction1, a, b, correction2**-0.5, 0.0)
