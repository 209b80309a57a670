"""Moving over from torch.optim.Adam and AdamW, before a run or in the middle of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor
from torch.optim import Adam, AdamW

if TYPE_CHECKING:
    from adamomentum.torch.optimizer import AdaMomentum

_Class = TypeVar("_Class", bound="AdaMomentum")

# Not taken over: eps means something else, and backends are chosen anew.
_LEFT = ("params", "param_names", "eps", "foreach", "fused")
_STATE = {
    "exp_avg_sq": "exp_avg_momentum_sq",
    "max_exp_avg_sq": "max_exp_avg_momentum_sq",
}


def lr_from_adam(lr: float, beta1: float = 0.9) -> float:
    """The AdaMomentum lr whose steps are as long as Adam's at `lr`, where noise dominates.

    There E[m^2] = (1-b1)/(1+b1) E[g^2], which makes AdaMomentum's denominator smaller by the root
    of that, 4.36 at b1 = 0.9. Where gradients keep their sign, equal lr gives equal steps.
    """
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
            f"from_adam takes over a torch.optim.Adam or AdamW, but was given {adam!r}."
        )
    groups = [_group(group, isinstance(adam, AdamW), translate_lr) for group in adam.param_groups]
    ours = cls([{**group, **options} for group in groups])
    for group in ours.param_groups:
        for param in group["params"]:
            if state := adam.state.get(param):
                ours.state[param] = _state(state, group)
    # Loading copies, and casts as `ours` keeps its state.
    ours.load_state_dict(ours.state_dict())
    return ours


def _group(group: dict[str, Any], is_adamw: bool, translate_lr: bool) -> dict[str, Any]:
    taken = {name: value for name, value in group.items() if name not in _LEFT}
    names = group.get("param_names")
    params = group["params"]
    taken["params"] = list(zip(names, params, strict=True)) if names else list(params)
    decoupled = group.get("decoupled_weight_decay", is_adamw)
    taken["decoupled_weight_decay"] = decoupled
    if translate_lr:
        factor = float(shrinkage(group["betas"][0])) ** 0.5
        for name in ("lr", "initial_lr"):  # the second is a scheduler's
            if name in taken:
                taken[name] = taken[name] * factor
        if decoupled:
            taken["weight_decay"] = group["weight_decay"] / factor
    return taken


def _state(adams: dict[str, Any], group: dict[str, Any]) -> dict[str, Any]:
    """Adam's moments as AdaMomentum would have them, had the gradients been noise so far.

    The first step then equals Adam's next, whatever the gradients really were, and v moves to
    its own average within 1/(1-b2) steps.
    """
    beta1, beta2 = (float(beta) for beta in group["betas"])
    t = float(adams["step"])
    eps = group["eps"] * (1 - beta2**t) / (1 - beta2)
    state = {"step": adams["step"], "exp_avg": adams["exp_avg"]}
    for theirs, ours in _STATE.items():
        if theirs in adams:
            v: Tensor = adams[theirs].to(torch.promote_types(adams[theirs].dtype, torch.float32))
            v = v * shrinkage(beta1)
            (torch.view_as_real(v) if v.is_complex() else v).add_(eps)
            state[ours] = v
    return state
