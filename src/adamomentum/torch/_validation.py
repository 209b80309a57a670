"""Validation of options, parameters, gradients and checkpoints.

Messages begin like those of torch.optim where it has the same check.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import StateDict

from adamomentum.torch._backends import fused_unavailable
from adamomentum.torch._state import CODECS, HALF, V_MAX, M, V

_COMPLEX_MOMENTS = (torch.complex64, torch.complex128)
_PARAM_DTYPES = (
    torch.float32,
    torch.float64,
    *HALF,
    torch.complex32,
    torch.complex64,
    torch.complex128,
)
# The names that torch.optim uses in its messages.
_NUMBERS = {
    "lr": "learning rate",
    "eps": "epsilon value",
    "weight_decay": "weight_decay value",
}
_CHOICES = ("foreach", "fused")
_FLAGS = (
    *_CHOICES,
    "amsgrad",
    "decoupled_weight_decay",
    "nesterov",
    "rectify",
    "debias_momentum",
    "maximize",
    "capturable",
    "differentiable",
    "stochastic_rounding",
)


def check_options(options: dict[str, Any]) -> None:
    """Validate the options of a group, and convert numbers to float and flags to bool.

    A checkpoint with a NumPy scalar would not load under weights_only=True.
    """
    plain = _plain(options)
    for name, words in _NUMBERS.items():
        if not 0 <= _value(plain[name]) < math.inf:
            raise ValueError(
                f"Invalid {words}: {options[name]} ({name} must be finite and at least 0)."
            )
    for i, beta in enumerate(plain["betas"]):
        if not 0 <= _value(beta) < 1:
            raise ValueError(
                f"Invalid beta parameter at index {i}: {beta} (betas must be in [0, 1))."
            )
    first, second = plain["betas"]
    if isinstance(first, Tensor) != isinstance(second, Tensor):
        raise ValueError(
            f"betas must be either both floats or both Tensors, but are {options['betas']!r}."
        )
    check_together({**options, **plain})
    options.update(plain)


def check_running(group: dict[str, Any]) -> None:
    """Validate the options of a group before a step; schedulers and users may have changed them.

    Only values that make a step impossible raise an error. Values of tensors are not read, because
    that would wait for a GPU.
    """
    plain = _plain(group)
    for name, words in _NUMBERS.items():
        if plain[name] != plain[name] and not isinstance(plain[name], Tensor):
            raise ValueError(f"Invalid {words}: nan ({name} must be a number).")
    for i, beta in enumerate(plain["betas"]):
        if not (isinstance(beta, Tensor) or beta < 1):
            raise ValueError(
                f"Invalid beta parameter at index {i}: {beta} (betas must be in [0, 1))."
            )
    check_together(group)


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    """Convert numbers to float (tensors stay tensors), flags to bool, dtypes to names."""
    plain: dict[str, Any] = {name: _number(name, options[name]) for name in _NUMBERS}
    plain["betas"] = _pair(options["betas"])
    for name in _FLAGS:
        flag = plain[name] = options[name]
        if flag is True or flag is False or (flag is None and name in _CHOICES):
            continue
        if not isinstance(flag, Integral) or flag not in (0, 1):
            wanted = "True, False or None" if name in _CHOICES else "True or False"
            raise TypeError(f"{name} must be {wanted}, but is {flag!r}.")
        plain[name] = bool(flag)
    plain["state_dtype"] = _state_dtype(options["state_dtype"])
    return plain


def _number(name: str, value: Any) -> Any:
    if type(value) is float:
        return value
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise ValueError(
                f"Tensor {name} must be 1-element, but has shape {tuple(value.shape)}."
            )
        return value
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number or a 1-element tensor, but is {value!r}.")
    return float(value)


def _value(number: float | Tensor) -> float:
    return float(number.detach() if isinstance(number, Tensor) else number)


def _pair(betas: Any) -> tuple[Any, Any]:
    try:
        if isinstance(betas, (str, bytes, dict)):
            raise TypeError
        first, second = betas
    except (TypeError, ValueError) as error:
        raise type(error)(f"betas must be a pair of numbers, but is {betas!r}.") from None
    return _number("betas[0]", first), _number("betas[1]", second)


def _state_dtype(dtype: Any) -> str | None:
    """Return the name of a dtype: torch's distributed checkpoints cannot store a dtype."""
    if isinstance(dtype, str):
        dtype = getattr(torch, dtype, dtype)
    if dtype is None:
        return None
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"state_dtype must be a torch.dtype or None, but is {dtype!r}.")
    if dtype not in CODECS:
        reason = " (eps=1e-16 is zero in float16)" if dtype is torch.float16 else ""
        raise ValueError(
            f"state_dtype={dtype} is not supported{reason}; "
            "use torch.float32, torch.float64, torch.bfloat16 or None."
        )
    return str(dtype).removeprefix("torch.")


