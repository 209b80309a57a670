"""Stable noise, and exit times of trajectories from a set."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def stable(alpha: Tensor, random: torch.Generator) -> Tensor:
    """Draw symmetric stable numbers of scale 1, one for each tail index in (0, 2].

    Uses the method of Chambers, Mallows and Stuck (1976). E exp(itX) = exp(-|t|^alpha), so the
    numbers are normal with variance 2 at tail index 2, and Cauchy at 1.
    """
    u = math.pi * (torch.rand(alpha.shape, generator=random, dtype=torch.float64) - 0.5)
    w = -torch.log1p(-torch.rand(alpha.shape, generator=random, dtype=torch.float64))
    return (
        torch.sin(alpha * u)
        / torch.cos(u) ** (1 / alpha)
        * (torch.cos((1 - alpha) * u) / w) ** ((1 - alpha) / alpha)
    )


def tail(alpha: float) -> float:
    """Return C of P(|X| > x) ~ C x^-alpha. It is also the rate of jumps above 1 in Levy motion."""
    return 2 / math.pi * math.gamma(alpha) * math.sin(math.pi * alpha / 2)


def columns(cases: Sequence[tuple[float, ...]], trajectories: int) -> list[Tensor]:
    """Return each column of the cases as a tensor (case, trajectory)."""
    return [
        torch.tensor(column, dtype=torch.float64)[:, None].expand(-1, trajectories).contiguous()
        for column in zip(*cases, strict=True)
    ]


class Exits:
    """First exit times of many trajectories, some of which stay to the end.

    If exit times are exponential, the total time inside divided by the number of exits is the
    maximum likelihood estimate of their mean. 2 x time / mean is then chi-squared with 2 x exits
    degrees of freedom.
    """

    def __init__(self, shape: torch.Size) -> None:
        self.inside = torch.ones(shape, dtype=torch.bool)
        self.time = torch.zeros(shape, dtype=torch.float64)

    def pass_time(self, seconds: float, still: Tensor) -> None:
        """Add time to the trajectories inside. Those not in `still` have left for good."""
        self.time += seconds * self.inside
        self.inside &= still

    def mean(self) -> list[dict[str, float | int | None]]:
        """Return the mean exit time, its 95 % interval and the exits, over the last dimension."""
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
    """Fit the slope of log E[exit] over log x, weighted by exits. Also returns its half-width."""
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
