"""The state of a parameter: its keys, its dtypes, and how values are stored in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias, cast

import torch
from torch import Tensor

from adamomentum.torch._rounding import Stream, round_to_bfloat16

# These are not Adam's keys, so that an Adam checkpoint cannot be loaded by mistake.
M, V, V_MAX = "exp_avg", "exp_avg_momentum_sq", "max_exp_avg_momentum_sq"
HALF = (torch.float16, torch.bfloat16)
Group: TypeAlias = dict[str, Any]
States: TypeAlias = Mapping[Tensor, dict[str, Tensor]]


class Codec:
    """Stores values in a tensor. This one rounds to nearest where the dtype is narrower."""

    def decode(self, stored: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the stored values in `dtype`."""
        return stored.to(dtype)

    def encode(self, stored: Tensor, value: Tensor, t: Tensor, stream: Stream) -> None:  # noqa: ARG002
        """Store `value` of step t. `stream` identifies the tensor within its slot."""
        stored.copy_(value)


class Stochastic(Codec):
    """bfloat16, rounded up or down at random."""

    def encode(self, stored: Tensor, value: Tensor, t: Tensor, stream: Stream) -> None:
        """Store `value`, rounded without bias."""
        stored.copy_(round_to_bfloat16(value, t, stream))


PLAIN, STOCHASTIC = Codec(), Stochastic()
# The dtypes that moments can have.
CODECS: dict[torch.dtype, Codec] = {
    torch.float32: PLAIN,
    torch.float64: PLAIN,
    torch.bfloat16: STOCHASTIC,
}


def param_codec(param: Tensor, group: Group) -> Codec:
    """Return the codec of a parameter itself."""
    stochastic = group["stochastic_rounding"] and param.dtype is torch.bfloat16
    return STOCHASTIC if stochastic else PLAIN


class Slot(NamedTuple):
    """The tensors of one parameter, all real. A step updates all but grad in place."""

    param: Tensor
    grad: Tensor
    m: Tensor
    v: Tensor
    v_max: Tensor | None  # only with amsgrad
    t: Tensor  # number of steps so far; on the CPU unless capturable

    def as_real(self) -> Slot:
        """Return the slot with complex tensors viewed as pairs of reals (shared memory)."""
        if not self.param.is_complex():
            return self
        # A gradient may be a lazy conjugate, which has no real view.
        tensors = (self.param, self.grad.resolve_conj(), self.m, self.v, self.v_max)
        param, grad, m, v, v_max = map(_as_real, tensors)
        return Slot(param, grad, m, v, v_max, self.t)

    def local(self) -> Slot:
        """Return this process's shards if all tensors are DTensors with the same placement."""
        tensors: list[Any] = [x for x in self[:5] if x is not None]
        placements = {getattr(x, "placements", None) for x in tensors}
        if None in placements or len(placements) > 1:
            return self
        param, grad, m, v, *v_max = (x.to_local() for x in tensors)
        return Slot(param, grad, m, v, v_max[0] if v_max else None, self.t)


def _as_real(x: Any) -> Any:
    return torch.view_as_real(x) if isinstance(x, Tensor) and x.is_complex() else x


def slot_of(param: Tensor, state: Mapping[str, Tensor], group: Group) -> Slot:
    """Return the tensors of a parameter that has a gradient and a state."""
    grad: Any = param.grad
    # `check_grad` reports missing entries, because it knows the parameter's name.
    m, v, t = (cast(Tensor, state.get(key)) for key in (M, V, "step"))
    slot = Slot(param, grad, m, v, state.get(V_MAX) if group["amsgrad"] else None, t).as_real()
    return slot if group["differentiable"] else slot.local()


def missing_states(params: Iterable[Tensor], states: States, group: Group) -> States:
    """Return complete states, filled with zeros, for the parameters whose state is incomplete."""
    keys = (M, V, V_MAX) if group["amsgrad"] else (M, V)
    complete = {}
    # States usually have the order of the parameters; then no tensor has to be hashed.
    in_order = iter(states.items())
    for param in params:
        key, state = next(in_order, (None, None))
        if key is not param:
            state = states.get(param)
        if not state or M not in state or keys[-1] not in state:
            complete[param] = _complete(param, state or {}, keys, group)
    return complete


def _complete(
    param: Tensor, state: dict[str, Tensor], keys: tuple[str, ...], group: Group
) -> dict[str, Tensor]:
    complete = dict(state)
    # A wrapper may store entries of its own in a state before the first step.
    if "step" not in complete and M not in complete:
        complete["step"] = new_step(param, group)
    for key in keys:
        if key not in complete:
            complete[key] = torch.zeros_like(
                param, dtype=state_dtype(param, group), memory_format=torch.preserve_format
            )
    return complete


def new_step(param: Tensor, group: Group, value: float | Tensor = 0.0) -> Tensor:
    """Create the step counter of a parameter. As in Adam, it is float32 unless the default dtype
    is float64.

    Stochastic rounding needs float64. A float32 counter stops at 2^24, and the noise, which
    depends on the step number, would repeat from there on.
    """
    device = param.device if group["capturable"] else torch.device("cpu")
    given = value.dtype if isinstance(value, Tensor) else torch.get_default_dtype()
    rounds = param_codec(param, group) is STOCHASTIC or state_dtype(param, group) is torch.bfloat16
    double = (rounds or (given == torch.float64 and not group["fused"])) and device.type != "mps"
    dtype = torch.float64 if double else torch.float32
    if isinstance(value, Tensor):
        # The sum is a copy, and -0.0 becomes 0.
        return value.detach().to(device, dtype).reshape(()) + 0.0
    # tensor() instead of zeros(): fake tensors, as in memory estimates, then know the value.
    return torch.tensor(value + 0.0, dtype=dtype, device=device)


def state_dtype(param: Tensor, group: Group) -> torch.dtype:
    """Return the dtype of a parameter's new moments."""
    is_complex = param.is_complex()
    if group["state_dtype"] is not None:
        real: torch.dtype = getattr(torch, group["state_dtype"])
    else:
        real = param.dtype.to_real() if is_complex else param.dtype
        real = torch.float32 if real in HALF else real
    return real.to_complex() if is_complex else real
