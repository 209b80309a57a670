"""The step of the Keras optimizer on torch. It uses the backends of the torch optimizer."""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
from torch import Tensor

from adamomentum.torch._backends import update_slots
from adamomentum.torch._state import Group, Slot

Row: TypeAlias = tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]


def update(rows: list[Row], t: Tensor, lr: Any, options: Group) -> None:
    """Take step t + 1 with rows of (param, grad, m, v, v_max or None), in place."""
    capturable = t.device.type != "cpu"  # where reading a number would wait for the device
    group = {
        **options,
        "lr": torch.as_tensor(lr, device=t.device) if capturable else float(lr),
        "decoupled_weight_decay": True,
        "maximize": False,
        "foreach": None,
        "fused": None,
        "differentiable": False,
        "capturable": capturable,
        "stochastic_rounding": False,
    }
    # Each slot needs its own step number, because a step increments it.
    ts = t.to(torch.float32).expand(len(rows)).clone().unbind()
    update_slots([Slot(*row, at) for row, at in zip(rows, ts, strict=True)], group)
