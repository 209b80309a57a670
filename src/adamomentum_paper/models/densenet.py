"""DenseNet-BC for 32x32 images (Huang et al., 2017), as the authors ran it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

DENSENET121 = (6, 12, 24, 16)


def _activation(width: int) -> tuple[nn.Module, nn.Module]:
    return nn.BatchNorm2d(width), nn.ReLU(inplace=True)


class DenseLayer(nn.Module):
    """A 1x1 and a 3x3 convolution, each after batch norm and ReLU, concatenated with the input."""

    def __init__(self, before: int, growth: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *_activation(before),
            nn.Conv2d(before, 4 * growth, 1, bias=False),
            *_activation(4 * growth),
            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the new channels, followed by the old ones."""
        return torch.cat([self.layers(x), x], 1)


def densenet(
    blocks: tuple[int, ...] = DENSENET121, growth: int = 12, classes: int = 10
) -> nn.Sequential:
    """Return blocks of dense layers. Between blocks, the channels and the image are halved.

    The paper's network for CIFAR-10 has growth 12 and about a million parameters. Elsewhere,
    DenseNet-121 means growth 32.
    """
    width = 2 * growth
    layers: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1, bias=False)]
    for i, count in enumerate(blocks):
        for _ in range(count):
            layers.append(DenseLayer(width, growth))
            width += growth
        if i < len(blocks) - 1:
            half = nn.Conv2d(width, width // 2, 1, bias=False)
            layers += [*_activation(width), half, nn.AvgPool2d(2)]
            width //= 2
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))
    return nn.Sequential(*layers, *_activation(width), *head)
