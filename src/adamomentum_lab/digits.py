"""The digits of scikit-learn, and two small networks for them.

They are 1,797 scanned images of 8x8 pixels in ten classes (UCI, 1998).
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn


def digits() -> list[tuple[Tensor, Tensor]]:
    """Return training (897), validation (300) and test (600) images, each with its labels.

    The split does not depend on the seed of a run, so seeds differ in training alone. Pixels are
    scaled to mean 0 and standard deviation 1 over the training images.
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    x = torch.tensor(bunch.images, dtype=torch.float32).unsqueeze(1)
    y = torch.tensor(bunch.target, dtype=torch.int64)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    x, y = x[order], y[order]
    x = (x - x[:897].mean()) / x[:897].std()
    bounds = (0, 897, 1197, 1797)
    return [(x[a:b], y[a:b]) for a, b in itertools.pairwise(bounds)]


def mlp(inputs: int, hidden: tuple[int, ...], classes: int) -> nn.Module:
    """Return fully connected layers with ReLU."""
    widths = (inputs, *hidden)
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], classes))


def convnet(width: int, classes: int) -> nn.Module:
    """Return three 3x3 convolutions with batch norm, for 8x8 pixels. The second has stride 2."""
    layers: list[nn.Module] = []
    before = 1
    for after, stride in ((width, 1), (2 * width, 2), (2 * width, 1)):
        layers += [nn.Conv2d(before, after, 3, stride, padding=1, bias=False)]
        layers += [nn.BatchNorm2d(after), nn.ReLU()]
        before = after
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(before * 16, classes))
