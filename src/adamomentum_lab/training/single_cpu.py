"""A stand-in for Lightning Fabric on one CPU.

It has the part of Fabric that the loops use. Importing Fabric takes longer than many runs.
"""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import nn
from torch.optim import Optimizer

T = TypeVar("T")


class SingleCpu:
    """One process on the CPU in float32. Nothing is wrapped or moved."""

    device = torch.device("cpu")
    world_size = 1
    global_rank = 0
    is_global_zero = True

    def backward(self, loss: torch.Tensor) -> None:
        """Compute the gradients of a loss."""
        torch.autograd.backward(loss)

    def clip_gradients(
        self, module: nn.Module, optimizer: Optimizer, max_norm: float, error_if_nonfinite: bool
    ) -> None:
        """Scale all gradients together to a norm of at most `max_norm`."""
        del optimizer
        nn.utils.clip_grad_norm_(
            module.parameters(), max_norm, error_if_nonfinite=error_if_nonfinite
        )

    def to_device(self, value: T) -> T:
        """Return the value: it is on this device already."""
        return value

    setup_module = setup_optimizers = all_reduce = broadcast = to_device

    def barrier(self) -> None:
        """Return at once: there is no other process."""
