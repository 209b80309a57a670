"""Over lists of tensors: a few calls per step instead of a few per parameter.

At most one list of intermediates is alive at a time. The formula is rule.py's with its scalars
gathered: param += (a m + b g) / (sqrt(v) scale + shift), where rectify adds eps to sqrt(v).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import _foreach_supported_types

from adamomentum.torch._rounding import Stream, store
from adamomentum.torch._scalars import scalars_of
from adamomentum.torch._slot import HALF, Slot, in_graph, scalar


def supports(slot: Slot, group: dict[str, Any]) -> bool:
    """Whether `step` is exact for this slot; the others are left to the single backend."""
    if type(slot.param) not in _foreach_supported_types or slot.m.dtype in HALF:
        return False
    if any(isinstance(beta, Tensor) for beta in group["betas"]):
        return False
    # In a graph, or summing in float32, the look-ahead would need a second list.
    if group["nesterov"] and (in_graph(group) or slot.param.dtype in HALF):
        return False
    if isinstance(group["lr"], Tensor):
        return in_graph(group) and slot.param.dtype not in HALF
    return True


def step(slots: Sequence[Slot], group: dict[str, Any]) -> None:
    alike = defaultdict(list)
    for slot in slots:
        param, grad, m = slot[:3]
        alike[type(param), param.device, param.dtype, grad.dtype, m.dtype].append(slot)
    for batch in alike.values():
        _update_batch(batch, group)


def _update_batch(slots: list[Slot], group: dict[str, Any]) -> None:
    params, grads, ms, vs, v_maxs, ts = map(list, zip(*slots, strict=True))
    lr, decay, eps = scalar(group["lr"]), group["weight_decay"], group["eps"]
    beta1, beta2 = group["betas"]
    sign = -1.0 if group["maximize"] else 1.0
    coupled = 0.0 if group["decoupled_weight_decay"] else decay
    kept = 1.0 if not decay or coupled else 1 - lr * decay
    torch._foreach_add_(ts, 1)
    weights = scalars_of(ts, group)

    torch._foreach_mul_(ms, beta1)
    torch._foreach_add_(ms, grads, alpha=sign * (1 - beta1))
    if coupled:
        torch._foreach_add_(ms, params, alpha=coupled * (1 - beta1))

    ks = torch._foreach_mul(ms, weights.k) if group["debias_momentum"] else ms
    torch._foreach_mul_(vs, beta2)
    torch._foreach_addcmul_(vs, ks, ks, 1 - beta2)
    torch._foreach_add_(vs, eps)
    del ks

    if group["amsgrad"]:
        torch._foreach_maximum_(v_maxs, vs)
    roots = torch._foreach_sqrt(v_maxs if group["amsgrad"] else vs)
    if eps < torch.finfo(roots[0].dtype).tiny:
        for root in roots:  # rule.root: 0/0 becomes 0
            root.masked_fill_(root == 0, 1.0)
    if group["rectify"]:
        torch._foreach_add_(roots, eps)
        torch._foreach_clamp_max_(roots, torch.finfo(roots[0].dtype).max)  # inf * 0 is no 0
    torch._foreach_mul_(roots, weights.scale)
    if group["rectify"]:
        torch._foreach_add_(roots, weights.shift)

    if params[0].dtype in HALF:
        # Summed in float32 and rounded once: a bfloat16 would lose a decay of 1 - 1e-5 entirely.
        torch._foreach_reciprocal_(roots)
        torch._foreach_mul_(roots, ms)
        torch._foreach_mul_(roots, weights.a)
        torch._foreach_add_(roots, params, alpha=kept)
        for param, value, t in zip(params, roots, ts, strict=True):
            store(param, value, t, Stream.PARAM, group["stochastic_rounding"])
        return

    if decay and not coupled:
        torch._foreach_mul_(params, kept)
    if group["nesterov"]:
        if coupled:
            torch._foreach_addcdiv_(params, params, roots, [b * coupled for b in weights.b])
        torch._foreach_addcdiv_(params, grads, roots, [b * sign for b in weights.b])
    if torch.is_tensor(weights.a[0]):
        # addcdiv takes numbers alone. With lr = 0 the roots become infinite, the quotient 0.
        torch._foreach_div_(roots, weights.a)
        torch._foreach_addcdiv_(params, ms, roots)
    else:
        torch._foreach_addcdiv_(params, ms, roots, weights.a)
