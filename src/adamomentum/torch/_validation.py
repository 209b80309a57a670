"""What is refused, and in which words; they begin as torch.optim's do where it has some."""

from __future__ import annotations

import math
from collections.abc import Iterator
from numbers import Real
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import StateDict

from adamomentum.torch._backends import fused_unavailable
from adamomentum.torch._state import CODECS, HALF, V_MAX, M, V, state_dtype

_PARAM_DTYPES = (
    torch.float32,
    torch.float64,
    *HALF,
    torch.complex32,
    torch.complex64,
    torch.complex128,
)
_FLAGS = (
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
    """Refuse what cannot be meant, and make numbers plain floats.

    A checkpoint that holds a NumPy scalar would not load under weights_only=True.
    """
    at_least_0 = "must be finite and at least 0"
    lr = _number("lr", options["lr"], tensor=True)
    if not 0 <= _value(lr) < math.inf:
        raise ValueError(f"Invalid learning rate: {options['lr']} (lr {at_least_0}).")
    eps = _number("eps", options["eps"])
    if not 0 <= eps < math.inf:
        raise ValueError(f"Invalid epsilon value: {options['eps']} (eps {at_least_0}).")
    decay = _number("weight_decay", options["weight_decay"])
    if not 0 <= decay < math.inf:
        raise ValueError(
            f"Invalid weight_decay value: {options['weight_decay']} (it {at_least_0})."
        )
    betas = _betas(options["betas"])
    for name in _FLAGS:
        if not isinstance(options[name], bool):
            raise TypeError(f"{name} must be True or False, but is {options[name]!r}.")
    for name in ("foreach", "fused"):
        if not (options[name] is None or isinstance(options[name], bool)):
            raise TypeError(f"{name} must be True, False or None, but is {options[name]!r}.")
    dtype = _state_dtype(options["state_dtype"])
    check_together(options)
    options.update(lr=lr, eps=eps, weight_decay=decay, betas=betas, state_dtype=dtype)


def check_running(group: dict[str, Any]) -> None:
    """Refuse what schedulers and users may have put into a group since it was checked.

    The values of tensors are not read, since that would wait for a GPU.
    """
    lr = _number("lr", group["lr"], tensor=True)
    if not isinstance(lr, Tensor) and math.isnan(lr):
        raise ValueError(f"Invalid learning rate: {lr} (lr must be a number).")
    betas = group["betas"]
    if not (isinstance(betas, tuple) and any(isinstance(beta, Tensor) for beta in betas)):
        _betas(betas)
    check_together(group)


def _number(name: str, value: Any, tensor: bool = False) -> Any:
    if tensor and isinstance(value, Tensor):
        if value.numel() != 1:
            raise ValueError(
                f"Tensor {name} must be 1-element, but has shape {tuple(value.shape)}."
            )
        return value
    if not isinstance(value, Real) or isinstance(value, bool):
        kind = "a number or a 1-element tensor" if tensor else "a number"
        raise TypeError(f"{name} must be {kind}, but is {value!r}.")
    return float(value)


def _value(number: float | Tensor) -> float:
    return float(number.detach() if isinstance(number, Tensor) else number)


def _betas(betas: Any) -> tuple[Any, Any]:
    if not isinstance(betas, (tuple, list)):
        raise TypeError(f"betas must be a pair of numbers, but is {betas!r}.")
    if len(betas) != 2:
        raise ValueError(f"betas must be a pair of numbers, but is {betas!r}.")
    first, second = (_number(f"betas[{i}]", beta, tensor=True) for i, beta in enumerate(betas))
    for i, beta in enumerate((first, second)):
        if not 0 <= _value(beta) < 1:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta} (betas lie in [0, 1)).")
    if isinstance(first, Tensor) != isinstance(second, Tensor):
        raise ValueError(f"betas must be either both floats or both Tensors, but are {betas!r}.")
    return first, second


