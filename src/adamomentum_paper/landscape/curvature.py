"""Curvature of a loss from Hessian-vector products, by the methods of Lanczos and Hutchinson."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg import eigh_tridiagonal
from torch import Tensor

from adamomentum_lab.stats.estimates import Estimate

Losses = Callable[[], Iterable[tuple[float, Tensor]]]
"""Yields the parts of a loss, each with its weight. They are differentiated one at a time, so that
only one graph is in memory."""
Product = Callable[[Tensor], Tensor]
"""Multiplies a symmetric matrix with each row (vectors, size)."""


class Hessian:
    """The Hessian of a loss with respect to some tensors, by differentiating twice.

    Products are exact except for rounding (Pearlmutter, 1994). At a kink, as with ReLU, they use
    the derivative of autograd's gradient. `on_product` is called with each part of a product.
    """

    def __init__(
        self,
        losses: Losses,
        tensors: Sequence[Tensor],
        on_product: Callable[[float], None] = lambda _: None,
    ) -> None:
        self.losses, self.tensors, self.on_product = losses, list(tensors), on_product
        self.size = sum(tensor.numel() for tensor in self.tensors)

    def __call__(self, vectors: Tensor) -> Tensor:
        """Multiply each row. The gradient is computed only once for all rows."""
        products = torch.zeros_like(vectors)
        for weight, loss in self.losses():
            slopes = torch.autograd.grad(
                loss, self.tensors, create_graph=True, materialize_grads=True
            )
            # A constant slope has no derivative, for which autograd would raise an error.
            curved = [i for i, slope in enumerate(slopes) if slope.requires_grad]
            for row, vector in enumerate(vectors):
                if curved:
                    parts = self._like_tensors(vector)
                    found = torch.autograd.grad(
                        [slopes[i] for i in curved],
                        self.tensors,
                        [parts[i] for i in curved],
                        retain_graph=True,
                        materialize_grads=True,
                    )
                    products[row] += weight * torch.cat([part.flatten() for part in found])
                self.on_product(weight)
        return products

    def _like_tensors(self, vector: Tensor) -> list[Tensor]:
        sizes = [tensor.numel() for tensor in self.tensors]
        parts = torch.split(vector, sizes)
        return [part.view(tensor.shape) for part, tensor in zip(parts, self.tensors, strict=True)]


@dataclass(frozen=True)
class Eigenvalue:
    """An estimate of the largest eigenvalue. It is never above it, in exact arithmetic."""

    value: float
    error: float
    """There is an eigenvalue within this distance of the value."""
    steps: int
    """Number of products with the matrix."""


def top_eigenvalue(
    product: Product,
    size: int,
    generator: torch.Generator,
    *,
    steps: int = 30,
    tolerance: float = 0.01,
    dtype: torch.dtype = torch.float32,
) -> Eigenvalue:
    """Estimate the largest (not by magnitude) eigenvalue by Lanczos' method.

    Every vector is orthogonalised against all earlier ones, so `steps` vectors are in memory. The
    iteration ends once the error is at most `tolerance` times the value.
    """
    steps = min(steps, size)
    basis = torch.empty(steps, size, dtype=dtype)
    vector = torch.randn(size, generator=generator, dtype=dtype)
    vector /= vector.norm()
    diagonal: list[float] = []
    beside: list[float] = []
    value = error = 0.0
    for step in range(steps):
        basis[step] = vector
        rest = product(vector[None])[0]
        diagonal.append(float(vector.double() @ rest.double()))
        known = basis[: step + 1]
        for _ in range(2):  # twice, to correct rounding errors
            rest = rest - known.T @ (known @ rest)
        length = float(rest.double().norm())
        values, vectors = eigh_tridiagonal(np.array(diagonal), np.array(beside))
        value, error = float(values[-1]), abs(length * float(vectors[-1, -1]))
        rounding = torch.finfo(dtype).eps * float(np.abs(values).max())
        if error <= tolerance * abs(value) or length <= rounding:
            break
        beside.append(length)
        vector = (rest / length).to(dtype)
    return Eigenvalue(value, error, len(diagonal))


def trace(
    product: Product,
    size: int,
    generator: torch.Generator,
    *,
    probes: int = 10,
    dtype: torch.dtype = torch.float32,
) -> Estimate:
    """Estimate the trace by Hutchinson's method: the mean of v'Hv over random signs v."""
    signs = torch.randint(2, (probes, size), generator=generator, dtype=torch.int8)
    vectors = signs.to(dtype) * 2 - 1
    samples = (vectors.double() * product(vectors).double()).sum(1)
    return Estimate.of(samples.tolist())
