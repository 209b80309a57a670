"""The loss about a solution, along random directions scaled filter by filter."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Direction = list[Tensor]
Loss = Callable[[], float]
"""The loss with the weights as they are now."""


def direction(weights: Sequence[Tensor], generator: torch.Generator) -> Direction:
    """Gaussian, each filter as long as that of the weights (Li et al., 2018, section 4).

    A filter is what the first index of a tensor of two or more dimensions picks: the weights of
    one output. Biases and the parameters of norm layers (one dimension) stay where they are.
    """
    found = []
    for weight in weights:
        # Also drawn where it is not used: shapes alone decide what everyone gets.
        noise = torch.randn(weight.shape, generator=generator).to(weight.dtype)
        lengths = _lengths(noise)
        scale = _lengths(weight) / torch.where(lengths > 0, lengths, torch.ones_like(lengths))
        found.append(noise * scale if weight.ndim > 1 else torch.zeros_like(weight))
    return found


def spread(weights: Sequence[Tensor]) -> Tensor:
    """Root mean square of each entry of such a direction, all in one vector.

    With S the diagonal matrix of it, the trace of SHS is the mean curvature along directions.
    """
    return torch.cat([
        (_lengths(weight) / weight[0].numel() ** 0.5).expand_as(weight).flatten()
        if weight.ndim > 1 else torch.zeros(weight.numel(), dtype=weight.dtype)
        for weight in weights
    ])  # fmt: skip


def _lengths(weight: Tensor) -> Tensor:
    """Of each filter, in a shape that multiplies the weight."""
    if weight.ndim < 2:
        return weight.abs()
    dims = tuple(range(1, weight.ndim))
    lengths: Tensor = torch.linalg.vector_norm(weight, dim=dims, keepdim=True)
    return lengths


class Surroundings:
    """The loss at points about the weights, which are put back afterwards."""

    def __init__(self, weights: Sequence[Tensor], loss: Loss) -> None:
        self.weights = [weight.detach() for weight in weights]
        self.centre = [weight.clone() for weight in self.weights]
        self.loss = loss

    def at(self, *steps: tuple[float, Direction]) -> float:
        """After a step along each direction."""
        with torch.no_grad():
            try:
                for length, along in steps:
                    torch._foreach_add_(self.weights, along, alpha=length)
                return self.loss()
            finally:
                torch._foreach_copy_(self.weights, self.centre)

    def grid(self, pair: tuple[Direction, Direction], axis: Sequence[float]) -> list[list[float]]:
        """A row for each step along the second direction, a column for each along the first."""
        first, second = pair
        return [[self.at((x, first), (y, second)) for x in axis] for y in axis]

    def rises(self, pair: tuple[Direction, Direction], radii: Sequence[float]) -> list[float]:
        """How far the loss is above the centre at each radius: the mean of both ways along both."""
        here = self.at()
        return [
            statistics.fmean(self.at((sign * radius, way)) for way in pair for sign in (1, -1))
            - here
            for radius in radii
        ]
