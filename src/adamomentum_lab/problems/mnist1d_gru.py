"""A recurrent network on MNIST-1D."""

from __future__ import annotations

from torch import Tensor, nn

from adamomentum_lab.mnist1d import POINTS, TEMPLATES, mnist1d
from adamomentum_lab.schedules import Cosine
from adamomentum_lab.workload import Classification, Data

UNITS = 6  # of each direction, as published


class GRU(nn.Module):
    """Reads a curve in both directions, and classifies it by all hidden states."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.GRU(1, UNITS, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * UNITS * POINTS, len(TEMPLATES))

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of curves (n, 40)."""
        states, _ = self.recurrent(x[:, :, None])
        logits: Tensor = self.head(states.flatten(1))
        return logits


class MNIST1DGRU(Classification):
    """Curves of 40 points in ten classes (MNIST-1D), a GRU of 6 units in each direction. No
    download; ten seconds per run."""

    epochs = {"smoke": 2, "mini": 30, "full": 200}  # full: 6,000 updates, as published
    batch = 100  # as published
    schedule = Cosine()
    target = 76.0  # a random forest of 300 trees reaches 75.9 on the validation curves

    def data(self) -> Data:
        return Data(*mnist1d())

    def model(self) -> nn.Module:
        return GRU()
