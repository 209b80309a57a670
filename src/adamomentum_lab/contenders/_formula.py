"""One optimizer for all the methods of the paper's Table 1.

Each is theta -= lr * direction, and differs in the averages it keeps and the direction it makes of
them; the rest (arguments, groups, state, weight decay, checkpoints) is here, once.
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

# Numbers a method may have, as torch.optim calls them where it refuses them.
_NUMBERS = {
    "lr": "learning rate",
    "eps": "epsilon value",
    "weight_decay": "weight_decay value",
    "final_lr": "final_lr value",
    "gamma": "gamma value",
}
_FLAGS = ("decoupled_weight_decay", "rectify", "maximize")


class FormulaOptimizer(Optimizer):
    """A method states its settings, the values its averages start from, and its formula."""

    SETTINGS: ClassVar[Settings]
    START: ClassVar[Mapping[str, float]]
    _formula: Callable[..., tuple[Tensor, ...]]
    """(g, t, group, *averages) -> the direction d of theta -= lr d at step t (from 1), then each
    new average, in the order of START. Everything is real and float32 or wider, and nothing is
    changed in place. A gradient that is not finite must show in the direction:
    `divided(x, x.abs())` is a sign that does."""

    def __init__(self, params: ParamsT, *, maximize: bool = False, **settings: Value) -> None:
        if unknown := settings.keys() - self.SETTINGS.keys():
            raise TypeError(f"{type(self).__name__} has no option {min(unknown)!r}.")
        super().__init__(params, {**self.SETTINGS, **settings, "maximize": maximize})

    def add_param_group(self, param_group: Group) -> None:
        """Add a group of parameters, with options of its own where it names them."""
        super().add_param_group(param_group)
        try:
            _check(self.param_groups[-1])
        except Exception:
            self.param_groups.pop()
            raise

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Update every parameter that has a gradient; `closure` reevaluates the loss before."""
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
        """Continue from what `state_dict` returned, bit for bit.

        torch casts averages to the parameter's dtype, which would round those of half-precision
        parameters; here they keep the dtype they were saved in, and are copied.
        """
        loaded: StateDict = {}
        # A hook, the last one, since the user's own may change what is loaded.
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
    """One step of an exponential moving average."""
    return beta * old + (1 - beta) * new


def corrected(average: Tensor, beta: float, t: int) -> Tensor:
    """Adam's bias correction."""
    divisor: float = remaining(beta, t)
    return average / divisor


def divided(a: Tensor, b: Tensor) -> Tensor:
    """a / b, and 0 where both are 0: eps is 0, and so was every gradient so far."""
    return a / (b + ((a == 0) & (b == 0)))


def adam_step(m: Tensor, v: Tensor, t: int, group: Group) -> Tensor:
    """Adam's direction of two averages."""
    b1, b2 = group["betas"]
    return divided(corrected(m, b1, t), corrected(v, b2, t).sqrt() + group["eps"])


def _real(tensor: Tensor) -> Tensor:
    """Complex numbers as pairs of reals that share their memory."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _check(group: Group) -> None:
    """Refuse what cannot be meant, in torch.optim's words where it has some."""
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
        raise ValueError("Invalid gamma value: 0 (gamma must be above 0, or no bound is).")
    for name in _FLAGS:
        if not isinstance(group.get(name, False), bool):
            raise TypeError(f"{name} must be True or False, but is {group[name]!r}.")
    for i, beta in enumerate(group.get("betas", ())):
        if not 0 <= beta < 1:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta} (betas lie in [0, 1)).")
