"""A small convolutional network with batch norm on scikit-learn's digits."""

from __future__ import annotations

from torch import nn

from adamomentum_lab.digits import convnet, digits
from adamomentum_lab.schedules import Step
from adamomentum_lab.workload import Classification, Data


class DigitsCNN(Classification):
    """Digits of 8x8 pixels, three convolutions with batch norm. No download; seconds per run."""

    epochs = {"smoke": 2, "mini": 15, "full": 100}
    schedule = Step()  # the paper's schedule for CIFAR-10, as fractions of the run
    target = 97.0  # logistic regression on the pixels reaches 97.3 on these validation images

    def data(self) -> Data:
        return Data(*digits())

    def model(self) -> nn.Module:
        return convnet(16, 10)
