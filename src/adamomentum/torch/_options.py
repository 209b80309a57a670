"""Which options of a parameter group are refused; the sentences begin as torch.optim's do."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import torch
from torch import Tensor

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
    _check_state_dtype(options["state_dtype"])
    _check_together(options)
    options.update(lr=lr, eps=eps, weight_decay=decay, betas=betas)


def _number(name: str, value: Any, tensor: bool = False) -> Any:
    if tensor and isinstance(value, Tensor):
        if value.numel() != 1:
            raise ValueError(
                f"Tensor {name} must be 1-element, but has shape {tuple(value.shape)}."
            )
        return value
    if not isinstance(value, Real):
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


def _check_state_dtype(dtype: Any) -> None:
    if dtype is None or dtype in (torch.float32, torch.float64, torch.bfloat16):
        return
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"state_dtype must be a torch.dtype or None, but is {dtype!r}.")
    reason = " (eps=1e-16 is zero in float16)" if dtype is torch.float16 else ""
    raise ValueError(
        f"state_dtype={dtype} is not supported{reason}; "
        "use torch.float32, torch.float64, torch.bfloat16 or None."
    )


def _check_together(options: dict[str, Any]) -> None:
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
        options["stochastic_rounding"] or options["state_dtype"] is torch.bfloat16
    ):
        raise ValueError(
            "differentiable=True contradicts stochastic rounding (stochastic_rounding=True or "
            "state_dtype=torch.bfloat16), which has no derivative."
        )
    if options["fused"] and options["foreach"]:
        raise ValueError("fused=True and foreach=True contradict each other; set at most one.")
    if options["fused"]:
        raise ValueError("fused=True cannot be honoured: there is no fused backend yet; use None.")
    if options["foreach"] and not options["capturable"]:
        unlisted = {"lr": options["lr"], "betas[0]": options["betas"][0]}
        for name, value in unlisted.items():
            if isinstance(value, Tensor):
                raise ValueError(
                    f"{name} as a Tensor is not supported for capturable=False and foreach=True; "
                    "leave foreach at None or set capturable=True."
                )
