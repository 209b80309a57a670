"""The native CPU kernel (_cpu.c): whether it is there, and its use as a backend."""

from __future__ import annotations

import importlib
import os
from typing import Any, cast

import torch
from torch import Tensor

from adamomentum.torch._slot import M, Slot, local, state_dtype


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
GPUS = ("cuda", "xpu")  # ROCm calls itself cuda


def allowed(group: dict[str, Any]) -> bool:
    """Whether the group's options let a fused backend take what it can."""
    if group["fused"] is not None:
        return bool(group["fused"])
    automatic = group["foreach"] is None and not group["differentiable"]
    return automatic and not torch.compiler.is_compiling()


def triton_for(device: torch.device) -> Any:
    """The Triton backend, for devices that have one; triton is not imported before."""
    if device.type not in GPUS:
        return None
    try:
        return importlib.import_module("adamomentum.torch._triton")
    except ImportError:
        return None


def unavailable_on(device: torch.device) -> str:
    """Why there is no fused backend for tensors of this device, or nothing."""
    if device.type == "cpu":
        return unavailable
    if device.type not in GPUS:
        return f"there is none for {device.type}"
    return "" if triton_for(device) else "triton is not installed"


def backends() -> dict[str, str]:
    """What can update tensors here, and why not what cannot.

    Returns:
        For each backend, in the order in which they are tried, "available" or the reason.
    """
    gpu = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    triton = unavailable_on(gpu) if gpu else "there is no GPU"
    return {
        "fused (CPU)": unavailable or "available",
        "fused (Triton)": triton or "available",
        "foreach": "available",
        "single": "available",
    }


def plan_for(group: dict[str, Any], grad_scale: Tensor | None) -> KernelPlan | None:
    """A plan of the CPU kernel, where it is there and wanted."""
    return KernelPlan(grad_scale) if _cpu is not None and allowed(group) else None


def would_take(param: Tensor, group: dict[str, Any], state: dict[str, Any] | None) -> bool:
    """Whether the kernel takes a parameter, once it has the state it may not have yet."""
    moment = state[M] if state else torch.empty_like(param, dtype=state_dtype(param, group))
    t = state["step"] if state else torch.zeros(())
    v_max = moment if group["amsgrad"] else None
    slot = Slot(param, cast(Tensor, param.grad), moment, moment, v_max, t)
    slot = local(slot.as_real())
    if gpu := triton_for(slot.param.device):
        return bool(gpu.supports(slot, group))
    return _cpu is not None and KernelPlan(None).take(slot, group)


class KernelPlan:
    """What the kernel will update in this step: gathered, then run."""

    def __init__(self, grad_scale: Tensor | None) -> None:
        self._table = _cpu.plan()
        self._params: list[Tensor] = []
        self._scale = 1.0 if grad_scale is None else float(grad_scale)

    def gather(
        self, group: dict[str, Any], states: Any, position: int = 0
    ) -> tuple[list[Tensor], int]:
        """Take the parameters that have a gradient and are eligible.

        Returns the others, and the position in `states` from which the next group may look.
        """
        rest: list[Tensor]
        self._params, rest, position = _cpu.gather(
            self._table,
            group["params"],
            states,
            position,
            group["amsgrad"],
            group["stochastic_rounding"],
        )
        return rest, position

    def take(self, slot: Slot, group: dict[str, Any]) -> bool:
        """Take one slot, if it is eligible, or would be with a gradient of its layout."""
        if not self._add(slot, group):
            grad = torch.empty_like(slot.param, dtype=slot.grad.dtype).copy_(slot.grad)
            if not self._add(slot._replace(grad=grad), group):
                return False
        self._params.append(slot.param)
        return True

    def _add(self, slot: Slot, group: dict[str, Any]) -> bool:
        return bool(_cpu.add(self._table, slot, group["stochastic_rounding"]))

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
