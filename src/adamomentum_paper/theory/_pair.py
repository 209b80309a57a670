"""Adam and AdaMomentum on the same gradients, to compare what they divide by."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from adamomentum_lab import contenders


class TwoOptimizers:
    """Feeds Adam and AdaMomentum with the same gradients. Only Adam moves the parameter."""

    def __init__(self, param: nn.Parameter, lr: float, betas: tuple[float, float]) -> None:
        self._moved, self._shadow = param, nn.Parameter(param.detach().clone())
        same: dict[str, Any] = {"lr": lr, "betas": betas}
        # This eps only prevents 0/0 for weights without gradients.
        self._adam: Optimizer = contenders.get("adam").build([self._moved], eps=1e-30, **same)
        self._ours = contenders.get("adamomentum").build([self._shadow], eps=0.0, **same)

    def step(self, gradient: Tensor) -> None:
        """Take one step with both."""
        self._moved.grad = self._shadow.grad = gradient
        self._adam.step()
        self._ours.step()

    def squares(self) -> tuple[Tensor, Tensor]:
        """Return the second moments of Adam and of AdaMomentum, before bias correction."""
        theirs: Tensor = self._adam.state[self._moved]["exp_avg_sq"]
        ours: Tensor = self._ours.state[self._shadow]["exp_avg_momentum_sq"]
        return theirs, ours
