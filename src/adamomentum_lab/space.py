"""Settings of an optimizer, and the values that are searched for them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adamomentum_lab.errors import LabError

Value = float | str | Sequence[float] | None
"""Of one setting: a number, a switch, a name, a pair of betas."""
Settings = Mapping[str, Value]
"""Values by the names of settings, as the optimizer's class calls them."""
Stated = Mapping[str, Settings]
"""Settings by optimizer. Those under "*" are for every optimizer that has them."""
Space = Mapping[str, tuple[Value, ...]]
"""The values of each setting that is searched. A single value is held fixed."""

TUNABLE = ("lr", "weight_decay", "eps", "betas", "momentum", "final_lr")
"""The settings that can be searched."""
LOGARITHMIC = frozenset({"lr", "weight_decay", "eps", "final_lr"})
"""Those that are searched on a logarithmic scale. Of the others values are listed."""
DECADES_OF_LR = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
"""The learning rates that a contender searches unless it has a space of its own."""


def ends(values: Iterable[Value]) -> tuple[float, float]:
    """The smallest and the largest number among the values of a setting."""
    numbers = [value for value in values if isinstance(value, (int, float))]
    return min(numbers), max(numbers)


@dataclass(frozen=True)
class Range:
    """All values between two, on a logarithmic scale."""

    low: float
    high: float


def parse_space(text: str) -> tuple[str, str, Range | tuple[Value, ...]]:
    """An optimizer, a setting, and its values, from such as "adamw.lr=1e-5:1e-1".

    Values are a range with a colon or a list with commas, whose items are Python literals:
    "sgdm.momentum=0.8,0.9", "adam.betas=(0.9,0.95),(0.9,0.999)". The optimizer "*" is all of them.
    """
    name, equals, values = text.partition("=")
    optimizer, dot, setting = name.strip().rpartition(".")
    if not (equals and dot and optimizer and setting and values.strip()):
        raise LabError(f"{text!r} is no search space; write it as adamw.lr=1e-5:1e-1.")
    if ":" in values:
        low, high = (_literal(part, text) for part in values.split(":", 1))
        if not all(type(end) in (int, float) for end in (low, high)) or not 0 < low < high:
            raise LabError(f"the range of {text!r} must have two ends above 0, the smaller first.")
        return optimizer, setting, Range(float(low), float(high))
    found = _literal(f"({values},)", text)
    return optimizer, setting, tuple(found)


def _literal(text: str, whole: str) -> Any:
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise LabError(f"the values of {whole!r} are no Python literals.") from error
