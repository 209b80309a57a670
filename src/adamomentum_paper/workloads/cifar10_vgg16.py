"""VGG-16 on CIFAR-10: the paper's first network."""

from __future__ import annotations

from torch import nn

from adamomentum_paper.models.vgg import VGG16, vgg
from adamomentum_paper.workloads._cifar10 import CIFAR10
from adamomentum_paper.workloads._images import channels_last_network


class CIFAR10VGG16(CIFAR10):
    """VGG-16 on CIFAR-10. At mini: 1/4 of the widths, 10,000 of 50,000 images, batch 64 instead of
    128, 10 of 200 epochs."""

    def model(self) -> nn.Module:
        narrower = {"smoke": 8, "mini": 4, "full": 1}[self.scale]
        return channels_last_network(vgg(tuple(width // narrower for width in VGG16)))
