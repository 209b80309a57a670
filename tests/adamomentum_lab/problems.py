"""Workloads for tests, tiny and of every temper. Each is a file of its own, as users have them."""

from __future__ import annotations

from pathlib import Path

HEAD = """
import os, pathlib
import torch
from torch import nn
from adamomentum_lab import Classification, Data, Workload

class Problem(Classification):
    '''Two noisy half planes, with dropout: random numbers matter.'''
    epochs = {"smoke": 2, "mini": 4, "full": 8}
    batch = 16
    target = 80.0

    def data(self):
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(200, 5, generator=generator)
        y = (x[:, 0] + 0.3 * torch.randn(200, generator=generator) > 0).long()
        return Data((x[:100], y[:100]), (x[100:150], y[100:150]), (x[150:], y[150:]))

    def model(self):
        return nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.3), nn.ReLU(), nn.Linear(8, 2))
"""

BOWL = """
import torch
from torch import nn
from adamomentum_lab import Data, Workload

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.register_buffer("noise", 0.01 * torch.randn(()))

class Bowl(Workload):
    '''One step down a quadratic with curvatures 1 and 100; the seed only adds to the score.

    SGD leaves ((1 - lr)^2 + 100 (1 - 100 lr)^2) / 2, at least 0.49; Adam leaves 50.5 (1 - lr)^2.
    '''
    epochs = 1
    metric = "height"

    def data(self):
        one = (torch.zeros(1, 1),)
        return Data(one, one, one)

    def model(self):
        return Net()

    def loss(self, model, batch):
        return 0.5 * (torch.tensor([1.0, 100.0]) * model.weight ** 2).sum()

    def scores(self, model, batch):
        loss = self.loss(model, batch)
        return {"loss": loss, "height": loss + model.noise}
"""

PROBLEMS = {
    "plain": HEAD,
    "clipped": HEAD + "\n    clip = 0.5\n",
    "diverges": HEAD
    + """
    def loss(self, model, batch):
        return super().loss(model, batch) * float("inf")
""",
    "diverges_clipped": HEAD
    + """
    clip = 0.5

    def loss(self, model, batch):
        return super().loss(model, batch) * float("inf")
""",
    "raises": HEAD
    + """
    def loss(self, model, batch):
        raise RuntimeError("this is the user's own fault")
""",
    "bowl": BOWL,
    # Its worker dies once, or always.
    "dies_once": HEAD
    + """
    def loss(self, model, batch):
        mark = pathlib.Path(__file__).with_suffix(".died")
        if not mark.exists():
            mark.write_text("")
            os._exit(9)
        return super().loss(model, batch)
""",
    "dies": HEAD
    + """
    def loss(self, model, batch):
        os._exit(9)
""",
    "slow": HEAD.replace('"full": 8', '"full": 20')
    + """
    def loss(self, model, batch):
        import time
        time.sleep(float(os.environ.get("SECONDS_PER_UPDATE", 0.05)))
        return super().loss(model, batch)
""",
}


def write_problem(folder: Path, name: str = "plain") -> Path:
    file = folder / f"{name}.py"
    file.write_text(PROBLEMS[name])
    return file
