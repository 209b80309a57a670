"""What a check gets, and the small networks and gradients that checks train with."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import StateDict


@dataclass(frozen=True)
class Case:
    """An optimizer to test, and the options to test it with."""

    name: str
    optimizer: Callable[..., Optimizer]
    options: Mapping[str, object] = field(default_factory=dict)
    takes_complex: bool = True
    takes_gaps: bool = True
    starts_at_zero: bool = True  # averages start at 0; Yogi's do not, so zero gradients move it
    has_momentum: bool = True  # a scheduler can cycle its momentum
    elementwise: bool = True  # an element's step does not depend on the rest of its tensor
    has_decay: bool = True  # it has weight decay

    def build(self, params: Any, **options: Any) -> Optimizer:
        return self.optimizer(params, **{"lr": 1e-2, **self.options, **options})


CHECKS: list[Callable[[Case], None]] = []


def check(function: Callable[[Case], None]) -> Callable[[Case], None]:
    CHECKS.append(function)
    return function


def network(seed: int = 0, dtype: torch.dtype = torch.float32) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).to(dtype)


def loss_of(model: nn.Module, seed: int) -> Tensor:
    parameter = next(model.parameters())
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(8, 4, generator=generator).to(parameter)
    loss: Tensor = (model(x) - 1).square().mean()
    return loss


def train(model: nn.Module, optimizer: Optimizer, seeds: range) -> None:
    for seed in seeds:
        optimizer.zero_grad()
        loss_of(model, seed).backward()
        optimizer.step()


def parameter(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> nn.Parameter:
    generator = torch.Generator().manual_seed(seed)
    return nn.Parameter(torch.randn(shape, generator=generator).to(dtype))


def gradient(like: Tensor, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(1000 + seed)
    return torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like)


def feed(optimizer: Optimizer, params: list[nn.Parameter], seeds: range) -> None:
    for seed in seeds:
        for i, param in enumerate(params):
            param.grad = gradient(param, 17 * seed + i)
        optimizer.step()


def through_file(state_dict: StateDict) -> StateDict:
    """Save and load a state dict as users do, with `weights_only`."""
    file = io.BytesIO()
    torch.save(state_dict, file)
    file.seek(0)
    loaded: StateDict = torch.load(file, weights_only=True)
    return loaded


def assert_same(one: nn.Module, other: nn.Module) -> None:
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
