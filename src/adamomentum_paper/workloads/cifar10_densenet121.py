"""DenseNet-121 of growth 12 on CIFAR-10."""

from __future__ import annotations

from torch import nn

from adamomentum_paper.models.densenet import DENSENET121, densenet
from adamomentum_paper.workloads._cifar10 import CIFAR10
from adamomentum_paper.workloads._images import channels_last_network


class CIFAR10DenseNet121(CIFAR10):
    """DenseNet-121 on CIFAR-10, with growth 12 as the authors ran it. At mini: 1/6 of the layers,
    growth 8, 10,000 of 50,000 images, batch 64 instead of 128, 10 of 200 epochs."""

    def model(self) -> nn.Module:
        blocks, growth = {
            "smoke": ((1, 1, 1, 1), 4),
            "mini": ((2, 2, 4, 2), 8),
            "full": (DENSENET121, 12),
        }[self.scale]
        return channels_last_network(densenet(blocks, growth))
