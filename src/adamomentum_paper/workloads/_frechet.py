"""The Frechet distance between sets of images, in the features of a network."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn


class _Features(nn.Module):
    """Stands where torchmetrics wants a network: what it gets are features already."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.num_features = number

    def forward(self, features: Tensor) -> Tensor:
        return features


class Frechet:
    """The distance to one set of features, as of Gaussians with their means and covariances.

    torchmetrics' FID does it, in float64, where nearly singular covariances do no harm.

    Args:
        real: features (n, d), batch by batch.
        number: their dimension d.
    """

    def __init__(self, real: Iterable[Tensor], number: int) -> None:
        # Loads half of torchmetrics: seconds, for which nobody waits who only lists workloads.
        from torchmetrics.image.fid import FrechetInceptionDistance

        self._metric: Any = FrechetInceptionDistance(_Features(number), reset_real_features=False)
        for features in real:
            self._metric.update(features.double().cpu(), real=True)

    def to(self, generated: Iterable[Tensor]) -> float:
        """The distance (squared, as is the custom); NaN where a feature is not a number."""
        self._metric.reset()
        for features in generated:
            if not features.isfinite().all():
                return math.nan
            self._metric.update(features.double().cpu(), real=False)
        # Rounding may leave a distance of 0 a little below.
        return max(float(self._metric.compute()), 0.0)
