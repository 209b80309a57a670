"""One parameter after the other, by rule.py: the readable path, and the differentiable one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from adamomentum import rule
from adamomentum.torch._rounding import Stream, store
from adamomentum.torch._scalars import rule_scalars
from adamomentum.torch._slot import Slot, in_graph, precise, scalar


def step(slots: Sequence[Slot], group: dict[str, Any]) -> None:
    for slot in slots:
        with torch.no_grad():
            slot.t.add_(1)
        _update_one(slot, group)


def _update_one(slot: Slot, group: dict[str, Any]) -> None:
    lr, decay = scalar(group["lr"]), group["weight_decay"]
    wide = torch.promote_types(torch.promote_types(slot.param.dtype, slot.m.dtype), torch.float32)

    param, m, v = slot.param.to(wide), slot.m.to(wide), slot.v.to(wide)
    v_max = None if slot.v_max is None else slot.v_max.to(wide)
    if group["differentiable"]:
        # Autograd keeps what the rule reads, and the writing below is in place.
        param, m, v = param.clone(), m.clone(), v.clone()
        v_max = None if v_max is None else v_max.clone()

    g = slot.grad.to(wide)
    if group["maximize"]:
        g = -g
    if decay and not group["decoupled_weight_decay"]:
        g = g + decay * param
    t = precise(slot.t) if in_graph(group) else float(slot.t)
    direction, m, v, v_max = rule.direction(torch, g, m, v, rule_scalars(t, group), v_max)
    if decay and group["decoupled_weight_decay"]:
        param = param * (1 - lr * decay)
    param = param - lr * direction

    store(slot.param, param, slot.t, Stream.PARAM, group["stochastic_rounding"])
    store(slot.m, m, slot.t, Stream.M, True)
    store(slot.v, v, slot.t, Stream.V, True)
    if slot.v_max is not None:
        store(slot.v_max, v_max, slot.t, Stream.V_MAX, True)
