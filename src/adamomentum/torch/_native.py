"""Backend that uses the native CPU kernel (_cpu.c), if it was built."""

from __future__ import annotations

import importlib
import os
from array import array
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from adamomentum.torch._scalars import Table, in_graph
from adamomentum.torch._slots import fused_allowed as wants
from adamomentum.torch._state import Group, Slot, States, slot_of

__all__ = ["FUSED", "NAME", "claim", "claim_slots", "run", "unavailable", "wants"]

NAME, FUSED = "fused (CPU)", True
# Version of the interface between this file and the extension; _cpu.c has the same number.
VERSION = 3


def _load() -> tuple[Any, str]:
    """Import the extension; return it, or None and the reason."""
    if os.environ.get("ADAMOMENTUM_NATIVE") == "0":
        return None, "ADAMOMENTUM_NATIVE=0 disables it"
    exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if exchange is None:
        return None, f"torch {torch.__version__} does not publish DLPack's C exchange API"
    try:
        module = importlib.import_module("adamomentum.torch._cpu")
    except ImportError as error:
        return None, build_note() or f"the native extension was not built ({error})"
    if reason := mismatch(module):
        return None, reason
    module.bind(exchange, torch.empty(0), torch.nn.Parameter)
    return module, ""


def build_note() -> str:
    """Return the note that setup.py left if the kernel, or its OpenMP part, was not built."""
    file = Path(__file__).with_name("_cpu_build.txt")
    return file.read_text(encoding="utf-8").strip() if file.is_file() else ""


def mismatch(module: Any) -> str:
    """Return why an extension does not match this file; "" if it does."""
    built = getattr(module, "VERSION", 1)
    if built == VERSION:
        return ""
    return (
        f"the native extension was built from other sources (version {built}, not {VERSION}); "
        f"reinstall the package"
    )


_cpu, _reason = _load()


def unavailable(device: torch.device) -> str | None:
    """Return why the kernel is unavailable; "" if it is available, None for other devices."""
    if device.type != "cpu":
        return None
    return "" if _cpu else _reason or "it is disabled"


class Work(NamedTuple):
    """A table of pointers (which keeps their tensors alive), the parameters, the step numbers."""

    plan: Any
    params: list[Tensor]
    steps: list[float]


def claim_ready(params: list[Tensor], states: States, group: Group) -> tuple[Any, list[Tensor]]:
    """Like `claim`, for parameters that nobody has checked: not all have a gradient and a state.

    It claims those that need nothing but the step, and returns the others that have a gradient.
    """
    if _cpu is None:
        return None, [param for param in params if param.grad is not None]
    plan = _cpu.plan()
    taken, rest = _cpu.gather(plan, params, states, group["amsgrad"], group["stochastic_rounding"])
    return (Work(plan, taken, _cpu.steps(plan)) if taken else None), rest


def claim(params: list[Tensor], states: States, group: Group) -> tuple[Any, list[Tensor]]:
    """Claim dense CPU tensors. Other gradients are viewed or copied if that makes them dense."""
    if _cpu is None:
        return None, params
    plan = _cpu.plan()
    stochastic = group["stochastic_rounding"]
    taken, others = _cpu.gather(plan, params, states, group["amsgrad"], stochastic)
    rest = []
    for param in others:
        slot = _viewed(param, states, group)
        if slot is not None and _add(plan, slot, stochastic):
            taken.append(slot.param)
        else:
            rest.append(param)
    return (Work(plan, taken, _cpu.steps(plan)) if taken else None), rest


def _viewed(param: Tensor, states: States, group: Group) -> Slot | None:
    """Return the slot of a parameter if its gradient matches it in layout, shape and device."""
    grad: Any = param.grad
    alike = (grad.layout, grad.shape, grad.device, grad.is_complex()) == (
        torch.strided, param.shape, param.device, param.is_complex(),
    )  # fmt: skip
    return slot_of(param, states[param], group) if alike and param.device.type == "cpu" else None


def _add(plan: Any, slot: Slot, stochastic: bool) -> bool:
    if _cpu.add(plan, slot, stochastic):
        return True
    grad = torch.empty_like(slot.param, dtype=slot.grad.dtype).copy_(slot.grad)
    return bool(_cpu.add(plan, slot._replace(grad=grad), stochastic))


def claim_slots(slots: list[Slot], group: Group) -> tuple[Any, list[Slot]]:
    """Like `claim`, for slots. Nothing is claimed if the step number must stay a tensor."""
    if _cpu is None or in_graph(group):
        return None, slots
    plan = _cpu.plan()
    taken: list[Tensor] = []
    rest: list[Slot] = []
    for slot in slots:
        if _add(plan, slot, group["stochastic_rounding"]):
            taken.append(slot.param)
        else:
            rest.append(slot)
    return (Work(plan, taken, _cpu.steps(plan)) if taken else None), rest


def run(work: Work, scalars: Table) -> None:
    """Take the step."""
    # The kernel writes through pointers; tell autograd that the tensors changed.
    torch.autograd.graph.increment_version(work.params)
    group = scalars.group
    _cpu.run(
        work.plan,
        array("d", [x for t in work.steps for x in scalars.at(t)]).tobytes(),
        scalars.coupled != 0,
        group["amsgrad"],
        group["nesterov"],
        group["rectify"],
        group["stochastic_rounding"],
        torch.get_num_threads(),
    )
