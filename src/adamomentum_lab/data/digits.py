"""The digits of scikit-learn: 1,797 real images of 8x8 pixels, ten classes (UCI, 1998)."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor


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
