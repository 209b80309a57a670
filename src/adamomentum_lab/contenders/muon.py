"""Muon: momentum whose matrices are made orthogonal, for the hidden matrices of a network."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim._muon import DEFAULT_A, DEFAULT_B, DEFAULT_C, DEFAULT_NS_STEPS, muon
from torch.optim.adamw import adamw
from torch.optim.optimizer import Optimizer, ParamsT

from adamomentum_lab.contender import ADAM, Contender, Group


class Muon(Optimizer):
    """torch's Muon for matrices, and torch's AdamW for all else.

    The filters of a convolution are the rows of a matrix. A group with `matrices` False has none.
    Steps are 0.2 sqrt(larger side) lr long, so that both parts have the lr of AdamW (Liu et al.
    2025, arXiv 2502.16982).
    """

    SETTINGS = {**ADAM, "betas": (0.9, 0.95), "momentum": 0.95}

    def __init__(self, params: ParamsT, **settings: Any) -> None:
        super().__init__(params, {**self.SETTINGS, "matrices": True, **settings})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Update every parameter that has a gradient; `closure` reevaluates the loss before."""
        with torch.enable_grad():
            loss = None if closure is None else closure()
        for group in self.param_groups:
            params = [param for param in group["params"] if param.grad is not None]
            matrices = [param for param in params if group["matrices"] and param.ndim > 1]
            self._step_muon(matrices, group)
            self._step_adamw([p for p in params if not group["matrices"] or p.ndim < 2], group)
        return loss

    def _step_muon(self, params: list[Tensor], group: Group) -> None:
        for param in params:
            if not param.numel():
                continue
            state = self.state[param]
            if not state:
                state["momentum_buffer"] = torch.zeros_like(param)
            assert param.grad is not None
            whole, buffer = param.flatten(1), state["momentum_buffer"].flatten(1)
            muon(
                [whole],
                [param.grad.flatten(1)],
                [buffer],
                lr=group["lr"],
                weight_decay=group["weight_decay"],
                momentum=group["momentum"],
                nesterov=True,
                ns_coefficients=(DEFAULT_A, DEFAULT_B, DEFAULT_C),
                ns_steps=DEFAULT_NS_STEPS,
                eps=1e-7,
                adjust_lr_fn="match_rms_adamw",
                has_complex=False,
            )
            param.copy_(whole.view(param.shape))  # copies, where strides do not allow a view
            state["momentum_buffer"].copy_(buffer.view(param.shape))

    def _step_adamw(self, params: list[Tensor], group: Group) -> None:
        for param in params:
            state = self.state[param]
            if not state:
                state["step"] = torch.tensor(0.0)
                state["exp_avg"] = torch.zeros_like(param)
                state["exp_avg_sq"] = torch.zeros_like(param)
        b1, b2 = group["betas"]
        adamw(
            params,
            [param.grad for param in params if param.grad is not None],
            [self.state[param]["exp_avg"] for param in params],
            [self.state[param]["exp_avg_sq"] for param in params],
            [],
            [self.state[param]["step"] for param in params],
            has_complex=any(map(torch.is_complex, params)),
            amsgrad=False,
            beta1=b1,
            beta2=b2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=False,
        )


def groups(model: nn.Module) -> list[Group]:
    """Hidden matrices, and the rest: embeddings, the matrix of the last layer, and vectors."""
    embedded = {
        part.weight for part in model.modules() if isinstance(part, (nn.Embedding, nn.EmbeddingBag))
    }
    params = list(model.parameters())
    matrices = [param for param in params if param.ndim > 1 and param not in embedded]
    hidden = set(matrices[:-1])
    return [
        {
            "params": [param for param in params if param in hidden],
            "part": "hidden matrices by Muon",
            "matrices": True,
        },
        {
            "params": [param for param in params if param not in hidden],
            "part": "the rest by AdamW",
            "matrices": False,
        },
    ]


CONTENDER = Contender(
    Muon,
    family="matrices",
    year=2024,
    decay="decoupled",
    groups=groups,
    source="Jordan 2024 (kellerjordan.github.io/posts/muon) as torch.optim has it; lr and steps as "
    "Liu et al. 2025 (arXiv 2502.16982)",
    summary="orthogonal momentum for hidden matrices, AdamW for the rest",
)
