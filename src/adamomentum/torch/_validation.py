"""What is refused, and in which words; they begin as torch.optim's do where it has some."""

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
# As torch.optim calls them.
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
    """Refuse what cannot be meant, and give options their plain form.

    A checkpoint that holds a NumPy scalar would not load under weights_only=True.
    """
    plain = _plain(options)
    for name, words in _NUMBERS.items():
        if not 0 <= _value(plain[name]) < math.inf:
            raise ValueError(
                f"Invalid {words}: {options[name]} ({name} must be finite and at least 0)."
            )
    for i, beta in enumerate(plain["betas"]):
        if not 0 <= _value(beta) < 1:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta} (betas lie in [0, 1)).")
    first, second = plain["betas"]
    if isinstance(first, Tensor) != isinstance(second, Tensor):
        raise ValueError(
            f"betas must be either both floats or both Tensors, but are {options['betas']!r}."
        )
    check_together({**options, **plain})
    options.update(plain)


def check_running(group: dict[str, Any]) -> None:
    """Refuse what schedulers and users may have put into a group and no step can be taken with.

    Other values are theirs to choose, and those of tensors are not read, since that would wait
    for a GPU.
    """
    plain = _plain(group)
    for name, words in _NUMBERS.items():
        if plain[name] != plain[name] and not isinstance(plain[name], Tensor):
            raise ValueError(f"Invalid {words}: nan ({name} must be a number).")
    for i, beta in enumerate(plain["betas"]):
        if not (isinstance(beta, Tensor) or beta < 1):
            raise ValueError(f"Invalid beta parameter at index {i}: {beta} (betas lie in [0, 1)).")
    check_together(group)


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    """Numbers as floats or 1-element tensors, flags as bool, dtypes by name."""
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
    if not isinstance(betas, (tuple, list)):
        raise TypeError(f"betas must be a pair of numbers, but is {betas!r}.")
    if len(betas) != 2:
        raise ValueError(f"betas must be a pair of numbers, but is {betas!r}.")
    return _number("betas[0]", betas[0]), _number("betas[1]", betas[1])


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
    for flag in _CHOICES:
        if options[flag] and options["differentiable"]:
            raise RuntimeError(
                f"`{flag}` does not support `differentiable`: autograd does not run through that "
                f"backend, so that {flag}=True and differentiable=True contradict each other; "
                f"leave {flag} at None."
            )
    if options["differentiable"] and (
        options["stochastic_rounding"] or options["state_dtype"] in (torch.bfloat16, "bfloat16")
    ):
        raise ValueError(
            "differentiable=True contradicts stochastic rounding (stochastic_rounding=True or "
            "state_dtype=torch.bfloat16), which has no derivative."
        )
    if options["fused"] and options["foreach"]:
        raise RuntimeError(
            "`fused` and `foreach` cannot be `True` together: fused=True and foreach=True ask for "
            "different backends; set at most one."
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
    """Refuse a parameter that group i cannot optimize, whatever its gradient."""
    if param.is_complex() and group["state_dtype"] == "bfloat16":
        raise ValueError(
            f"state_dtype=torch.bfloat16 cannot hold the moments of {_name(param, group, i)}, "
            f"which is {param.dtype}; give complex parameters a group with state_dtype=None."
        )
    if param.is_neg():
        _refuse_negated(_name(param, group, i))
    # Parameters on meta are to be moved before the first step.
    if group["fused"] and not param.is_meta and (reason := fused_unavailable(param.device)):
        raise RuntimeError(
            f"fused=True cannot be honoured for {_name(param, group, i)}: {reason}; "
            f"leave it at None."
        )


def check_grad(param: Tensor, group: dict[str, Any], i: int, state: dict[str, Any]) -> None:
    """Refuse a gradient or a state that no backend can take."""
    grad = param.grad
    assert grad is not None
    if param.dtype not in _PARAM_DTYPES:
        raise TypeError(
            f"AdaMomentum cannot optimize {_name(param, group, i)}, which is {param.dtype} and "
            f"has a gradient; pass floating-point or complex parameters only."
        )
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
    _check_state(param, group, i, state)
    if param.is_neg():
        _refuse_negated(_name(param, group, i))
    strides = param.stride()
    if 0 in strides and any(
        n > 1 and step == 0 for n, step in zip(param.shape, strides, strict=True)
    ):
        raise ValueError(
            f"{_name(param, group, i)} is expanded: several of its elements share one place in "
            f"memory; pass parameter.contiguous()."
        )
    if param.is_cuda and not group["capturable"] and torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            "A CUDA graph of AdaMomentum.step would repeat one step number for ever; "
            "construct the optimizer with capturable=True."
        )


def _check_state(param: Tensor, group: dict[str, Any], i: int, state: dict[str, Any]) -> None:
    """Refuse a state that does not belong to the parameter."""
    dtypes = _COMPLEX_MOMENTS if param.is_complex() else CODECS
    for key in (M, V, V_MAX) if group["amsgrad"] else (M, V):
        moment = state.get(key)
        if not isinstance(moment, Tensor) or moment.dtype not in dtypes:
            found = moment.dtype if isinstance(moment, Tensor) else repr(moment)
            raise TypeError(
                f"{key!r} of {_name(param, group, i)} must be a tensor of "
                f"{', '.join(map(str, dtypes))}, but is {found}."
            )
        if moment.shape != param.shape or moment.device != param.device:
            raise ValueError(
                f"{key!r} of {_name(param, group, i)} is {tuple(moment.shape)} on "
                f"{moment.device}, but the parameter has become {tuple(param.shape)} on "
                f"{param.device}; construct the optimizer after moving or resizing a model."
            )
        if moment.is_neg():
            _refuse_negated(f"{key!r} of {_name(param, group, i)}")
    step = state.get("step")
    if not isinstance(step, Tensor) or step.numel() != 1:
        raise TypeError(
            f"'step' of {_name(param, group, i)} must be a 1-element tensor, but is {step!r}; "
            f"load_state_dict makes it one."
        )
    if group["differentiable"] and step.requires_grad:
        raise RuntimeError(
            f"`requires_grad` is not supported for `step` in differentiable mode, but that of "
            f"{_name(param, group, i)} has it."
        )


def _refuse_negated(name: str) -> None:
    raise ValueError(
        f"AdaMomentum cannot optimize {name}, a lazily negated view; use its resolve_neg()."
    )


def refuse_fused(param: Tensor, group: dict[str, Any], i: int, state: dict[str, Any]) -> None:
    """Say why no fused backend claims a parameter of group i, which has fused=True."""
    check_grad(param, group, i, state)
    raise RuntimeError(
        f"fused=True cannot be honoured for {_name(param, group, i)}, a {type(param).__name__} "
        f"of {param.dtype} on {param.device} with strides {param.stride()} and moments of "
        f"{state[M].dtype} and {state[V].dtype}: `fused=True` requires all the params to be "
        f"floating point Tensors without gaps on a device that has a kernel, and both moments "
        f"float32 or bfloat16 (float64 for float64); leave it at None."
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
        if not 0 <= float(step) < math.inf:
            raise ValueError(
                f"'step' of parameter {i} must be finite and at least 0, but is {float(step)}."
            )
        for key in {M, V, V_MAX} & saved.keys():
            kind = "complex" if param.is_complex() else "floating-point"
            moment = saved[key]
            if not isinstance(moment, Tensor) or not (
                moment.is_complex() if param.is_complex() else moment.is_floating_point()
            ):
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
