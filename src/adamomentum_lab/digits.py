"""The digits of scikit-learn, 1,797 real images of 8x8 pixels in ten classes (UCI, 1998), and two
small networks for them."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from adamomentum_lab.space import DECADES_OF_LR, Space

SPACES: dict[str, Space] = {
    "*": {
        "lr": DECADES_OF_LR,
        "weight_decay": (1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2),
        "eps": tuple(float(f"1e-{n}") for n in range(5, 17)),
    }
}
"""What is searched on the digits."""


def digits() -> list[tuple[Tensor, Tensor]]:
    """Training (897), validation (300) and test (600) images, each with its labels.

    Drawn once and for all, not by the seed of a run: differences between seeds are those of
    training alone. Pixels are scaled to mean 0 and standard deviation 1 over the training images.
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
        layers += [nn.Conv2d(before, after, 3, stride, padding=1, bias=False)]
        layers += [nn.BatchNorm2d(after), nn.ReLU()]
        before = after
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(before * 16, classes))
