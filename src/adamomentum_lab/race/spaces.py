"""What a bracketing search searches for a contender: the learning rate, and what is asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fractions import Fraction

from adamomentum_lab.contender import Contender
from adamomentum_lab.errors import LabError
from adamomentum_lab.race.bracket import Axis, Choice, Position, SearchSpace
from adamomentum_lab.space import LOGARITHMIC, Range, Settings, Value, ends

FIRST_DECAY = 1e-5
"""lr * weight_decay that a search for weight decay begins with, where the workload has none."""
Values = Range | tuple[Value, ...]
Wanted = Mapping[str, Mapping[str, Values]]
"""Values by optimizer and setting. Those under "*" are for every optimizer that has the setting."""


def search_space(
    contender: Contender,
    start: Settings,
    *,
    tune: Collection[str] = ("lr",),
    wanted: Wanted | None = None,
    decay: float = 0.0,
    matched: bool = True,
    hard: bool = False,
) -> SearchSpace:
    """The space of one contender.

    Args:
        contender: whose space it is.
        start: its settings before tuning.
        tune: the settings to search; those that `wanted` has values for are searched too.
        wanted: values that the user gave. The ends of a range, or of a list of numbers on a
            logarithmic scale, are tried first; other lists are tried whole.
        decay: lr * weight_decay at the start, if `matched`.
        matched: whether weight decay is decoupled and measured as lr * weight_decay, for everyone.
        hard: whether nothing outside the values that the user gave is tried.
    """
    given = {**(wanted or {}).get("*", {}), **(wanted or {}).get(contender.name, {})}
    contender.check((wanted or {}).get(contender.name, {}))
    given = {name: values for name, values in given.items() if name in contender.settings}
    fixed = dict(contender.decoupled(start) if matched else start)
    decays = matched and "weight_decay" in contender.settings
    names = [name for name in dict.fromkeys(["lr", *tune, *given]) if name in contender.settings]
    if "lr" not in tune and "lr" not in given:
        names.remove("lr")
    axes, choices = [], []
    for name in names:
        values = given.get(name)
        if values is not None and not isinstance(values, Range) and len(values) == 1:
            fixed[name] = values[0]
        elif name == "weight_decay" and decays and values is None:
            axes.append(_decay_axis(decay))
        elif values is None and name != "lr":
            raise LabError(
                f"{contender.name} has no values of {name} to search; give some, such as "
                f"--space {contender.name}.{name}=..."
            )
        elif values is None or isinstance(values, Range) or name in LOGARITHMIC:
            axes.append(_axis(name, fixed[name], values, hard))
        else:
            choices.append(Choice(name, _first(fixed[name], values)))
    searched = any(axis.name in ("decay", "weight_decay") for axis in axes)
    lr_first = sorted(axes, key=lambda axis: axis.name != "lr")
    strength = None if searched or not decays or "weight_decay" in given else decay
    return SearchSpace(fixed, tuple(lr_first), tuple(choices), strength)


def _axis(name: str, start: Value, values: Values | None, hard: bool) -> Axis:
    if values is None:
        if not isinstance(start, (int, float)) or start <= 0:
            raise LabError(
                f"{name} starts at {start!r}; a search on a logarithmic scale needs more."
            )
        return Axis(name, float(start))
    low, high = (values.low, values.high) if isinstance(values, Range) else ends(values)
    if low <= 0:
        raise LabError(f"{name} is searched on a logarithmic scale, which has no {low:g}.")
    axis = Axis(name, low)
    last = axis.position_of(high)
    assert isinstance(last, Fraction)
    first: tuple[Position, ...] = (Fraction(0), last)
    return Axis(name, low, first, Fraction(0) if hard else None, last if hard else None)


def _decay_axis(decay: float) -> Axis:
    """From the workload's own strength, none, and a decade to either side."""
    decades: tuple[Position, ...] = (Fraction(0), Fraction(1), Fraction(-1))
    first = (decades[0], None, *decades[1:]) if decay else (None, *decades)
    return Axis("decay", decay or FIRST_DECAY, first)


def _first(start: Value, values: tuple[Value, ...]) -> tuple[Value, ...]:
    """The values, that of the start first if it is among them."""
    return tuple(sorted(values, key=lambda value: value != start))
