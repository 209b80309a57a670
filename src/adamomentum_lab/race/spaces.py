"""The search space of a contender: its learning rate, and the other settings to search."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction

from adamomentum_lab.contender import Contender
from adamomentum_lab.errors import LabError
from adamomentum_lab.race.bracket import DIGITS, Axis, Choice, Point, Position, SearchSpace
from adamomentum_lab.space import DECADES_OF_LR, LOGARITHMIC, Range, Settings, Space, Value, ends

FIRST_DECAY = 1e-5
"""lr * weight_decay that a search for weight decay begins with, where the workload has none."""
Values = Range | tuple[Value, ...]
"""What a user gives for one setting: a range, or a list."""


def search_space(
    contender: Contender,
    start: Settings,
    *,
    tune: Collection[str] = ("lr",),
    wanted: Mapping[str, Values] | None = None,
    decay: float = 0.0,
    matched: bool = True,
    hard: bool = False,
) -> SearchSpace:
    """The space of a bracketing search for one contender.

    Args:
        contender: whose space it is.
        start: its settings before tuning.
        tune: the settings to search; those that `wanted` has values for are searched too.
        wanted: values that the user gave, by setting. The ends of a range, or of a list of numbers
            on a logarithmic scale, are tried first; other lists are tried whole. Settings that the
            contender does not have are ignored.
        decay: lr * weight_decay at the start, if `matched`.
        matched: whether weight decay is decoupled and measured as lr * weight_decay, for everyone.
        hard: whether nothing outside the values that the user gave is tried.
    """
    given = {
        name: values if isinstance(values, Range) else tuple(dict.fromkeys(map(_freeze, values)))
        for name, values in (wanted or {}).items()
        if name in contender.settings
    }
    # Without an lr there is no lr * weight_decay to match: such a contender keeps its own.
    matched = matched and "lr" in contender.settings
    fixed = dict(contender.decoupled(start) if matched else start)
    decays = matched and "weight_decay" in contender.settings
    names = [name for name in dict.fromkeys(["lr", *tune, *given]) if name in contender.settings]
    if "lr" in names and "lr" not in tune and "lr" not in given:
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


def wanted_values(
    contender: Contender,
    spaces: Mapping[str, Space],
    given: Mapping[str, Mapping[str, Values]],
    tune: tuple[str, ...],
) -> dict[str, Values]:
    """The values to search for a contender: its own, then the workload's, then those of --space.

    If settings to tune are named, the first two count for these alone. They do not count for
    settings that the user fixed.
    """
    contender.check(spaces.get(contender.name, {}))
    contender.check(given.get(contender.name, {}))
    own = {} if contender.space == {"lr": DECADES_OF_LR} else contender.space
    listed: dict[str, Values] = {
        name: tuple(values)
        for source in (own, spaces.get("*", {}), spaces.get(contender.name, {}))
        for name, values in source.items()
        if not tune or name in tune or len(values) == 1
    }
    fixed: dict[str, Values] = {name: (value,) for name, value in contender.fixed.items()}
    return {**listed, **given.get("*", {}), **fixed, **given.get(contender.name, {})}


def _axis(name: str, start: Value, values: Values | None, hard: bool) -> Axis:
    if values is None:
        if not isinstance(start, (int, float)) or start <= 0:
            raise LabError(
                f"{name} starts at {start!r}; a search on a logarithmic scale needs more."
            )
        return Axis(name, float(start))
    listed = (values.low, values.high) if isinstance(values, Range) else values
    for value in listed:
        if not isinstance(value, (int, float)) or value <= 0:
            raise LabError(f"{name} is searched on a logarithmic scale, which has no {value!r}.")
    low, high = ends(listed)
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


def match_decay(contender: Contender, settings: Settings, decay: float | None) -> Settings:
    """The settings with decoupled weight decay, of the strength lr * weight_decay = `decay`.

    None leaves the strength as it is.
    """
    if "lr" not in settings:
        return settings
    found = contender.decoupled(settings)
    lr = settings["lr"]
    if (
        decay is None
        or "weight_decay" not in contender.settings
        or not isinstance(lr, (int, float))
    ):
        return found
    return {**found, "weight_decay": float(f"{decay / lr:.{DIGITS}g}")}


def listed_space(tried: Sequence[Settings], decay: float | None = None) -> SearchSpace:
    """The space that a list of trials spans. The learning rate is an axis; each other setting that
    varies is a choice of the values in the list. Weight decay follows the learning rate if `decay`
    gives lr * weight_decay."""
    first = tried[0]
    varied = {
        name: tuple(dict.fromkeys(_freeze(settings[name]) for settings in tried))
        for name in first
        if decay is None or name != "weight_decay"
    }
    rates = varied.pop("lr", ())
    axes = []
    if len(rates) > 1 and all(isinstance(lr, (int, float)) and lr > 0 for lr in rates):
        start = first["lr"]
        assert isinstance(start, (int, float))
        axes.append(Axis("lr", float(start)))
    choices = [Choice(name, values, False) for name, values in varied.items() if len(values) > 1]
    follows = decay if "weight_decay" in first else None
    return SearchSpace(first, tuple(axes), tuple(choices), follows)


def point_of(space: SearchSpace, settings: Settings) -> Point:
    """The point of a listed space that has these settings."""
    places: list[Position] = []
    for axis in space.axes:
        value = settings[axis.name]
        assert isinstance(value, (int, float))
        places.append(axis.position_of(value))
    return (*places, *(one.values.index(_freeze(settings[one.name])) for one in space.choices))


def _freeze(value: Value) -> Value:
    return tuple(value) if isinstance(value, (list, tuple)) else value
