"""Files with optimizers, as users write them."""

from __future__ import annotations

LION = '''
"""Lion (Chen et al. 2023), and what else one may write."""
import torch
from adamomentum_lab.contender import Contender


class Lion(torch.optim.Optimizer):
    """The sign of an average of two speeds."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            fast, slow = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_((fast * m + (1 - fast) * p.grad).sign(), alpha=group["lr"])
                m.lerp_(p.grad, 1 - slow)


def two_speeds(named_parameters, lr=1e-3, factor=0.1):
    """Adam with a smaller lr for biases."""
    weights, biases = [], []
    for name, param in named_parameters:
        (biases if name.endswith("bias") else weights).append(param)
    return torch.optim.Adam([{"params": weights}, {"params": biases, "lr": factor * lr}], lr=lr)


def last_layer(model, lr=1e-2, momentum=0.9):
    """SGD of a network."""
    return torch.optim.SGD(list(model.children())[-1].parameters(), lr=lr, momentum=momentum)


class NoDefault(Lion):
    def __init__(self, params, lr):
        super().__init__(params, lr)


class NoRate(Lion):
    def __init__(self, params):
        super().__init__(params)


class Needs(Lion):
    def __init__(self, params, base, lr=1e-3):
        super().__init__(params, lr)


class CoupledDecay(Lion):
    """Adds weight decay to the gradient."""

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.grad.add_(p.detach(), alpha=group["weight_decay"])
        decays = [group.pop("weight_decay") for group in self.param_groups]
        for group in self.param_groups:
            group["weight_decay"] = 0.0
        super().step()
        for group, decay in zip(self.param_groups, decays):
            group["weight_decay"] = decay


class Searching(Lion):
    """Evaluates the loss itself."""

    def step(self, closure):
        with torch.enable_grad():
            loss = closure()
        super().step()
        return loss


def nothing(params, lr=1e-3):
    return None


def no_arguments():
    return None


NUMBER = 3
'''
OWN = """
from torch.optim import Adagrad
from adamomentum_lab.contender import Contender

CONTENDER = Contender(
    Adagrad,
    settings={"lr": 0.05, "weight_decay": 0.0, "eps": 1e-10},
    space={"lr": (0.5, 0.05)},
    decay="coupled",
    source="Duchi et al. 2011",
    summary="Adagrad at my lr",
)
"""


def write_lion(folder, name="lion.py", text=LION):
    file = folder / name
    file.write_text(text)
    return file
