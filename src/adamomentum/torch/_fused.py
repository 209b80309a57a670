"""The native CPU kernel (_cpu.c): whether it is there, and its use as a backend."""

from __future__ import annotations

import importlib
import os
from typing import Any

import torch
from torch import Tensor

from adamomentum.torch._slot import Slot


def _load() -> tuple[Any, str]:
    """The extension, or None and the reason."""
    if os.environ.get("ADAMOMENTUM_NATIVE") == "0":
        return None, "ADAMOMENTUM_NATIVE=0 disables it"
    exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if exchange is None:
        return None, f"torch {torch.__version__} does not publish DLPack's C exchange API"
    try:
        module = importlib.import_module("adamomentum.torch._cpu")
    except ImportError as error:
        return None, f"the native extension is not there, pip found no C compiler ({error})"
    module.bind(exchange, torch.Tensor, torch.nn.Parameter)
    return module, ""


_cpu, unavailable = _load()


def wanted(group: dict[str, Any]) -> bool:
    """Whether the group's options let the kernel take what it can."""
    if group["fused"] is None:
        automatic = group["foreach"] is None and not group["differentiable"]
        if not automatic or _cpu is None or torch.compiler.is_compiling():
            return False
    elif not group["fused"]:
        return False
    # The threads of one call must not share a parameter.
    return len(set(map(id, group["params"]))) == len(group["params"])


def unavailable_on(device: torch.device) -> str:
    """Why there is no fused backend for tensors of this device, or nothing."""
    return unavailable if device.type == "cpu" else f"there is none for {device.type}"


class Plan:
    """What the kernel will update in this step: gathered, then run."""

    def __init__(self, grad_scale: Tensor | None) -> None:
        self._table = _cpu.plan()
        self._params: list[Tensor] = []
        self._scale = 1.0 if grad_scale is None else float(grad_scale)

    def gather(self, group: dict[str, Any], states: Any) -> list[Tensor]:
        """Take the parameters that have a gradient and are eligible; returns the others."""
        rest: list[Tensor]
        self._params, rest = _cpu.gather(
            self._table, group["params"], states, group["amsgrad"], group["stochastic_rounding"]
        )
        return rest

    def take(self, slot: Slot, group: dict[str, Any]) -> bool:
        """Take one slot, if it is eligible."""
        slot = _local(slot)
        if not _cpu.add(self._table, slot, group["stochastic_rounding"]):
            return False
        self._params.append(slot.param)
        return True

    def run(self, group: dict[str, Any]) -> None:
        """Take the step."""
        # Autograd must notice that a tensor it has saved was changed behind its back.
        torch.autograd.graph.increment_version(self._params)
        beta1, beta2 = group["betas"]
        _cpu.run(
            self._table,
            float(group["lr"]),
            float(beta1),
            float(beta2),
            group["eps"],
            group["weight_decay"],
            (-1.0 if group["maximize"] else 1.0) / self._scale,
            group["decoupled_weight_decay"],
            group["amsgrad"],
            group["nesterov"],
            group["rectify"],
            group["debias_momentum"],
            group["stochastic_rounding"],
            torch.get_num_threads(),
        )


def _local(slot: Slot) -> Slot:
    """This process's part of a slot of DTensors that are laid out alike."""
    tensors: list[Any] = [x for x in slot[:5] if x is not None]
    placements = {getattr(x, "placements", None) for x in tensors}
    if None in placements or len(placements) > 1:
        return slot
    param, grad, m, v, *v_max = (x.to_local() for x in tensors)
    return Slot(param, grad, m, v, v_max[0] if v_max else None, slot.t)
