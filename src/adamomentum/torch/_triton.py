"""Backend for GPU tensors: one Triton kernel per group, device and dtype."""

from __future__ import annotations

import functools
import importlib
from collections import defaultdict
from typing import Any

import torch
from torch import Tensor

from adamomentum.torch._scalars import Table, in_graph
from adamomentum.torch._slots import SlotWork, claim_params, claim_supported
from adamomentum.torch._slots import fused_allowed as wants
from adamomentum.torch._state import Group, Slot, States

__all__ = ["FUSED", "NAME", "claim", "claim_slots", "run", "unavailable", "wants"]

NAME, FUSED = "fused (Triton)", True
GPUS = ("cuda", "xpu")  # torch reports ROCm as cuda


@functools.cache
def _kernel() -> Any:
    """Import the kernel's module on first use; None without triton."""
    try:
        return importlib.import_module("adamomentum.torch._triton_kernel")
    except ImportError:
        return None


def unavailable(device: torch.device) -> str | None:
    """Return why the kernel is unavailable; "" if it is available, None for other devices."""
    if device.type not in GPUS:
        return None
    return "" if _kernel() else "triton is not installed"


def claim(params: list[Tensor], states: States, group: Group) -> tuple[Any, list[Tensor]]:
    """Claim dense tensors on a GPU."""
    here = [param for param in params if unavailable(param.device) == ""]
    if not here:
        return None, params
    work, rest = claim_params(here, states, group, supports)
    return work, [param for param in params if unavailable(param.device) != ""] + rest


def claim_slots(slots: list[Slot], group: Group) -> tuple[SlotWork | None, list[Slot]]:
    """Like `claim`, for slots."""
    return claim_supported(
        slots, group, lambda slot, _: unavailable(slot.param.device) == "" and supports(slot, group)
    )


def supports(slot: Slot, group: Group) -> bool:
    """Return whether `run` is exact for this slot. A captured graph could not update the tables."""
    tensors = [x for x in slot[:5] if x is not None]
    param, grad, m = slot[:3]
    if in_graph(group) or any(type(x) not in (Tensor, torch.nn.Parameter) for x in tensors):
        return False
    if param.dtype == torch.float64:
        fits = grad.dtype == m.dtype == torch.float64
    else:
        fits = m.dtype in (torch.float32, torch.bfloat16) and (
            grad.dtype in (param.dtype, torch.float32)
        )
    rounds = torch.bfloat16 in (m.dtype, param.dtype if group["stochastic_rounding"] else None)
    dense = param.is_contiguous() or (not rounds and _is_dense(param))
    alike = all(x.stride() == param.stride() for x in tensors)
    return fits and dense and alike and not grad.is_neg()


def _is_dense(tensor: Tensor) -> bool:
    """Return whether the elements fill a contiguous range of memory, in any order."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def run(work: SlotWork, scalars: Table) -> None:
    """Take the step."""
    alike = defaultdict(list)
    for slot in work.slots:
        param, grad, m = slot[:3]
        alike[param.device, param.dtype, grad.dtype, m.dtype].append(slot)
    for batch in alike.values():
        _kernel().update(batch, scalars)
