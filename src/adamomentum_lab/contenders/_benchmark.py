"""The forms of AdaMomentum that `adamomentum bench` measures: its options, and a plain loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.optim import Optimizer

from adamomentum.torch import AdaMomentum

Build = Callable[[list[torch.nn.Parameter]], Optimizer]
SUBJECT, PLAIN = "AdaMomentum", "  plain loop"


class PlainLoop(Optimizer):
    """AdaMomentum as papers publish it: a Python loop with a dozen tensor operations."""

    def __init__(self, params: Iterable[torch.nn.Parameter]) -> None:
        super().__init__(params, {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-16})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Update the parameters once."""
        loss = closure() if closure else None
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state.update(step=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["step"] += 1
                m, v = state["m"], state["v"]
                m.mul_(beta1).add_(p.grad, alpha=1 - beta1)
                v.mul_(beta2).addcmul_(m, m, value=1 - beta2).add_(group["eps"])
                m_hat = m / (1 - beta1 ** state["step"])
                v_hat = v / (1 - beta2 ** state["step"])
                p.add_(m_hat / v_hat.sqrt(), alpha=-group["lr"])
        return loss


SUBJECTS: Mapping[str, Build] = {
    SUBJECT: lambda p: AdaMomentum(p),
    "  weight decay": lambda p: AdaMomentum(p, weight_decay=1e-2),
    "  bfloat16 moments": lambda p: AdaMomentum(p, state_dtype=torch.bfloat16),
    "  amsgrad": lambda p: AdaMomentum(p, amsgrad=True),
    "  foreach": lambda p: AdaMomentum(p, foreach=True),
    "  single": lambda p: AdaMomentum(p, foreach=False),
    PLAIN: lambda p: PlainLoop(p),
}
"""How to build each row of the table. Indented names are variants of the row above."""
