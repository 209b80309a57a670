"""SOAP: Adam in the eigenbasis of Shampoo's preconditioner."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from adamomentum_lab.contender import ADAM, DECOUPLED, Contender
from adamomentum_lab.contenders._formula import (
    FormulaOptimizer,
    Group,
    _real,
    adam_step,
    average,
)

Axes = Mapping[int, tuple[Tensor, Tensor]]
"""By axis of a parameter: its average L, and the eigenvectors Q of L."""
WHOLE_NUMBERS = ("precondition_frequency", "max_precond_dim")


class SOAP(FormulaOptimizer):
    """L = b2 L + (1 - b2) g g' and R = b2 R + (1 - b2) g' g have the eigenvectors Q and P.
    m averages g by b1, v averages (Q' g P)^2 by b2;
    theta -= lr Q (Q' m_hat P / (sqrt(v_hat) + eps)) P'.

    Each axis of a tensor has an average and eigenvectors of its own, so that filters have four.
    Axes longer than max_precond_dim have none. Vectors have none either, and get Adam. The first
    gradient only starts L and R. Every precondition_frequency updates, one power iteration and a QR
    decomposition bring the eigenvectors up to date. Not for sharded parameters, whose averages
    would be those of a shard.
    """

    SETTINGS = {
        **ADAM,
        **DECOUPLED,
        "lr": 3e-3,
        "betas": (0.95, 0.95),
        "precondition_frequency": 10,
        "max_precond_dim": 10_000,
    }
    START = {"exp_avg": 0.0, "exp_avg_sq": 0.0}
    ELEMENTWISE = False

    def add_param_group(self, param_group: Group) -> None:
        """Add a group of parameters. Options it does not name get the optimizer's values."""
        super().add_param_group(param_group)
        for name in WHOLE_NUMBERS:
            value = self.param_groups[-1][name]
            if type(value) is not int or value < 1:
                self.param_groups.pop()
                raise ValueError(f"Invalid {name}: {value} (it must be a whole number above 0).")

    def _update(self, param: Tensor, grad: Tensor, group: Group) -> None:
        axes = self._axes(param, group["max_precond_dim"])
        super()._update(param, grad, {**group, "axes": axes})
        for axis, (covariance, basis) in axes.items():
            self.state[param][f"covariance_{axis}"] = covariance
            self.state[param][f"basis_{axis}"] = basis

    def _axes(self, param: Tensor, longest: int) -> Axes:
        """Those of the state, or new ones."""
        state, like = self.state[param], _real(param)
        wide = torch.promote_types(like.dtype, torch.float32)
        axes = {}
        for axis, length in enumerate(like.shape if like.ndim > 1 else ()):
            if f"basis_{axis}" in state:
                axes[axis] = state[f"covariance_{axis}"], state[f"basis_{axis}"]
            elif not state and 0 < length <= longest:
                new = torch.zeros(2, length, length, dtype=wide, device=like.device)
                axes[axis] = new[0].clone(), new[1].clone()
        return axes

    @staticmethod
    def _formula(g: Tensor, t: int, group: Group, m: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        b1, b2 = group["betas"]
        axes: Axes = group["axes"]
        direction = 0 * g
        if t > 1:
            m = average(m, g, b1)
            v = average(v, rotate(g, axes) ** 2, b2)
            direction = rotate_back(adam_step(rotate(m, axes), v, t - 1, group), axes)
        for axis, (covariance, basis) in axes.items():
            rows = g.movedim(axis, 0).flatten(1)
            covariance.copy_(average(covariance, rows @ rows.T, b2))
            if t == 1:
                basis.copy_(eigenvectors(covariance))
            elif (t - 1) % group["precondition_frequency"] == 0:
                product = covariance @ basis
                order = (basis * product).sum(0).argsort(descending=True, stable=True)
                basis.copy_(torch.linalg.qr(product[:, order]).Q)
                v = v.index_select(axis, order)
        return direction, m, v


def rotate(x: Tensor, axes: Axes) -> Tensor:
    """Return a tensor in the eigenbasis of each axis."""
    for axis, (_, basis) in axes.items():
        x = torch.tensordot(x, basis, ([axis], [0])).movedim(-1, axis)
    return x


def rotate_back(x: Tensor, axes: Axes) -> Tensor:
    """Undo `rotate`."""
    for axis, (_, basis) in axes.items():
        x = torch.tensordot(x, basis, ([axis], [1])).movedim(-1, axis)
    return x


def eigenvectors(matrix: Tensor) -> Tensor:
    """Return the eigenvectors, that of the largest eigenvalue first.

    NaN if the matrix is not finite, where torch would raise an error.
    """
    if not matrix.isfinite().all():
        return torch.full_like(matrix, math.nan)
    vectors: Tensor = torch.linalg.eigh(matrix).eigenvectors
    return vectors.flip(1)


CONTENDER = Contender(
    SOAP,
    family="matrices",
    year=2024,
    source="Vyas et al. 2024 (arXiv 2409.11321), Algorithm 3, with the first step, the order of "
    "eigenvectors and the settings of the authors' code",
    summary="Adam in the eigenbasis of Shampoo's preconditioner",
)
