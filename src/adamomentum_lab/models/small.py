"""Networks for the embedded digits."""

from __future__ import annotations

import itertools

from torch import nn


def mlp(inputs: int, hidden: tuple[int, ...], classes: int) -> nn.Module:
    """Fully connected layers with ReLU."""
    widths = (inputs, *hidden)
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], classes))


def convnet(width: int, classes: int) -> nn.Module:
    """Three 3x3 convolutions with batch norm over 8x8 pixels, the last two on 4x4."""
    layers: list[nn.Module] = []
    before = 1
    for after, stride in ((width, 1), (2 * width, 2), (2 * width, 1)):
        layers += [
            nn.Conv2d(before, after, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
        ]
        before = after
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(before * 16, classes))