def _state_dtype(dtype: Any) -> str | None:
    """The dtype's name, since torch's distributed checkpoints take no dtype in a group."""
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
    """Options that are fine alone and not in company."""
    if options["amsgrad"] and options["rectify"]:
        raise ValueError(
            "amsgrad=True and rectify=True contradict each other: the rectified step has no place "
            "for the maximum; use one of the two."
        )
    for flag in ("foreach", "fused"):
        if options[flag] and options["differentiable"]:
            raise ValueError(
                f"{flag}=True and differentiable=True contradict each other: autograd does not "
                f"run through that backend; leave {flag} at None."
            )
    if options["differentiable"] and (
        options["stochastic_rounding"] or options["state_dtype"] in (torch.bfloat16, "bfloat16")
    ):
        raise ValueError(
            "differentiable=True contradicts stochastic rounding (stochastic_rounding=True or "
            "state_dtype=torch.bfloat16), which has no derivative."
        )
    if options["fused"] and options["foreach"]:
        raise ValueError("fused=True and foreach=True contradict each other; set at most one.")
    if options["foreach"] and not options["capturable"]:
        unlisted = {"lr": options["lr"], "betas[0]": options["betas"][0]}
        for name, value in unlisted.items():
            if isinstance(value, Tensor):
                raise ValueError(
                    f"{name} as a Tensor is not supported for capturable=False and foreach=True; "
                    "leave foreach at None or set capturable=True."
                )


def check_param(param: Tensor, group: dict[str, Any], i: int) -> None:
    """Refuse a parameter that group i cannot optimize."""
    if param.dtype not in _PARAM_DTYPES:
        raise TypeError(
            f"AdaMomentum cannot optimize {_name(param, group, i)}, which is {param.dtype}; pass "
            f"floating-point or complex parameters only, and leave frozen quantized ones out."
        )
    if param.is_complex() and group["state_dtype"] == "bfloat16":
        raise ValueError(
            f"state_dtype=torch.bfloat16 cannot hold the moments of {_name(param, group, i)}, "
            f"which is {param.dtype}; give complex parameters a group with state_dtype=None."
        )
    if param.is_neg():
        raise ValueError(
            f"AdaMomentum cannot optimize {_name(param, group, i)}, a lazily negated view; "
            f"pass parameter.resolve_neg()."
        )
    if group["fused"] and (reason := fused_unavailable(param.device)):
        raise ValueError(
            f"fused=True cannot be honoured for {_name(param, group, i)}: {reason}; "
            f"leave it at None."
        )


def check_grad(param: Tensor, group: dict[str, Any], i: int, state: dict[str, Any] | None) -> None:
    """Refuse a gradient that no backend can take."""
    grad = param.grad
    assert grad is not None
    if grad.layout is not torch.strided:
        raise RuntimeError(
            f"AdaMomentum does not support sparse gradients, but that of "
            f"{_name(param, group, i)} is {grad.layout}; make it dense (Embedding has "
            f"sparse=False) or give that parameter to torch.optim.SparseAdam."
        )
    if grad.shape != param.shape:
        raise ValueError(
            f"The gradient of {_name(param, group, i)} has shape {tuple(grad.shape)}, "
            f"but the parameter has {tuple(param.shape)}."
        )
    if grad.device != param.device:
        raise ValueError(
            f"The gradient of {_name(param, group, i)} is on {grad.device}, "
            f"but the parameter on {param.device}."
        )
    # grad_dtype is the newer torch's own way to ask for another dtype.
    if grad.dtype != param.dtype and grad.dtype != getattr(param, "grad_dtype", None):
        raise TypeError(
            f"The gradient of {_name(param, group, i)} is {grad.dtype}, "
            f"but the parameter {param.dtype}."
        )
    for key in (M, V, V_MAX):
        moment = (state or {}).get(key, grad)
        if (moment.shape, moment.device) != (param.shape, param.device):
            raise ValueError(
                f"{key!r} of {_name(param, group, i)} is {tuple(moment.shape)} on "
                f"{moment.device}, but the parameter has become {tuple(param.shape)} on "
                f"{param.device}; construct the optimizer after moving or resizing a model."
            )
    if any(n > 1 and step == 0 for n, step in zip(param.shape, param.stride(), strict=True)):
        raise ValueError(
            f"{_name(param, group, i)} is expanded: several of its elements share one place in "
            f"memory; pass parameter.contiguous()."
        )
    if param.is_cuda and not group["capturable"] and torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            "A CUDA graph of AdaMomentum.step would repeat one step number for ever; "
            "construct the optimizer with capturable=True."
        )


