"""The step as a function of lists of tensors, like torch.optim.adam.adam."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from adamomentum.torch._backends import BACKENDS, Backend
from adamomentum.torch._scalars import Table
from adamomentum.torch._state import Slot
from adamomentum.torch._validation import check_running


def adamomentum(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_momentum_sqs: Sequence[Tensor],
    max_exp_avg_momentum_sqs: Sequence[Tensor],
    state_steps: Sequence[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    decoupled_weight_decay: bool = True,
    nesterov: bool = False,
    rectify: bool = False,
    debias_momentum: bool = False,
    stochastic_rounding: bool = False,
    *,
    amsgrad: bool,
    beta1: float | Tensor,
    beta2: float | Tensor,
    lr: float | Tensor,
    weight_decay: float | Tensor,
    eps: float | Tensor,
    maximize: bool,
) -> None:
    """Take one step of AdaMomentum with tensors that the caller owns.

    All lists have the same length. All tensors except the gradients are updated in place, and each
    step number grows by 1. The other options are those of `AdaMomentum`.

    Args:
        params: the parameters.
        grads: their gradients.
        exp_avgs: the averages of the gradients; zeros before the first step.
        exp_avg_momentum_sqs: the averages of the squared momenta; zeros before the first step.
        max_exp_avg_momentum_sqs: the largest of these averages so far. Ignored without `amsgrad`.
        state_steps: the numbers of steps taken so far, as 1-element tensors.
        grad_scale: divide the gradients by this number.
        found_inf: if nonzero, skip the step.

    Examples:
        >>> param, grad, m, v = torch.ones(2), torch.ones(2), torch.zeros(2), torch.zeros(2)
        >>> adamomentum(
        ...     [param], [grad], [m], [v], [], [torch.tensor(0.0)], amsgrad=False, beta1=0.9,
        ...     beta2=0.999, lr=1e-3, weight_decay=0.0, eps=1e-16, maximize=False,
        ... )
        >>> param
        tensor([0.9900, 0.9900])
    """
    if not all(isinstance(t, Tensor) for t in state_steps):
        raise RuntimeError("`state_steps` must contain 1-element tensors, not numbers.")
    group = {
        "lr": lr,
        "betas": (beta1, beta2),
        "eps": eps,
        "weight_decay": weight_decay,
        "amsgrad": amsgrad,
        "decoupled_weight_decay": decoupled_weight_decay,
        "nesterov": nesterov,
        "rectify": rectify,
        "debias_momentum": debias_momentum,
        "maximize": maximize,
        "foreach": foreach,
        "fused": fused,
        "capturable": capturable,
        "differentiable": differentiable,
        "state_dtype": None,
        "stochastic_rounding": stochastic_rounding,
    }
    check_running(group)
    v_maxs = max_exp_avg_momentum_sqs if amsgrad else [None] * len(params)
    columns = (params, grads, exp_avgs, exp_avg_momentum_sqs, v_maxs, state_steps)
    slots = [Slot(*row).as_real() for row in zip(*columns, strict=True)]
    if found_inf is not None and bool(found_inf):
        return
    scalars = Table(group, grad_scale)
    claims: list[tuple[Backend, Any]] = []
    with torch.set_grad_enabled(differentiable):
        for backend in BACKENDS:
            if slots and backend.wants(group):
                work, slots = backend.claim_slots(slots, group)
                if work is not None:
                    claims.append((backend, work))
        if slots:
            raise RuntimeError(
                f"fused=True is not supported for a {type(slots[0].param).__name__} of "
                f"{slots[0].param.dtype} on {slots[0].param.device}; leave fused at None."
            )
        for backend, work in claims:
            backend.run(work, scalars)
