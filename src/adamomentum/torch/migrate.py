"""Moving over: from torch.optim.Adam and AdamW, and from the authors' own class."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW
from torch.optim.optimizer import StateDict

from adamomentum.torch._state import V_MAX, M, V, state_dtype
from adamomentum.torch._validation import check_keys

if TYPE_CHECKING:
    from adamomentum.torch.optimizer import AdaMomentum

_Class = TypeVar("_Class", bound="AdaMomentum")

# Not taken over: eps means something else, and backends are chosen anew.
_LEFT = ("params", "param_names", "eps", "foreach", "fused")
# AdaM3's state in our words. AdaBelief, from which that class descends, has the same keys.
_ADAM3 = {"step": "step", "exp_avg": M, "exp_avg_var": V, "max_exp_avg_var": V_MAX}
# What schedulers keep in groups, and continue from.
_RATES = ("lr", "initial_lr", "max_lr", "min_lr")
_NORMS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)


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
        for name in taken.keys() & set(_RATES):
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


def no_decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Two groups of parameters, with `weight_decay` and without, for any torch optimizer.

    Without are those of normalisation layers, what is called `bias` or `bias_...`, and everything
    of fewer than two dimensions: decay would not make these simpler, only smaller. Embeddings are
    decayed. Shared parameters are listed once, frozen ones (requires_grad=False) not at all. Of
    FSDP1's flat parameters nothing can be told: call this before wrapping, or use `fully_shard`.

    Examples:
        >>> model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
        >>> [len(group["params"]) for group in no_decay_groups(model, 1e-2)]
        [1, 3]
    """
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"no_decay_groups takes a torch.nn.Module, but was given a {type(model).__name__}; "
            f"pass the model, not its parameters."
        )
    for name, param in model.named_parameters():
        if isinstance(param, nn.parameter.UninitializedParameter):
            raise ValueError(
                f"{name!r} has no shape yet; run a batch through the model before no_decay_groups."
            )
    exempt = {
        id(param)
        for module in model.modules()
        for name, param in module.named_parameters(recurse=False)
        if isinstance(module, _NORMS) or f"{name}_".startswith("bias_") or param.ndim < 2
    }
    trained = [param for param in model.parameters() if param.requires_grad]
    return [
        {"params": [p for p in trained if id(p) not in exempt], "weight_decay": weight_decay},
        {"params": [p for p in trained if id(p) in exempt], "weight_decay": 0.0},
    ]


def state_dict_from_adam3(
    state_dict: StateDict, *, decoupled_weight_decay: bool = True, rectify: bool = False
) -> StateDict:
    """A checkpoint of the authors' class, AdaM3, as one that `load_state_dict` takes.

    Nothing is computed: their second moment is AdaMomentum's, eps included. It is not done unasked
    because AdaBelief saves under the same keys what would be wrong by a factor of about 16.

    Args:
        state_dict: what their optimizer's `state_dict()` returned.
        decoupled_weight_decay: their `weight_decouple`, for groups that do not hold it.
        rectify: theirs, for groups that do not hold it.
    """
    check_keys(state_dict, "state_dict_from_adam3")
    defaults = {"weight_decouple": decoupled_weight_decay, "rectify": rectify}
    state = {}
    for i, saved in state_dict["state"].items():
        if missing := {"step", "exp_avg", "exp_avg_var"} - saved.keys():
            raise ValueError(
                f"This state_dict was not saved by AdaM3: parameter {i} has {sorted(saved)}, "
                f"but lacks {sorted(missing)}."
            )
        state[i] = {ours: saved[theirs] for theirs, ours in _ADAM3.items() if theirs in saved}
    groups = [_adam3_group(defaults | group) for group in state_dict["param_groups"]]
    return {"state": state, "param_groups": groups}


def _adam3_group(group: dict[str, Any]) -> dict[str, Any]:
    """AdaM3's options as AdaMomentum's; others, a scheduler's initial_lr say, as they are."""
    group = {name: value for name, value in group.items() if name != "buffer"}  # a cache of r_t
    group["decoupled_weight_decay"] = group.pop("weight_decouple")
    if group.pop("fixed_decay", False) and group["weight_decay"]:
        raise ValueError(
            "fixed_decay=True of AdaM3 shrinks by weight_decay, whatever lr is, which AdaMomentum "
            "does not offer; with a constant lr, set fixed_decay to False and weight_decay to "
            "weight_decay / lr in the state_dict's param_groups."
        )
    # Their rectified step keeps the maximum and ignores it.
    group["amsgrad"] = group.get("amsgrad", False) and not group["rectify"]
    return group
