"""Schedule-Free AdamW: evaluates an average of the weights in place of a schedule of the lr."""

from __future__ import annotations

from typing import Any

from schedulefree import AdamWScheduleFree
from torch.optim.optimizer import ParamsT

from adamomentum_lab.contender import ADAM, Contender


class ScheduleFree(AdamWScheduleFree):  # type: ignore[misc]
    """The authors' class. It leaves gradients as they are, and begins in the mode for training."""

    SETTINGS = {**ADAM, "lr": 2.5e-3, "warmup_steps": 0}

    def __init__(self, params: ParamsT, **settings: Any) -> None:
        super().__init__(params, **{**self.SETTINGS, **settings})
        self.train()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group in the mode of the others."""
        super().add_param_group(param_group)
        self.param_groups[-1]["train_mode"] = self.param_groups[0]["train_mode"]

    def step(self, closure: Any = None) -> Any:
        """As theirs, which writes into the gradients."""
        params = [p for group in self.param_groups for p in group["params"] if p.grad is not None]
        if closure is not None:
            import torch

            with torch.enable_grad():
                loss = closure()
            self.step()
            return loss
        grads = [param.grad for param in params]
        for param, grad in zip(params, grads, strict=True):
            param.grad = grad.clone()
        super().step()
        for param, grad in zip(params, grads, strict=True):
            param.grad = grad
        return None


CONTENDER = Contender(
    ScheduleFree,
    family="Adam",
    year=2024,
    decay="decoupled",
    needs=frozenset({"modes", "constant lr"}),
    source="Defazio et al. 2024 (arXiv 2405.15682), the authors' package schedulefree and its lr",
    summary="AdamW that averages weights and needs no schedule",
)
