"""Moving over from torch.optim.Adam and AdamW, before a run or in the middle of one."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor
from torch.optim import Adam, AdamW

from adamomentum.torch._slot import V_MAX, M, V, state_dtype

if TYPE_CHECKING:
    from adamomentum.torch.optimizer import AdaMomentum

_Class = TypeVar("_Class", bound="AdaMomentum")

# Not taken over: eps means something else, and backends are chosen anew.
_LEFT = ("params", "param_names", "eps", "foreach", "fused")


def lr_from_adam(lr: float, beta1: float = 0.9) -> float:
    """The AdaMomentum lr whose steps are as long as Adam's at `lr`, where noise dominates.

    There E[m^2] = (1-b1)/(1+b1) E[g^2], which makes AdaMomentum's denominator smaller by the root
    of that, 4.36 at b1 = 0.9. Where gradients are constant, equal lr gives equal steps.
    """
    if not 0 <= beta1 < 1:
        raise ValueError(f"Invalid beta1: {beta1} (it lies in [0, 1)).")
    return float(lr * shrinkage(beta1) ** 0.5)


def shrinkage(beta1: float) -> float:
    """(1-b1)/(1+b1): by how much averaging shrinks the square of pure noise."""
    return (1 - beta1) / (1 + beta1)


def take_over(
    cls: type[_Class], adam: Adam | AdamW, translate_lr: bool, options: dict[str, Any]
) -> _Class:
    """AdaMomentum.from_adam, which documents it."""
    if not isinstance(adam, Adam | AdamW):
        raise TypeError(
            f"from_adam takes over a torch.optim.Adam or AdamW, but was given "
            f"{getattr(adam, '__name__', None) or 'a ' + type(adam).__name__}; load a checkpoint "
            f"into torch.optim.Adam first."
        )
    known = inspect.signature(cls).parameters.keys() - {"params"}
    if unknown := options.keys() - known:
        raise TypeError(
            f"from_adam got options that AdaMomentum does not have: {sorted(unknown)}; "
            f"it has {sorted(known)}."
        )

    def translated(group: dict[str, Any]) -> dict[str, Any]:
        return _group(group, isinstance(adam, AdamW), translate_lr, options)

    ours = cls([translated(group) for group in adam.param_groups], **translated(adam.defaults))
    for group in ours.param_groups:
        for param in group["params"]:
            if state := adam.state.get(param):
                ours.state[param] = _state(state, param, group)
    # Loading copies, and puts steps where they belong.
    ours.load_state_dict(ours.state_dict())
    return ours


def _group(
    group: dict[str, Any], is_adamw: bool, translate_lr: bool, options: dict[str, Any]
) -> dict[str, Any]:
    """Adam's group, or its defaults, as AdaMomentum's. What `options` say is taken as it is."""
    taken = {name: value for name, value in group.items() if name not in _LEFT}
    taken.setdefault("decoupled_weight_decay", is_adamw)
    taken |= options
    if "params" in group:
        names = group.get("param_names")
        taken["params"] = list(
            zip(names, group["params"], strict=True) if names else group["params"]
        )
    if translate_lr and "lr" not in options:
        factor = float(shrinkage(taken["betas"][0])) ** 0.5
        for name in {"lr", "initial_lr"} & taken.keys():  # the second is a scheduler's
            taken[name] = taken[name] * factor
        if taken["decoupled_weight_decay"] and "weight_decay" not in options:
            taken["weight_decay"] = taken["weight_decay"] / factor
    return taken


def _state(adams: dict[str, Any], param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
    """Adam's moments as AdaMomentum would have them, had the gradients been noise so far.

    At a translated lr the next step is then Adam's, whatever the gradients really were, as long as
    they are well above eps; from there v moves to its own average over some 1/(1-b2) steps.
    """
    beta1, beta2 = (float(beta) for beta in group["betas"])
    t = float(adams["step"])
    eps = group["eps"] * (1 - beta2**t) / (1 - beta2)
    dtype = state_dtype(param, group)
    state = {"step": adams["step"], M: adams["exp_avg"].to(dtype)}
    for theirs, ours in (("exp_avg_sq", V), ("max_exp_avg_sq", V_MAX)):
        if theirs in adams:
            wide = torch.promote_types(adams[theirs].dtype, torch.float32)
            v: Tensor = adams[theirs].to(wide) * shrinkage(beta1)
            (torch.view_as_real(v) if v.is_complex() else v).add_(eps)
            state[ours] = v.to(dtype)
    return state
