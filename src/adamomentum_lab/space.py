"""Settings of an optimizer, and the values that are searched for them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adamomentum_lab.errors import LabError

Value = float | str | Sequence[float] | None
"""The value of one setting: a number, a switch, a name or a pair of betas."""
Settings = Mapping[str, Value]
"""setting -> value. Names are those of the optimizer's class."""
Stated = Mapping[str, Settings]
"""optimizer -> settings. "*" is every optimizer that has the setting."""
Space = Mapping[str, tuple[Value, ...]]
"""setting -> values to search. A single value is held fixed."""

TUNABLE = ("lr", "weight_decay", "eps", "betas", "momentum", "final_lr")
"""The settings that can be searched."""
LOGARITHMIC = frozenset({"lr", "weight_decay", "eps", "final_lr", "end_lr"})
"""The settings that are searched on a logarithmic scale. Others need lists of values."""
DECADES_OF_LR = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
"""The learning rates to search if an optimizer has no space of its own."""


def ends(values: Iterable[Value]) -> tuple[float, float]:
    """Return the smallest and the largest number among the values of a setting."""
    numbers = [value for value in values if isinstance(value, (int, float))]
    return min(numbers), max(numbers)


@dataclass(frozen=True)
class Range:
    """All values between `low` and `high`, on a logarithmic scale."""

    low: float
    high: float


def parse_space(text: str) -> tuple[str, str, Range | tuple[Value, ...]]:
    """Parse a search space such as "adamw.lr=1e-5:1e-1". Return optimizer, setting and values.

    Values are a range with a colon, or a list of Python literals with commas, as in
    "sgdm.momentum=0.8,0.9" or "adam.betas=(0.9,0.95),(0.9,0.999)". "*" is every optimizer.
    """
    name, equals, values = text.partition("=")
    optimizer, dot, setting = name.strip().rpartition(".")
    if not (equals and dot and optimizer and setting and values.strip()):
        raise LabError(f"{text!r} is not a search space; write one such as adamw.lr=1e-5:1e-1.")
    if ":" in values:
        low, high = (_literal(part, text) for part in values.split(":", 1))
        if not all(type(end) in (int, float) for end in (low, high)) or not 0 < low < high:
            raise LabError(f"the range in {text!r} must be two numbers above 0, the smaller first.")
        return optimizer, setting, Range(float(low), float(high))
    found = _literal(f"({values},)", text)
    return optimizer, setting, tuple(found)


def _literal(text: str, whole: str) -> Any:
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise LabError(f"the values in {whole!r} must be Python literals.") from error
