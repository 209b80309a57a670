"""A small convolutional network with batch norm on scikit-learn's digits."""

from __future__ import annotations

from torch import nn

from adamomentum_lab.digits import SPACES, convnet, digits
from adamomentum_lab.schedules import Step
from adamomentum_lab.workload import Classification, Data


class DigitsCNN(Classification):
    """Digits of 8x8 pixels, three convolutions with batch norm. Embedded, seconds a run."""

    epochs = {"smoke": 2, "mini": 15, "full": 100}
    schedule = Step()  # the paper's for CIFAR-10, in parts of the run
    target = 97.0  # logistic regression on the pixels reaches 97.3 on these validation images
    spaces = SPACES

    def data(self) -> Data:
        return Data(*digits())

    def model(self) -> nn.Module:
        return convnet(16, 10)