def check_together(options: dict[str, Any]) -> None:
    """Reject incompatible options."""
    if options["amsgrad"] and options["rectify"]:
        raise ValueError(
            "amsgrad=True and rectify=True cannot be combined: the rectified step does not use "
            "the maximum; set only one of them."
        )
    for flag in _CHOICES:
        if options[flag] and options["differentiable"]:
            raise RuntimeError(
                f"`{flag}` does not support `differentiable`: autograd cannot differentiate "
                f"through this backend, so {flag}=True and differentiable=True cannot be combined; "
                f"leave {flag} at None."
            )
    if options["differentiable"] and (
        options["stochastic_rounding"] or options["state_dtype"] in (torch.bfloat16, "bfloat16")
    ):
        raise ValueError(
            "differentiable=True cannot be combined with stochastic rounding "
            "(stochastic_rounding=True or state_dtype=torch.bfloat16), which has no derivative."
        )
    if options["fused"] and options["foreach"]:
        raise RuntimeError(
            "`fused` and `foreach` cannot be `True` together: fused=True and foreach=True select "
            "different backends; set at most one of them."
        )
    if options["foreach"] and not options["capturable"]:
        unlisted = {"lr": options["lr"], "betas[0]": options["betas"][0]}
        for name, value in unlisted.items():
            if isinstance(value, Tensor):
                raise ValueError(
                    f"{name} as a Tensor is not supported for capturable=False and foreach=True; "
                    "leave foreach at None or set capturable=True."
                )


def check_param(param: Tensor, group: dict[str, Any], i: int) -> None:
    """Validate a parameter of group i (not its gradient)."""
    if param.is_complex() and group["state_dtype"] == "bfloat16":
        raise ValueError(
            f"state_dtype=torch.bfloat16 cannot hold the moments of {_name(param, group, i)}, "
            f"which is {param.dtype}; give complex parameters a group with state_dtype=None."
        )
    if param.is_neg():
        _refuse_negated(_name(param, group, i))
    # Parameters on meta are moved before the first step.
    if group["fused"] and not param.is_meta and (reason := fused_unavailable(param.device)):
        raise RuntimeError(
            f"fused=True is not supported for {_name(param, group, i)}: {reason}; "
            f"leave fused at None."
        )


