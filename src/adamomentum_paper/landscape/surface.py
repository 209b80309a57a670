"""The loss around a solution, along filter-normalised random directions."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Direction = list[Tensor]
Loss = Callable[[], float]
"""Returns the loss at the present weights."""


def direction(weights: Sequence[Tensor], generator: torch.Generator) -> Direction:
    """Draw a Gaussian direction with the filter norms of the weights (Li et al., 2018, section 4).

    A filter is the slice of a tensor at one first index: the weights of one output. Tensors of one
    dimension, such as biases and the parameters of norm layers, do not move.
    """
    found = []
    for weight in weights:
        # Always drawn, so that the random numbers depend only on the shapes.
        noise = torch.randn(weight.shape, generator=generator).to(weight.dtype)
        lengths = _lengths(noise)
        scale = _lengths(weight) / torch.where(lengths > 0, lengths, torch.ones_like(lengths))
        found.append(noise * scale if weight.ndim > 1 else torch.zeros_like(weight))
    return found


def spread(weights: Sequence[Tensor]) -> Tensor:
    """Return the root mean square of each entry of such a direction, as one vector.

    If S is the diagonal matrix of this vector and H the Hessian, the trace of SHS is the mean
    curvature along directions.
    """
    return torch.cat([
        (_lengths(weight) / weight[0].numel() ** 0.5).expand_as(weight).flatten()
        if weight.ndim > 1 else torch.zeros(weight.numel(), dtype=weight.dtype)
        for weight in weights
    ])  # fmt: skip


def _lengths(weight: Tensor) -> Tensor:
    """Return the norm of each filter, in a shape that broadcasts to the weight."""
    if weight.ndim < 2:
        return weight.abs()
    dims = tuple(range(1, weight.ndim))
    lengths: Tensor = torch.linalg.vector_norm(weight, dim=dims, keepdim=True)
    return lengths


class Surroundings:
    """Evaluates the loss around the weights, and restores them afterwards."""

    def __init__(self, weights: Sequence[Tensor], loss: Loss) -> None:
        self.weights = [weight.detach() for weight in weights]
        self.centre = [weight.clone() for weight in self.weights]
        self.loss = loss

    def at(self, *steps: tuple[float, Direction]) -> float:
        """Return the loss after a step along each direction."""
        with torch.no_grad():
            try:
                for length, along in steps:
                    torch._foreach_add_(self.weights, along, alpha=length)
                return self.loss()
            finally:
                torch._foreach_copy_(self.weights, self.centre)

    def grid(self, pair: tuple[Direction, Direction], axis: Sequence[float]) -> list[list[float]]:
        """Return losses: a row per step along the second direction, a column per first."""
        first, second = pair
        return [[self.at((x, first), (y, second)) for x in axis] for y in axis]

    def rises(self, pair: tuple[Direction, Direction], radii: Sequence[float]) -> list[float]:
        """Return the rise of the loss at each radius: the mean over both directions and signs."""
        here = self.at()
        return [
            statistics.fmean(self.at((sign * radius, way)) for way in pair for sign in (1, -1))
            - here
            for radius in radii
        ]
