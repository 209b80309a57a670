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

    k: PerTensor
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
    lr = scalar(group["lr"])
    found = rule_scalars(t, group)
    k = 1.0 if found.k is None else found.k
    b = 0.0 if found.b is None else -lr * found.b
    shift = (found.scale == 0) * 1.0 if group["rectify"] else 0.0
    return Scalars(k, -lr * found.a, b, found.scale, shift)


def rule_scalars(t: Any, group: dict[str, Any]) -> rule.Scalars:
    """The scalars of rule.py at step t."""
    beta1, beta2 = map(scalar, group["betas"])
    found: rule.Scalars = rule.scalars(
        t,
        beta1=beta1,
        beta2=beta2,
        eps=group["eps"],
        nesterov=group["nesterov"],
        rectify=group["rectify"],
        debias_momentum=group["debias_momentum"],
        xp=torch,
    )
    return found
