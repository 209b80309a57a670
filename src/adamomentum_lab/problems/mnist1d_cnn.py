"""A convolutional network on MNIST-1D."""

from __future__ import annotations

from torch import nn

from adamomentum_lab.mnist1d import TEMPLATES, mnist1d
from adamomentum_lab.schedules import Cosine
from adamomentum_lab.workload import Classification, Data


class MNIST1DCNN(Classification):
    """Curves of 40 points in ten classes (MNIST-1D), three convolutions of 25 channels. No
    download; seconds per run."""

    epochs = {"smoke": 2, "mini": 40, "full": 200}  # full: 6,000 updates, as published
    batch = 100  # as published
    schedule = Cosine()
    target = 76.0  # a random forest of 300 trees reaches 75.9 on the validation curves

    def data(self) -> Data:
        return Data(*mnist1d())

    def model(self) -> nn.Module:
        # The published network: 40 points become 19, 10 and 5. No normalisation.
        return nn.Sequential(
            nn.Unflatten(1, (1, -1)),
            nn.Conv1d(1, 25, 5, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv1d(25, 25, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv1d(25, 25, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(125, len(TEMPLATES)),
        )