def refuse_fused(param: Tensor, group: dict[str, Any], i: int) -> None:
    """Say that no fused backend claims a parameter of group i, which has fused=True."""
    raise ValueError(
        f"fused=True cannot be honoured for {_name(param, group, i)}, a {type(param).__name__} "
        f"of {param.dtype} with strides {param.stride()} and moments of "
        f"{state_dtype(param, group)}: the kernel takes plain tensors without gaps, and "
        f"float32 or bfloat16 moments (float64 for float64); leave it at None."
    )


def _name(param: Tensor, group: dict[str, Any], i: int) -> str:
    """How to call a parameter of group i in a message."""
    j = next(j for j, other in enumerate(group["params"]) if other is param)
    if "param_names" in group:
        return f"parameter {group['param_names'][j]!r}"
    return f"parameter {j} of group {i}"


def check_keys(state_dict: Any, function: str) -> None:
    """Refuse what is no optimizer's state_dict at all."""
    if not isinstance(state_dict, dict) or not {"state", "param_groups"} <= state_dict.keys():
        what = sorted(map(str, state_dict))[:5] if isinstance(state_dict, dict) else state_dict
        raise ValueError(
            f"{function} takes what optimizer.state_dict() returned, with the keys 'state' "
            f"and 'param_groups', but was given {what!r}."
        )


def check_state_dict(
    state_dict: StateDict, groups: list[dict[str, Any]], defaults: dict[str, Any]
) -> None:
    """Refuse the state of another optimizer or of another model; torch checks the counts."""
    check_keys(state_dict, "load_state_dict")
    ids = {i for group in state_dict["param_groups"] for i in group["params"]}
    if state_dict["state"] and not ids & state_dict["state"].keys():
        raise ValueError(
            f"This state_dict is inconsistent: its groups list parameters {list(ids)[:3]}, "
            f"but its state belongs to {list(state_dict['state'])[:3]}."
        )
    for i, param, _ in pairs(state_dict, groups):
        saved = state_dict["state"].get(i)
        if not saved:
            continue
        if "exp_avg_sq" in saved:
            raise ValueError(
                "This state_dict was saved by Adam or a relative (it holds 'exp_avg_sq'), whose "
                "second moment is not AdaMomentum's; load one of Adam or AdamW into its own class "
                "and take that over with AdaMomentum.from_adam(optimizer)."
            )
        if "exp_avg_var" in saved:
            raise ValueError(
                "This state_dict was saved by AdaM3 or by AdaBelief, which share their keys ("
                "'exp_avg_var'); if it is AdaM3's, load "
                "adamomentum.torch.state_dict_from_adam3(state_dict); AdaBelief's second moment is "
                "not AdaMomentum's."
            )
        if missing := {"step", M, V} - saved.keys():
            raise ValueError(
                f"This state_dict was not saved by AdaMomentum: parameter {i} has "
                f"{sorted(saved)}, but lacks {sorted(missing)}."
            )
        step = saved["step"]
        if not (isinstance(step, Real) or (isinstance(step, Tensor) and step.numel() == 1)):
            raise ValueError(f"'step' of parameter {i} must be one number, but is {step!r}.")
        for key in {M, V, V_MAX} & saved.keys():
            kind = "complex" if param.is_complex() else "floating-point"
            moment = saved[key]
            if not isinstance(moment, Tensor) or moment.is_complex() != param.is_complex():
                raise ValueError(f"{key!r} of parameter {i} must be a {kind} tensor.")
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
    """Saved ids with the parameters, and their groups, that they stand for."""
    for saved, group in zip(state_dict["param_groups"], groups, strict=False):
        for i, param in zip(saved["params"], group["params"], strict=False):
            yield i, param, group
