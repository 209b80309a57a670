"""Backend that updates lists of tensors: a few calls per step instead of a few per parameter.

At most one list of intermediates exists at a time. _scalars.py has the formula.
"""

from __future__ import annotations

from collections import defaultdict

import torch
from torch import Tensor
from torch.optim.optimizer import _foreach_supported_types

from adamomentum.torch._rounding import Stream
from adamomentum.torch._scalars import Scalars, Table, in_graph
from adamomentum.torch._slots import SlotWork, claim_params, claim_supported
from adamomentum.torch._state import CODECS, HALF, PLAIN, Group, Slot, States, param_codec

NAME, FUSED = "foreach", False


def unavailable(_: torch.device) -> str:
    """Return "": it supports every device."""
    return ""


def wants(group: Group) -> bool:
    """Allow it unless the options select another backend."""
    return group["foreach"] is not False and not group["fused"] and not group["differentiable"]


def claim(
    params: list[Tensor], states: States, group: Group
) -> tuple[SlotWork | None, list[Tensor]]:
    """Claim the parameters for which lists are exact. The single backend gets the others."""
    return claim_params(params, states, group, supports)


def claim_slots(slots: list[Slot], group: Group) -> tuple[SlotWork | None, list[Slot]]:
    """Like `claim`, for slots."""
    return claim_supported(slots, group, supports)


def supports(slot: Slot, group: Group) -> bool:
    """Return whether `run` is exact for this slot."""
    if type(slot.param) not in _foreach_supported_types or CODECS[slot.m.dtype] is not PLAIN:
        return False
    if slot.v.dtype != slot.m.dtype or (
        slot.v_max is not None and slot.v_max.dtype != slot.m.dtype
    ):
        return False
    # Sums have the dtype of the moments.
    if slot.param.dtype == torch.float64 != slot.m.dtype:
        return False
    if any(isinstance(beta, Tensor) for beta in group["betas"]):
        return False
    if in_graph(group) and any(isinstance(group[key], Tensor) for key in ("eps", "weight_decay")):
        return False
    # In a graph, or with float32 sums, nesterov would need a second list.
    if group["nesterov"] and (in_graph(group) or slot.param.dtype in HALF):
        return False
    if isinstance(group["lr"], Tensor):
        return in_graph(group) and slot.param.dtype not in HALF
    return True


def run(work: SlotWork, scalars: Table) -> None:
    """Take the step."""
    alike = defaultdict(list)
    for slot in work.slots:
        param, grad, m = slot[:3]
        alike[type(param), param.device, param.dtype, grad.dtype, m.dtype].append(slot)
    for batch in alike.values():
        _update_batch(batch, scalars)


def _update_batch(slots: list[Slot], scalars: Table) -> None:
    params, grads, ms, vs, v_maxs, ts = map(list, zip(*slots, strict=True))
    group, eps, kept = scalars.group, scalars.eps, scalars.kept
    beta1, beta2 = group["betas"]
    factor, coupled = scalars.factor, scalars.coupled
    torch._foreach_add_(ts, 1)
    weights = Scalars(*zip(*scalars.of(ts), strict=True))

    torch._foreach_mul_(ms, beta1)
    torch._foreach_add_(ms, grads, alpha=factor * (1 - beta1))
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
        for root in roots:  # as in rule.py, 0/0 becomes 0
            root.masked_fill_(root == 0, 1.0)
    scales = weights.scale
    if group["rectify"]:
        torch._foreach_add_(roots, eps)
        torch._foreach_mul_(roots, scales)
        for root, scale in zip(roots, scales, strict=True):
            # Without a denominator, divide by 1. Multiplying by 0 would turn inf into NaN.
            if torch.is_tensor(scale):
                root.masked_fill_(scale == 0, 1.0)
            elif scale == 0:
                root.fill_(1.0)
        scales = [1.0] * len(roots)

    # lr goes into the root: lr * m can overflow where lr * (m / root) does not. With lr = 0 the
    # root becomes infinite and the quotient 0.
    rates = [-lr / scale for lr, scale in zip(weights.lr, scales, strict=True)]
    if not group["nesterov"]:
        rates = [rate * a for rate, a in zip(rates, weights.a, strict=True)]

    if params[0].dtype in HALF:
        # Sum in float32 and round once: bfloat16 would lose a decay of 1 - 1e-5 entirely.
        torch._foreach_reciprocal_(roots)
        torch._foreach_mul_(roots, ms)
        torch._foreach_mul_(roots, rates)
        torch._foreach_add_(roots, params, alpha=kept)
        for param, value, t in zip(params, roots, ts, strict=True):
            param_codec(param, group).encode(param, value, t, Stream.PARAM)
        return

    torch._foreach_div_(roots, rates)
    if scalars.decay:
        torch._foreach_mul_(params, kept)
    if group["nesterov"]:
        if coupled:
            torch._foreach_addcdiv_(params, params, roots, [b * coupled for b in weights.b])
        torch._foreach_addcdiv_(params, grads, roots, [b * factor for b in weights.b])
        torch._foreach_addcdiv_(params, ms, roots, weights.a)
    else:
        torch._foreach_addcdiv_(params, ms, roots)
