"""The settings of an optimizer as words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from adamomentum_lab import contenders
from adamomentum_lab.space import Settings
from adamomentum_lab.words import number, setting_order

if TYPE_CHECKING:
    from adamomentum_lab.contender import Entry


def settings_in_words(
    settings: Settings,
    optimizer: str,
    only_changed: bool = True,
    entries: Mapping[str, Entry] | None = None,
) -> str:
    """The lr, and what differs from the optimizer's defaults; a race has `entries`."""
    entry = (entries or {}).get(optimizer)
    known = optimizer in contenders.names()
    defaults = entry.defaults if entry else contenders.get(optimizer).settings if known else {}
    given = entry.options if entry else {}
    if not settings.get("weight_decay"):  # then its form makes no difference
        settings = {k: value for k, value in settings.items() if k != "decoupled_weight_decay"}
    shown = ", ".join(
        f"{name.replace('_', ' ')} {number(settings[name])}"
        for name in sorted(settings, key=setting_order)
        if name == "lr"
        or not only_changed
        or name in given
        or _differs(settings[name], defaults.get(name))
    )
    return shown or "defaults"


def _differs(value: Any, default: Any) -> bool:
    return list(value) != list(default) if isinstance(value, (list, tuple)) else value != default
