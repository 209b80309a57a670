"""A fully connected network on MNIST-1D."""

from __future__ import annotations

from torch import nn

from adamomentum_lab.digits import mlp
from adamomentum_lab.mnist1d import POINTS, TEMPLATES, mnist1d
from adamomentum_lab.schedules import Cosine
from adamomentum_lab.workload import Classification, Data


class MNIST1DMLP(Classification):
    """Curves of 40 points in ten classes (MNIST-1D), two hidden layers of 100 units. No
    download; a second per run."""

    epochs = {"smoke": 2, "mini": 40, "full": 200}  # full: 6,000 updates, as published
    batch = 100  # as published
    schedule = Cosine()
    target = 60.0  # a support vector machine (RBF, C = 10) reaches 60.1 on the validation curves

    def data(self) -> Data:
        return Data(*mnist1d())

    def model(self) -> nn.Module:
        return mlp(POINTS, (100, 100), len(TEMPLATES))
