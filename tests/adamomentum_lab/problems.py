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
