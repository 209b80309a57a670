"""What a backend is given: for each parameter with a gradient, the tensors of one step."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

# Keys of the state; not Adam's, so that an Adam checkpoint cannot load by mistake.
M, V, V_MAX = "exp_avg", "exp_avg_momentum_sq", "max_exp_avg_momentum_sq"
HALF = (torch.float16, torch.bfloat16)


class Slot(NamedTuple):
    """The tensors of one parameter, all real.

    A backend is a function `step(slots, group)` that updates all but grad in place.
    """

    param: Tensor
    grad: Tensor
    m: Tensor
    v: Tensor
    v_max: Tensor | None  # only with amsgrad
    t: Tensor  # number of steps so far, to be counted up; on the CPU unless capturable

    def as_real(self) -> Slot:
        """Complex tensors as pairs of reals that share their memory."""
        if not self.param.is_complex():
            return self
        real = torch.view_as_real
        v_max = None if self.v_max is None else real(self.v_max)
        # A gradient, unlike a parameter, may be a lazy conjugate, which has no such view.
        grad = real(self.grad.resolve_conj())
        return Slot(real(self.param), grad, real(self.m), real(self.v), v_max, self.t)


def local(slot: Slot) -> Slot:
    """This process's part of DTensors that are laid out alike: the step is elementwise."""
    tensors: list[Any] = [x for x in slot[:5] if x is not None]
    placements = {getattr(x, "placements", None) for x in tensors}
    if None in placements or len(placements) > 1:
        return slot
    param, grad, m, v, *v_max = (x.to_local() for x in tensors)
    return Slot(param, grad, m, v, v_max[0] if v_max else None, slot.t)


def state_dtype(param: Tensor, group: dict[str, Any]) -> torch.dtype:
    """The dtype in which the moments of a parameter start."""
    is_complex = param.is_complex()
    if group["state_dtype"] is not None:
        real: torch.dtype = getattr(torch, group["state_dtype"])
    else:
        real = param.dtype.to_real() if is_complex else param.dtype
        real = torch.float32 if real in HALF else real
    return real.to_complex() if is_complex else real


def in_graph(group: dict[str, Any]) -> bool:
    """Whether the step may be recorded and replayed, so that its number must stay a tensor."""
    return group["capturable"] or torch.compiler.is_compiling()


def precise(t: Tensor) -> Tensor:
    """t in float64, because 1 - b2^t loses digits in float32; MPS has nothing wider."""
    return t if t.device.type == "mps" else t.double()


def scalar(x: float | Tensor) -> float | Tensor:
    """A learning rate or beta that broadcasts to any shape."""
    return x.squeeze() if isinstance(x, Tensor) else x
