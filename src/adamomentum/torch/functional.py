"""The step as a function of lists of tensors, in the manner of torch.optim.adam.adam."""

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
    """Take one step of AdaMomentum with tensors that the caller holds.

    The lists are as long as each other. All tensors but the gradients are updated in place, and
    steps are counted up. Options mean what they mean to `AdaMomentum`.

    Args:
        params: the parameters.
        grads: their gradients.
        exp_avgs: the averages of the gradients; zeros at first.
        exp_avg_momentum_sqs: the averages of the squared momenta; zeros at first.
        max_exp_avg_momentum_sqs: the largest of these so far, with `amsgrad`; else it is not read.
        state_steps: the numbers of steps taken, as 1-element tensors.
        grad_scale: what the gradients are to be divided by.
        found_inf: if it is not 0, nothing is done.

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
        raise RuntimeError("`state_steps` must contain 1-element tensors, but has a number.")
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
                f"fused=True cannot be honoured for a {type(slots[0].param).__name__} of "
                f"{slots[0].param.dtype} on {slots[0].param.device}; leave it at None."
            )
        for backend, work in claims:
            backend.run(work, scalars)
