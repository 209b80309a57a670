"""Format numbers and lists for people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def number(value: Any) -> str:
    """Format a setting, such as `1e-3` or `(0.9, 0.999)`."""
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(map(number, value)) + ")"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    text = f"{value:g}"
    return text.replace("e-0", "e-").replace("e+0", "e+")


def setting_order(name: str) -> tuple[bool, bool, str]:
    """Return a sort key of settings: lr first, then eps and weight decay, then the rest."""
    return name not in ("lr", "weight_decay", "eps"), name != "lr", name


def decimals(uncertainty: float | None) -> int | None:
    """Return the digits after the point that show two digits of the uncertainty.

    None if there is no uncertainty, or if it is too small or too large to round by.
    """
    if not uncertainty or not math.isfinite(uncertainty):
        return None
    digits = 1 - math.floor(math.log10(uncertainty))
    return max(0, digits) if -5 <= digits <= 7 else None


def amount(value: float, uncertainty: float | None) -> str:
    """Format a number with the digits that its uncertainty justifies."""
    digits = decimals(uncertainty)
    text = f"{value:.3g}" if digits is None else f"{value:.{digits}f}"
    if digits is not None and float(text) == 0:
        return text.removeprefix("-")
    return text


def plus_minus(mean: float, half: float | None, exact: str = ".3g") -> str:
    """Format a mean, such as `97.32 ± 0.21`. Without uncertainty it has the format `exact`."""
    text = amount(mean, half) if half else f"{mean:{exact}}"
    return text if half is None else f"{text} ± {amount(half, half)}"


def probability(p: float, level: float = 0.05) -> str:
    """Format a p-value, such as `p = 0.012`. It is never rounded across the level."""
    if p < 0.001:
        return "p < 0.001"
    for digits in range(2, 17):
        text = f"{p:.{digits}g}"
        if (float(text) <= level) == (p <= level):
            break
    return f"p = {text}"


def join_words(names: Sequence[str], word: str = "and") -> str:
    """Join words, such as `a, b and c`."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {word} {names[-1]}"


def duration(seconds: float) -> str:
    """About so long, in words."""
    for unit, size, limit in (("s", 1, 90), ("min", 60, 90 * 60), ("h", 3600, 48 * 3600)):
        if seconds < limit:
            return f"{max(1, round(seconds / size))} {unit}"
    return f"{round(seconds / 86400)} days"


def bytes_in_words(size: float) -> str:
    """Format a number of bytes, such as `1.2 MB`."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def count_noun(n: int, noun: str) -> str:
    """Count things, such as `1 seed` or `2 seeds`."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
