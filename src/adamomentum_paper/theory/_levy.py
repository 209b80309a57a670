"""Stable noise, and the times at which it drives something out of a set."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def stable(alpha: Tensor, random: torch.Generator) -> Tensor:
    """Symmetric stable numbers, one for each tail index in (0, 2], of scale 1.

    Chambers, Mallows and Stuck (1976): E exp(itX) = exp(-|t|^alpha), so that at 2 they are normal
    with variance 2, and at 1 Cauchy.
    """
    u = math.pi * (torch.rand(alpha.shape, generator=random, dtype=torch.float64) - 0.5)
    w = -torch.log1p(-torch.rand(alpha.shape, generator=random, dtype=torch.float64))
    return (
        torch.sin(alpha * u)
        / torch.cos(u) ** (1 / alpha)
        * (torch.cos((1 - alpha) * u) / w) ** ((1 - alpha) / alpha)
    )


def tail(alpha: float) -> float:
    """C of P(|X| > x) ~ C x^-alpha, which is also the jumps' rate beyond 1 in Levy motion."""
    return 2 / math.pi * math.gamma(alpha) * math.sin(math.pi * alpha / 2)


def columns(cases: Sequence[tuple[float, ...]], trajectories: int) -> list[Tensor]:
    """Each number of the cases as a tensor (case, trajectory)."""
    return [
        torch.tensor(column, dtype=torch.float64)[:, None].expand(-1, trajectories).contiguous()
        for column in zip(*cases, strict=True)
    ]


class Exits:
    """First exit times of many trajectories, some of which stay to the end.

    Of waiting times without memory, all time spent inside over the number of exits is the maximum
    likelihood estimate of the mean; 2 x time / mean is then chi-squared with 2 x exits degrees.
    """

    def __init__(self, shape: torch.Size) -> None:
        self.inside = torch.ones(shape, dtype=torch.bool)
        self.time = torch.zeros(shape, dtype=torch.float64)

    def pass_time(self, seconds: float, still: Tensor) -> None:
        """So much time passed; who is not still inside has left, for good."""
        self.time += seconds * self.inside
        self.inside &= still

    def mean(self) -> list[dict[str, float | int | None]]:
        """Over the last dimension: mean exit time with its 95 % interval, and how many left."""
        from scipy.stats import chi2

        found: list[dict[str, float | int | None]] = []
        total = self.time.sum(-1).flatten().tolist()
        left = (~self.inside).sum(-1).flatten().tolist()
        for time, exits in zip(total, left, strict=True):
            low = 2 * time / float(chi2.ppf(0.975, 2 * exits + 2))
            high = 2 * time / float(chi2.ppf(0.025, 2 * exits)) if exits else None
            mean = time / exits if exits else None
            found.append({"mean": mean, "low": low, "high": high, "exits": exits})
        return found


def exponent(x: Sequence[float], times: list[dict[str, float | int | None]]) -> tuple[float, float]:
    """Slope of log E[exit] over log x, weighted by exits, and half its 95 % interval."""
    points = [
        (math.log(a), math.log(float(t["mean"])), float(t["exits"] or 0))
        for a, t in zip(x, times, strict=True)
        if t["mean"]
    ]
    weight = sum(w for *_, w in points)
    centre_x = sum(w * a for a, _, w in points) / weight
    centre_y = sum(w * b for _, b, w in points) / weight
    spread = sum(w * (a - centre_x) ** 2 for a, _, w in points)
    slope = sum(w * (a - centre_x) * (b - centre_y) for a, b, w in points) / spread
    # The variance of the log of a mean of n exponential times is 1/n.
    return slope, 1.96 / math.sqrt(spread)
