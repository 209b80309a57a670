"""VGG for 32x32 images, as the authors ran it."""

from __future__ import annotations

import math

from torch import nn

POOL = 0  # stands for a max-pool in a list of widths
VGG16 = (64, 64, POOL, 128, 128, POOL, *(256,) * 3, POOL, *(512,) * 3, POOL, *(512,) * 3, POOL)


def vgg(widths: tuple[int, ...] = VGG16, classes: int = 10, dropout: float = 0.5) -> nn.Sequential:
    """Return 3x3 convolutions with batch norm, then two hidden layers with dropout.

    Weights of the convolutions are drawn from N(0, 2/(k² c_out)); their biases are 0.
    """
    layers: list[nn.Module] = []
    before = 3
    for width in widths:
        if width == POOL:
            layers.append(nn.MaxPool2d(2))
            continue
        conv = nn.Conv2d(before, width, 3, padding=1)
        nn.init.normal_(conv.weight, 0.0, math.sqrt(2 / (9 * width)))
        nn.init.zeros_(conv.bias)  # type: ignore[arg-type]
        layers += [conv, nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
        before = width
    hidden: list[nn.Module] = []
    for _ in range(2):
        hidden += [nn.Dropout(dropout), nn.Linear(before, before), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.Flatten(), *hidden, nn.Linear(before, classes))
