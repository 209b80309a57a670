"""Migration from torch.optim.Adam and AdamW, and from the authors' own class."""

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

# Options that are not copied: eps has a different meaning, and backends are chosen again.
_LEFT = ("params", "param_names", "eps", "foreach", "fused")
# AdaM3's state keys and ours. AdaBelief, on which AdaM3 is based, uses the same keys.
_ADAM3 = {"step": "step", "exp_avg": M, "exp_avg_var": V, "max_exp_avg_var": V_MAX}
# Learning rates that schedulers store in groups.
_RATES = ("lr", "initial_lr", "max_lr", "min_lr")
_NORMS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)


def lr_from_adam(lr: float, beta1: float = 0.9) -> float:
    """Return the AdaMomentum lr whose steps are as long as Adam's at `lr` when noise dominates.

    For noise, E[m^2] = (1-b1)/(1+b1) E[g^2]. AdaMomentum's denominator is smaller by the root of
    that factor: 4.36 times smaller at b1 = 0.9. For constant gradients the same lr gives the same
    steps.

    Args:
        lr: learning rate of Adam.
        beta1: decay rate of the first moment.

    Examples:
        >>> round(lr_from_adam(1e-3), 6)
        0.000229
    """
    if not 0 <= beta1 < 1:
        raise ValueError(f"Invalid beta1: {beta1} (it must be in [0, 1)).")
    return float(lr * shrinkage(beta1) ** 0.5)


def shrinkage(beta1: float) -> float:
    """Return (1-b1)/(1+b1), the factor by which averaging shrinks the square of pure noise."""
    return (1 - beta1) / (1 + beta1)


def take_over(
    cls: type[_Class], adam: Adam | AdamW, translate_lr: bool, options: dict[str, Any]
) -> _Class:
    """Implement AdaMomentum.from_adam; see its docstring."""
    if not isinstance(adam, Adam | AdamW):
        raise TypeError(
            f"from_adam expects a torch.optim.Adam or AdamW, but got "
            f"{getattr(adam, '__name__', None) or 'a ' + type(adam).__name__}; load a checkpoint "
            f"into torch.optim.Adam first."
        )
    known = inspect.signature(cls).parameters.keys() - {"params"}
    if unknown := options.keys() - known:
        raise TypeError(
            f"from_adam got unknown options of AdaMomentum: {sorted(unknown)}; "
            f"the options are {sorted(known)}."
        )

    def translated(group: dict[str, Any]) -> dict[str, Any]:
        return _group(group, isinstance(adam, AdamW), translate_lr, options)

    ours = cls([translated(group) for group in adam.param_groups], **translated(adam.defaults))
    for group in ours.param_groups:
        for param in group["params"]:
            if state := adam.state.get(param):
                ours.state[param] = _state(state, param, group)
    # Loading copies the tensors and moves the step counters to the right device.
    ours.load_state_dict(ours.state_dict())
    return ours


def _group(
    group: dict[str, Any], is_adamw: bool, translate_lr: bool, options: dict[str, Any]
) -> dict[str, Any]:
    """Convert Adam's group (or its defaults) to AdaMomentum's. `options` are used as given."""
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
    """Convert Adam's moments as if all gradients so far had been noise.

    With a translated lr the next step then equals Adam's, whatever the gradients really were, if
    they are well above eps. After that, v converges to its own average in about 1/(1-b2) steps.
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
    """Split a model's parameters into two groups: with and without weight decay.

    The second group has no weight decay. It holds the parameters of normalisation layers,
    parameters named `bias` or `bias_...`, and parameters with fewer than two dimensions. Embeddings
    are decayed. Shared parameters are listed once. Frozen parameters (requires_grad=False) are left
    out. FSDP1's flat parameters cannot be split: call this before wrapping, or use `fully_shard`.

    Args:
        model: the model.
        weight_decay: weight decay of the first group.

    Returns:
        Two parameter groups for any torch optimizer.

    Examples:
        >>> model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
        >>> [len(group["params"]) for group in no_decay_groups(model, 1e-2)]
        [1, 3]
    """
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"no_decay_groups expects a torch.nn.Module, but got a {type(model).__name__}; "
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
    """Convert a checkpoint of the authors' class, AdaM3, for `AdaMomentum.load_state_dict`.

    Only keys are renamed: AdaM3's second moment equals AdaMomentum's, eps included.
    `load_state_dict` does not do this by itself, because AdaBelief uses the same keys for a second
    moment that would be wrong by a factor of about 16.

    Args:
        state_dict: the result of `state_dict()` of their optimizer.
        decoupled_weight_decay: their `weight_decouple`, for groups without this entry.
        rectify: their `rectify`, for groups without this entry.
    """
    check_keys(state_dict, "state_dict_from_adam3")
    defaults = {"weight_decouple": decoupled_weight_decay, "rectify": rectify}
    state = {}
    for i, saved in state_dict["state"].items():
        if missing := {"step", "exp_avg", "exp_avg_var"} - saved.keys():
            raise ValueError(
                f"This state_dict was not saved by AdaM3: parameter {i} has {sorted(saved)}, "
                f"but not {sorted(missing)}."
            )
        state[i] = {ours: saved[theirs] for theirs, ours in _ADAM3.items() if theirs in saved}
    groups = [_adam3_group(defaults | group) for group in state_dict["param_groups"]]
    return {"state": state, "param_groups": groups}


def _adam3_group(group: dict[str, Any]) -> dict[str, Any]:
    """Convert AdaM3's options. Other entries, such as a scheduler's initial_lr, are kept."""
    group = {name: value for name, value in group.items() if name != "buffer"}  # a cache of r_t
    group["decoupled_weight_decay"] = group.pop("weight_decouple")
    if group.pop("fixed_decay", False) and group["weight_decay"]:
        raise ValueError(
            "AdaMomentum does not support fixed_decay=True of AdaM3 (weight decay independent of "
            "lr); with a constant lr, set fixed_decay to False and weight_decay to "
            "weight_decay / lr in the state_dict's param_groups."
        )
    # AdaM3's rectified step stores the maximum but does not use it.
    group["amsgrad"] = group.get("amsgrad", False) and not group["rectify"]
    return group
