"""Claims of the backends written in Python: lists of slots."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from adamomentum.torch._scalars import in_graph
from adamomentum.torch._state import Group, Slot, States, slot_of


class SlotWork(NamedTuple):
    """Slots and their distinct step numbers."""

    slots: list[Slot]
    steps: frozenset[float]


def claim_params(
    params: list[Tensor],
    states: States,
    group: Group,
    supports: Callable[[Slot, Group], bool],
    twice: bool = False,
) -> tuple[SlotWork | None, list[Tensor]]:
    """Claim the parameters whose slots are supported.

    Unless `twice` is set, claim nothing if a parameter is listed twice.
    """
    if not twice and len(set(params)) < len(params):
        return None, params
    slots, rest = [], []
    for param in params:
        slot = slot_of(param, states[param], group)
        if supports(slot, group):
            slots.append(slot)
        else:
            rest.append(param)
    return _work(slots, group), rest


def claim_supported(
    slots: list[Slot], group: Group, supports: Callable[[Slot, Group], bool]
) -> tuple[SlotWork | None, list[Slot]]:
    """Claim the slots that are supported."""
    mine: list[Slot] = []
    rest: list[Slot] = []
    for slot in slots:
        (mine if supports(slot, group) else rest).append(slot)
    return _work(mine, group), rest


def _work(slots: list[Slot], group: Group) -> SlotWork | None:
    if not slots:
        return None
    steps = () if in_graph(group) else (float(slot.t) + 1 for slot in slots)
    return SlotWork(slots, frozenset(steps))


def fused_allowed(group: Group) -> bool:
    """Return whether the options of the group allow a fused backend."""
    if group["fused"] is not None:
        return bool(group["fused"])
    automatic = group["foreach"] is None and not group["differentiable"]
    return automatic and not torch.compiler.is_compiling()