def check_grad(param: Tensor, group: dict[str, Any], i: int, state: dict[str, Any]) -> None:
    """Validate the gradient and the state of a parameter of group i."""
    grad = param.grad
    assert grad is not None
    if param.dtype not in _PARAM_DTYPES:
        raise TypeError(
            f"AdaMomentum cannot optimize {_name(param, group, i)}, which is {param.dtype} and "
            f"has a gradient; pass floating-point or complex parameters only."
        )
    if grad.layout is not torch.strided:
        raise RuntimeError(
            f"AdaMomentum does not support sparse gradients, but the gradient of "
            f"{_name(param, group, i)} is {grad.layout}; make it dense (Embedding(sparse=False)) "
            f"or optimize this parameter with torch.optim.SparseAdam."
        )
    if grad.shape != param.shape:
        raise ValueError(
            f"The gradient of {_name(param, group, i)} has shape {tuple(grad.shape)}, "
            f"but the parameter has {tuple(param.shape)}."
        )
    if grad.device != param.device:
        raise ValueError(
            f"The gradient of {_name(param, group, i)} is on {grad.device}, "
            f"but the parameter is on {param.device}."
        )
    # In newer versions of torch, grad_dtype requests another dtype.
    if grad.dtype != param.dtype and grad.dtype != getattr(param, "grad_dtype", None):
        raise TypeError(
            f"The gradient of {_name(param, group, i)} is {grad.dtype}, "
            f"but the parameter is {param.dtype}."
        )
    _check_state(param, group, i, state)
    if param.is_neg():
        _refuse_negated(_name(param, group, i))
    if _expanded(param):
        raise ValueError(
            f"{_name(param, group, i)} is expanded: several of its elements share memory; pass "
            f"parameter.contiguous()."
        )
    if param.is_cuda and not group["capturable"] and torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            "A CUDA graph of AdaMomentum.step would repeat the same step number forever; "
            "construct the optimizer with capturable=True."
        )


def _check_state(param: Tensor, group: dict[str, Any], i: int, state: dict[str, Any]) -> None:
    """Validate the state of a parameter: keys, dtypes, shapes, devices."""
    dtypes = _COMPLEX_MOMENTS if param.is_complex() else CODECS
    for key in (M, V, V_MAX) if group["amsgrad"] else (M, V):
        moment = state.get(key)
        if not isinstance(moment, Tensor) or moment.dtype not in dtypes:
            found = moment.dtype if isinstance(moment, Tensor) else repr(moment)
            raise TypeError(
                f"{key!r} of {_name(param, group, i)} must be a tensor of "
                f"{', '.join(map(str, dtypes))}, but is {found}."
            )
        if moment.layout is not torch.strided or _expanded(moment):
            raise ValueError(
                f"{key!r} of {_name(param, group, i)} is sparse or expanded; make it dense."
            )
        if moment.shape != param.shape or moment.device != param.device:
            raise ValueError(
                f"{key!r} of {_name(param, group, i)} is {tuple(moment.shape)} on "
                f"{moment.device}, but the parameter is now {tuple(param.shape)} on "
                f"{param.device}; construct the optimizer after moving or resizing the model."
            )
        if moment.is_neg():
            _refuse_negated(f"{key!r} of {_name(param, group, i)}")
    step = state.get("step")
    if not isinstance(step, Tensor) or step.numel() != 1:
        raise TypeError(
            f"'step' of {_name(param, group, i)} must be a 1-element tensor, but is {step!r}; "
            f"load_state_dict converts it."
        )
    if group["differentiable"] and step.requires_grad:
        raise RuntimeError(
            f"`requires_grad` is not supported for `step` in differentiable mode, but 'step' of "
            f"{_name(param, group, i)} requires grad."
        )


def _expanded(tensor: Tensor) -> bool:
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return 0 in tensor.stride() and any(n > 1 and step == 0 for n, step in sizes)


def _refuse_negated(name: str) -> None:
    raise ValueError(
        f"AdaMomentum cannot optimize {name}, a lazily negated view; pass its resolve_neg()."
    )


def refuse_fused(param: Tensor, group: dict[str, Any], i: int, state: dict[str, Any]) -> None:
    """Raise an error that says why no fused backend claims a parameter of group i."""
    check_grad(param, group, i, state)
    raise RuntimeError(
        f"fused=True is not supported for {_name(param, group, i)}, a {type(param).__name__} "
        f"of {param.dtype} on {param.device} with strides {param.stride()} and moments of "
        f"{state[M].dtype} and {state[V].dtype}: `fused=True` requires all the params to be "
        f"floating point Tensors without gaps on a device that has a kernel, and both moments "
        f"to be float32 or bfloat16 (float64 for float64 params); leave fused at None."
    )


def _name(param: Tensor, group: dict[str, Any], i: int) -> str:
    """Return the name of a parameter of group i for messages."""
    j = next(j for j, other in enumerate(group["params"]) if other is param)
    if "param_names" in group:
        return f"parameter {group['param_names'][j]!r}"
    return f"parameter {j} of group {i}"


