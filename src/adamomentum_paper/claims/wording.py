"""Estimates and comparisons of records in words."""

from __future__ import annotations

from adamomentum_lab.stats.comparisons import Comparison
from adamomentum_lab.stats.estimates import Estimate
from adamomentum_lab.words import amount, plus_minus


def estimate(value: Estimate) -> str:
    """Such as `97.32 ± 0.21 (n = 5)`."""
    if value.mean is None:
        return "no score"
    text = plus_minus(value.mean, value.half)
    return text if value.half is None else f"{text} (n = {value.n})"


def interval(mean: float, half: float) -> str:
    """Such as `-0.10 (-0.43 to 0.23)`."""
    low, high = amount(mean - half, half), amount(mean + half, half)
    return f"{amount(mean, half)} ({low} to {high})"


def gap(value: Estimate) -> str:
    """The same of an estimate, if it has an interval."""
    if value.mean is None or value.half is None:
        return "no interval"
    return interval(value.mean, value.half)


def lead(c: Comparison) -> str:
    """Such as `adam by 0.52 (0.20 to 0.84)`."""
    mean, half = c.difference.mean or 0.0, c.difference.half
    if not half:
        return f"{c.other} by {abs(mean):.3g}"
    low, high = sorted([abs(mean - half), abs(mean + half)])
    return f"{c.other} by {amount(abs(mean), half)} ({amount(low, half)} to {amount(high, half)})"


def undetected(c: Comparison) -> str:
    """Such as `yogi (-0.32 to 0.36, below 0.47 missed)`; the interval is of other minus ours."""
    mean, half, missed = c.difference.mean or 0.0, c.difference.half, c.missed
    if not half:
        return f"{c.other} ({mean:.3g} with every seed)"
    could = f"; could miss {amount(missed, missed)}" if missed is not None else ""
    return f"{c.other} ({amount(mean - half, half)} to {amount(mean + half, half)}{could})"


def reason(c: Comparison) -> str:
    """Why two cannot be compared."""
    if c.base_lost or c.other_lost:
        return "runs were lost"
    return "one seed" if c.n == 1 else "every seed has the same difference"
