"""Text for estimates and comparisons."""

from __future__ import annotations

from adamomentum_lab.race.verdict import Verdict
from adamomentum_lab.report.verdicts import difference, explain
from adamomentum_lab.stats.comparisons import Comparison
from adamomentum_lab.stats.estimates import Estimate
from adamomentum_lab.words import amount, plus_minus


def estimate(value: Estimate) -> str:
    """Format an estimate, such as `97.32 ± 0.21 (n = 5)`."""
    if value.mean is None:
        return "no score"
    text = plus_minus(value.mean, value.half)
    return text if value.half is None else f"{text} (n = {value.n})"


def interval(mean: float, half: float) -> str:
    """Format a mean with its interval, such as `-0.10 (-0.43 to 0.23)`."""
    low, high = amount(mean - half, half), amount(mean + half, half)
    return f"{amount(mean, half)} ({low} to {high})"


def gap(value: Estimate) -> str:
    """Format an estimate like `interval`, if it has one."""
    if value.mean is None or value.half is None:
        return "no interval"
    return interval(value.mean, value.half)


def beside(verdict: Verdict) -> str:
    """Format a decided difference, such as `adam (-0.52 (-0.71 to -0.33))`."""
    return f"{verdict.b} ({difference(verdict)})"


def because(verdict: Verdict) -> str:
    """Say what an undecided pair measured, and why it is open.

    Such as `yogi (+0.02 (-0.32 to +0.36)): seeds vary too much: about 24 would do`
    """
    measured = beside(verdict) if difference(verdict) else verdict.b
    why = explain(verdict.reasons[0], verdict) if verdict.reasons else ""
    return f"{measured}: {why[:1].lower()}{why[1:].rstrip('.')}" if why else measured


def lead(c: Comparison) -> str:
    """Format a significant difference, such as `adam by 0.52 (0.20 to 0.84)`."""
    mean, half = c.difference.mean or 0.0, c.difference.half
    if not half:
        return f"{c.other} by {abs(mean):.3g}"
    low, high = sorted([abs(mean - half), abs(mean + half)])
    return f"{c.other} by {amount(abs(mean), half)} ({amount(low, half)} to {amount(high, half)})"


def undetected(c: Comparison) -> str:
    """Format a difference that is not significant, such as `yogi (-0.32 to 0.36; detectable 0.47)`.

    The interval is the other optimizer minus AdaMomentum.
    """
    mean, half, missed = c.difference.mean or 0.0, c.difference.half, c.missed
    if not half:
        return f"{c.other} ({mean:.3g} for every seed)"
    could = f"; detectable {amount(missed, missed)}" if missed is not None else ""
    return f"{c.other} ({amount(mean - half, half)} to {amount(mean + half, half)}{could})"


def reason(c: Comparison) -> str:
    """Say why two optimizers cannot be compared."""
    if c.base_lost or c.other_lost:
        return "some runs failed"
    return "one seed" if c.n == 1 else "every seed has the same difference"