def check_keys(state_dict: Any, function: str) -> None:
    """Raise an error if `state_dict` is not the state of an optimizer."""
    if not isinstance(state_dict, dict) or not {"state", "param_groups"} <= state_dict.keys():
        what = sorted(map(str, state_dict))[:5] if isinstance(state_dict, dict) else state_dict
        raise ValueError(
            f"{function} expects the result of optimizer.state_dict(), with the keys 'state' "
            f"and 'param_groups', but got {what!r}."
        )


def check_state_dict(
    state_dict: StateDict, groups: list[dict[str, Any]], defaults: dict[str, Any]
) -> None:
    """Reject the state of another optimizer or another model. torch checks the counts."""
    check_keys(state_dict, "load_state_dict")
    if not isinstance(state := state_dict["state"], dict):
        raise ValueError(f"'state' of this state_dict must be a dictionary, but is {state!r}.")
    ids = {i for group in state_dict["param_groups"] for i in group["params"]}
    if state and not ids & state.keys():
        raise ValueError(
            f"This state_dict is inconsistent: its groups list parameters {list(ids)[:3]}, "
            f"but its state belongs to {list(state)[:3]}."
        )
    for i, param, _ in pairs(state_dict, groups):
        if not (saved := state.get(i)):
            continue
        if not isinstance(saved, dict):
            raise ValueError(f"The state of parameter {i} must be a dictionary, but is {saved!r}.")
        if "exp_avg_sq" in saved:
            raise ValueError(
                "This state_dict was saved by Adam or a similar optimizer (it holds 'exp_avg_sq'). "
                "Its second moment is not AdaMomentum's. Load it into torch.optim.Adam or AdamW "
                "first, then convert that optimizer with AdaMomentum.from_adam(optimizer)."
            )
        if "exp_avg_var" in saved:
            raise ValueError(
                "This state_dict was saved by AdaM3 or by AdaBelief, which use the same keys "
                "('exp_avg_var'). If it is AdaM3's, load "
                "adamomentum.torch.state_dict_from_adam3(state_dict). AdaBelief's second moment "
                "is not AdaMomentum's and cannot be loaded."
            )
        if missing := {"step", M, V} - saved.keys():
            raise ValueError(
                f"This state_dict was not saved by AdaMomentum: parameter {i} has "
                f"{sorted(saved)}, but not {sorted(missing)}."
            )
        step = saved["step"]
        if not (isinstance(step, Real) or (isinstance(step, Tensor) and step.numel() == 1)):
            raise ValueError(f"'step' of parameter {i} must be one number, but is {step!r}.")
        if not 0 <= float(step) < math.inf:
            raise ValueError(
                f"'step' of parameter {i} must be finite and at least 0, but is {float(step)}."
            )
        for key in {M, V, V_MAX} & saved.keys():
            kind = "complex" if param.is_complex() else "floating-point"
            moment = saved[key]
            if (
                not isinstance(moment, Tensor)
                or moment.layout is not torch.strided
                or moment.dtype not in _PARAM_DTYPES
                or moment.is_complex() != param.is_complex()
            ):
                raise ValueError(
                    f"{key!r} of parameter {i} must be a {kind} tensor, dense and not of 8 bits."
                )
            if moment.shape != param.shape:
                raise ValueError(
                    f"This state_dict belongs to another model: {key!r} of parameter {i} has "
                    f"shape {tuple(moment.shape)}, but the parameter has {tuple(param.shape)}."
                )
    for group in state_dict["param_groups"]:
        check_options({**defaults, **group})


def pairs(
    state_dict: StateDict, groups: list[dict[str, Any]]
) -> Iterator[tuple[int, Tensor, dict[str, Any]]]:
    """Yield each saved parameter id with the parameter and its group."""
    for saved, group in zip(state_dict["param_groups"], groups, strict=False):
        for i, param in zip(saved["params"], group["params"], strict=False):
            yield i, param, group
