"""The Frechet distance between sets of images, in the features of a network."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

LARGE = 512
"""From so many features on, moments stay on the device, and the square root is that of a symmetric
matrix: on 2,048 features a quarter of the time."""


class _Features(nn.Module):
    """The identity, in place of the network that torchmetrics applies: inputs are features."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.num_features = number

    def forward(self, features: Tensor) -> Tensor:
        return features


class Frechet:
    """The Frechet distance to a set of features, between Gaussians with their moments, in float64.

    torchmetrics' FID computes it for few features, and `_Gaussian` for many.

    Args:
        real: features (n, d), in batches.
        number: the dimension d.
    """

    def __init__(self, real: Iterable[Tensor], number: int) -> None:
        self._real: _Gaussian | None = None
        if number >= LARGE:
            self._real = _Gaussian(real)
            self._root = _root(self._real.covariance)
            return
        # Imported here, since it takes seconds that a list of workloads should not need.
        from torchmetrics.image.fid import FrechetInceptionDistance

        self._metric: Any = FrechetInceptionDistance(_Features(number), reset_real_features=False)
        for features in real:
            self._metric.update(features.double().cpu(), real=True)

    def to(self, generated: Iterable[Tensor]) -> float:
        """Return the squared distance, as is usual. NaN if a feature is not finite."""
        if self._real is not None:
            return self._to_gaussian(self._real, _Gaussian(generated))
        self._metric.reset()
        for features in generated:
            if not features.isfinite().all():
                return math.nan
            self._metric.update(features.double().cpu(), real=False)
        # Rounding may make a distance of 0 slightly negative.
        return max(float(self._metric.compute()), 0.0)

    def _to_gaussian(self, real: _Gaussian, other: _Gaussian) -> float:
        """|m - n|^2 + tr(S + T) - 2 tr (S^1/2 T S^1/2)^1/2, whose root is of a symmetric matrix."""
        if not other.covariance.isfinite().all():
            return math.nan
        root = self._root
        mixed = torch.linalg.eigvalsh(root @ other.covariance @ root).clamp(min=0).sqrt().sum()
        traces = real.covariance.trace() + other.covariance.trace()
        apart = (real.mean - other.mean).square().sum()
        return max(float(apart + traces - 2 * mixed), 0.0)


class _Gaussian:
    """Mean and covariance of features, on their device."""

    def __init__(self, batches: Iterable[Tensor]) -> None:
        count, total, products = 0, torch.zeros(()), torch.zeros(())
        for features in batches:
            if features.device.type == "mps":  # has no float64
                features = features.cpu()
            features = features.double()
            count += len(features)
            total = total.to(features) + features.sum(0)
            products = products.to(features) + features.T @ features
        self.mean = total / count
        self.covariance = (products - count * self.mean.outer(self.mean)) / (count - 1)


def _root(matrix: Tensor) -> Tensor:
    values, vectors = torch.linalg.eigh(matrix)
    root: Tensor = (vectors * values.clamp(min=0).sqrt()) @ vectors.T
    return root
