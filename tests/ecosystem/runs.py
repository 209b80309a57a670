"""A small problem, the plain loop on it, and a witness that AdaMomentum's step is what it was."""

import copy

import torch
from torch import nn

from adamomentum import AdaMomentum

OPTIONS = {"lr": 1e-2, "weight_decay": 0.1}


def network(dtype=torch.float32):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.LayerNorm(7), nn.Tanh(), nn.Linear(7, 3)).to(dtype)


def batch(step, size=8):
    return torch.randn(size, 5, generator=torch.Generator().manual_seed(step))


def loss_of(model, x):
    return (model(x) - x[:, :3] * x[:, 1:4]).square().mean()


def gradients(model, step):
    model.zero_grad()
    loss = loss_of(model, batch(step))
    loss.backward()
    return loss


def train(model, optimizer, steps):
    for step in steps:
        gradients(model, step)
        optimizer.step()


def assert_same(model, other):
    for (name, a), (_, b) in zip(model.named_parameters(), other.named_parameters(), strict=True):
        assert torch.equal(a, b), name


def assert_same_state(optimizer, other):
    """Of the parameters; what a wrapper adds is the wrapper's."""
    pairs = zip(optimizer.param_groups, other.param_groups, strict=True)
    for a, b in ((p, q) for g, h in pairs for p, q in zip(g["params"], h["params"], strict=True)):
        for key in ("step", "exp_avg", "exp_avg_momentum_sq"):
            assert torch.equal(optimizer.state[a][key], other.state[b][key]), key


class Witness(AdaMomentum):
    """Asserts, step by step, that it does what an AdaMomentum alone would with these gradients."""

    def __init__(self, params, lr=1e-3, **options):
        super().__init__(params, lr, **options)
        self.steps, self.shadows = 0, None

    def step(self, closure=None):
        loss = None
        if closure is not None:  # the gradients it leaves are those of the step
            with torch.enable_grad():
                loss = closure()
        if self.shadows is None:
            self.shadows = [copy.deepcopy(g["params"]) for g in self.param_groups]
            known = self.defaults
            groups = [
                {"params": params, **{k: group[k] for k in known}}
                for params, group in zip(self.shadows, self.param_groups, strict=True)
            ]
            self.alone = AdaMomentum(groups)
        pairs = [
            (p, q)
            for group, shadows in zip(self.param_groups, self.shadows, strict=True)
            for p, q in zip(group["params"], shadows, strict=True)
        ]
        with torch.no_grad():
            for p, q in pairs:
                q.copy_(p)
                q.grad = None if p.grad is None else p.grad.clone()
        self.alone.step()
        super().step()
        assert all(torch.equal(p, q) for p, q in pairs)
        self.steps += 1
        return loss
