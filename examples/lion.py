"""Lion, written by hand: an optimizer of your own that `adamomentum race` can take.

adamomentum race digits_cnn --optimizers adamw,examples/lion.py:Lion
"""

import torch


class Lion(torch.optim.Optimizer):
    """The sign of an average of gradients (Chen et al. 2023, arXiv 2302.06675)."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        with torch.enable_grad():
            loss = closure() if closure else None
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for param in group["params"]:
                if param.grad is None:
                    continue
                momentum = self.state[param].setdefault("exp_avg", torch.zeros_like(param))
                update = torch.lerp(param.grad, momentum, beta1)
                param.mul_(1 - group["lr"] * group["weight_decay"])
                param.sub_(update / (update.abs() + (update == 0)), alpha=group["lr"])
                momentum.lerp_(param.grad, 1 - beta2)
        return loss
