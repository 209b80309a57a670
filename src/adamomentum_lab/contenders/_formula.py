"""A base class for optimizers that are one formula, such as the methods of the paper's Table 1.

Each update is theta -= lr * direction. Methods differ in the averages they keep and in the
direction they compute from them. The rest is here: arguments, groups, state, weight decay,
checkpoints.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, ParamsT, StateDict

from adamomentum.rule import remaining
from adamomentum_lab.space import Settings, Value

Group = dict[str, Any]

# Numeric settings, with the names that torch.optim's error messages use for them.
_NUMBERS = {
    "lr": "learning rate",
    "eps": "epsilon value",
    "weight_decay": "weight_decay value",
    "final_lr": "final_lr value",
    "gamma": "gamma value",
}
_FLAGS = ("decoupled_weight_decay", "rectify", "maximize")


class FormulaOptimizer(Optimizer):
    """An optimizer defined by its settings, the initial values of its averages, and a formula."""

    SETTINGS: ClassVar[Settings]
    START: ClassVar[Mapping[str, float]]
    ELEMENTWISE: ClassVar[bool] = True
    """Whether the step of an element does not depend on the others of its parameter."""
    _formula: Callable[..., tuple[Tensor, ...]]
    """(g, t, group, *averages) -> the direction d of theta -= lr d at step t (from 1), then each
    new average, in the order of START. Tensors are real and at least float32. Do not change them in
    place. If an element of the gradient is not finite, its direction must not be finite either:
    for a sign, write `divide(x, x.abs())`."""

    def __init__(self, params: ParamsT, *, maximize: bool = False, **settings: Value) -> None:
        if unknown := settings.keys() - self.SETTINGS.keys():
            raise TypeError(f"{type(self).__name__} has no option {min(unknown)!r}.")
        super().__init__(params, {**self.SETTINGS, **settings, "maximize": maximize})

    def add_param_group(self, param_group: Group) -> None:
        """Add a group of parameters. Options it does not name get the optimizer's values."""
        super().add_param_group(param_group)
        try:
            _check(self.param_groups[-1], self.SETTINGS)
        except Exception:
            self.param_groups.pop()
            raise

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Update every parameter that has a gradient.

        Args:
            closure: reevaluates the model and returns the loss, which `step` then returns.
        """
        with torch.enable_grad():
            loss = None if closure is None else closure()
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    self._update(param, param.grad, group)
        return loss

    def _update(self, param: Tensor, grad: Tensor, group: Group) -> None:
        if grad.is_sparse:
            raise RuntimeError(f"{type(self).__name__} does not support sparse gradients.")
        theta, g = _real(param), _real(grad)
        wide = torch.promote_types(theta.dtype, torch.float32)
        state = self.state[param]
        if not state:
            state["step"] = torch.tensor(0.0)
            for name, value in self.START.items():
                state[name] = torch.full_like(theta, value, dtype=wide)
        state["step"] += 1

        lr, decay = float(group["lr"]), group["weight_decay"]
        old, g = theta.to(wide), g.to(wide)
        if group["maximize"]:
            g = -g
        if decay and not group["decoupled_weight_decay"]:
            g = g + decay * old
        before = [state[name] for name in self.START]
        direction, *after = self._formula(g, int(state["step"]), group, *before)
        if decay and group["decoupled_weight_decay"]:
            old = old * (1 - lr * decay)
        theta.copy_(old - lr * direction)
        for average, new in zip(before, after, strict=True):
            average.copy_(new)

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Load what `state_dict` returned. Training then continues bit for bit.

        torch casts averages to the dtype of their parameter, which would round those of
        half-precision parameters. Here they are copied, and keep the dtype they were saved in.
        """
        loaded: StateDict = {}
        # The last hook, since the hooks of a user may change what is loaded.
        handle = self.register_load_state_dict_pre_hook(lambda _, final: loaded.update(final))
        try:
            super().load_state_dict(state_dict)
        finally:
            handle.remove()
        for saved, group in zip(loaded["param_groups"], self.param_groups, strict=True):
            for i, param in zip(saved["params"], group["params"], strict=True):
                for name, value in loaded["state"].get(i, {}).items():
                    device = "cpu" if name == "step" else param.device
                    self.state[param][name] = value.to(device, copy=True)


def average(old: Tensor, new: Tensor, beta: float) -> Tensor:
    """Return an exponential moving average after one more value."""
    return beta * old + (1 - beta) * new


def correct_bias(average: Tensor, beta: float, t: int) -> Tensor:
    """Return an average divided by 1 - beta^t, Adam's bias correction."""
    divisor: float = remaining(beta, t)
    return average / divisor


def divide(a: Tensor, b: Tensor) -> Tensor:
    """Return a / b, and 0 where both are 0, as with eps = 0 before the first nonzero gradient."""
    return a / (b + ((a == 0) & (b == 0)))


def adam_step(m: Tensor, v: Tensor, t: int, group: Group) -> Tensor:
    """Return Adam's direction, m_hat / (sqrt(v_hat) + eps)."""
    b1, b2 = group["betas"]
    return divide(correct_bias(m, b1, t), correct_bias(v, b2, t).sqrt() + group["eps"])


def _real(tensor: Tensor) -> Tensor:
    """Return a view of complex numbers as pairs of reals; other tensors as they are."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _check(group: Group, settings: Settings) -> None:
    """Validate the options. The messages follow those of torch.optim."""
    lr = group["lr"]
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError(f"Tensor lr must be 1-element, but has shape {tuple(lr.shape)}.")
    for name in _NUMBERS.keys() & group.keys():
        value = group[name]
        if isinstance(value, bool) or not isinstance(value, Real | Tensor):
            raise TypeError(f"{name} must be a number, but is {value!r}.")
        if not 0 <= float(value) < math.inf:
            raise ValueError(
                f"Invalid {_NUMBERS[name]}: {value} ({name} must be finite and at least 0)."
            )
    if group.get("gamma") == 0:
        raise ValueError("Invalid gamma value: 0 (gamma must be above 0).")
    for name in _FLAGS:
        if not isinstance(group.get(name, False), bool):
            raise TypeError(f"{name} must be True or False, but is {group[name]!r}.")
    for i, beta in enumerate(group.get("betas", ())):
        if not 0 <= beta < 1:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta} (betas lie in [0, 1)).")
    usual: Any = settings.get("betas", ())
    if len(group.get("betas", ())) != len(usual):
        raise ValueError(f"Invalid betas: {group['betas']} ({len(usual)} are needed).")
