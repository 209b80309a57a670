"""Settings of an optimizer, and the values that are searched for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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
