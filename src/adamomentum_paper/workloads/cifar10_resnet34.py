"""ResNet-34 on CIFAR-10."""

from __future__ import annotations

from torch import nn

from adamomentum_paper.models.resnet import resnet
from adamomentum_paper.workloads._cifar10 import CIFAR10
from adamomentum_paper.workloads._images import channels_last_network


class CIFAR10ResNet34(CIFAR10):
    """ResNet-34 on CIFAR-10. At mini: 1/8 of the widths, two blocks per stage, 10,000 of
    50,000 images, batch 64 instead of 128, 10 of 200 epochs."""

    def model(self) -> nn.Module:
        if self.scale == "full":
            return channels_last_network(resnet((3, 4, 6, 3), 10))
        # Not narrower: with 4 channels, torch 2.13's channels-last convolution crashes on CPUs.
        return channels_last_network(resnet((2, 2, 2, 2), 10, width=8))
