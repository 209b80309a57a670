"""Backend that updates one parameter at a time with rule.py. It is the differentiable one."""

from __future__ import annotations

import torch
from torch import Tensor

from adamomentum import rule
from adamomentum.torch._rounding import Stream
from adamomentum.torch._scalars import Table
from adamomentum.torch._slots import SlotWork, claim_params, claim_supported
from adamomentum.torch._state import CODECS, Group, Slot, States, param_codec

NAME, FUSED = "single", False


def unavailable(_: torch.device) -> str:
    """Return "": it supports every device."""
    return ""


def wants(group: Group) -> bool:
    """Allow it unless fused=True."""
    return not group["fused"]


def claim(
    params: list[Tensor], states: States, group: Group
) -> tuple[SlotWork | None, list[Tensor]]:
    """Claim everything."""
    return claim_params(params, states, group, lambda *_: True, twice=True)


def claim_slots(slots: list[Slot], group: Group) -> tuple[SlotWork | None, list[Slot]]:
    """Claim everything."""
    return claim_supported(slots, group, lambda *_: True)


def run(work: SlotWork, scalars: Table) -> None:
    """Take the step."""
    for slot in work.slots:
        with torch.no_grad():
            slot.t.add_(1)
        _update_one(slot, scalars)


def _update_one(slot: Slot, scalars: Table) -> None:
    group = scalars.group
    wide = torch.float32
    for tensor in (slot.param, slot.m, slot.v):
        wide = torch.promote_types(wide, tensor.dtype)

    param, m, v = slot.param.to(wide), _read(slot.m, wide), _read(slot.v, wide)
    v_max = None if slot.v_max is None else _read(slot.v_max, wide)
    if group["differentiable"]:
        # Autograd saves what the rule reads, and the writes below are in place.
        param, m, v = param.clone(), m.clone(), v.clone()
        v_max = None if v_max is None else v_max.clone()

    g = slot.grad.to(wide)
    if scalars.factor != 1:
        g = scalars.factor * g
    if scalars.coupled:
        g = g + scalars.coupled * param
    direction, m, v, v_max = rule.direction(torch, g, m, v, scalars.rule_at(slot.t), v_max)
    if scalars.decay:
        param = param * scalars.kept
    param = param - scalars.lr * direction

    param_codec(slot.param, group).encode(slot.param, param, slot.t, Stream.PARAM)
    _write(slot.m, m, slot.t, Stream.M)
    _write(slot.v, v, slot.t, Stream.V)
    if slot.v_max is not None:
        _write(slot.v_max, v_max, slot.t, Stream.V_MAX)


# Each moment is read in its own dtype: a checkpoint may mix them.
def _read(stored: Tensor, wide: torch.dtype) -> Tensor:
    return CODECS[stored.dtype].decode(stored, wide)


def _write(stored: Tensor, value: Tensor, t: Tensor, stream: Stream) -> None:
    CODECS[stored.dtype].encode(stored, value, t, stream)
