"""The Frechet distance between sets of images, in the features of a network."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn


class _Features(nn.Module):
    """The identity, in place of the network that torchmetrics applies: inputs are features."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.num_features = number

    def forward(self, features: Tensor) -> Tensor:
        return features


class Frechet:
    """The Frechet distance to a set of features, between Gaussians with their moments.

    It is computed by torchmetrics' FID in float64, which tolerates nearly singular covariances.

    Args:
        real: features (n, d), in batches.
        number: the dimension d.
    """

    def __init__(self, real: Iterable[Tensor], number: int) -> None:
        # Imported here, since it takes seconds that a list of workloads should not need.
        from torchmetrics.image.fid import FrechetInceptionDistance

        self._metric: Any = FrechetInceptionDistance(_Features(number), reset_real_features=False)
        for features in real:
            self._metric.update(features.double().cpu(), real=True)

    def to(self, generated: Iterable[Tensor]) -> float:
        """Return the squared distance, as is usual. NaN if a feature is not finite."""
        self._metric.reset()
        for features in generated:
            if not features.isfinite().all():
                return math.nan
            self._metric.update(features.double().cpu(), real=False)
        # Rounding may make a distance of 0 slightly negative.
        return max(float(self._metric.compute()), 0.0)
