"""The effect of each change of the paper: comparisons of contenders that differ in one thing."""

from __future__ import annotations

from dataclasses import dataclass, field

from adamomentum_lab.race.judge import Effect
from adamomentum_lab.race.referee import Pair
from adamomentum_lab.race.result import Result
from adamomentum_lab.space import Settings
from adamomentum_lab.words import join_words


@dataclass(frozen=True)
class Change:
    """Two contenders that differ in one thing."""

    what: str
    before: str
    after: str
    unless: Settings = field(default_factory=dict, hash=False)
    """With these settings of `before`, the two do not differ in this thing."""


CHANGES = (
    Change("squaring the momentum in v, not the gradient", "eadam", "adamomentum"),
    Change("eps inside v, not beside its root", "adamomentum-outer-eps", "adamomentum"),
    Change("eps inside v, not beside its root, for Adam", "adam", "eadam"),
    Change("being more than a larger lr for Adam", "adam-translated", "adamomentum"),
    Change("its step lengths, tensor by tensor, for Adam", "eadam", "adam-matched-rms"),
    Change("its directions within tensors", "adam-matched-rms", "adamomentum"),
    Change("RAdam's rectification", "adamomentum", "adamomentum-rectified", {"rectify": True}),
    Change("squaring the bias-corrected momentum", "adamomentum", "adamomentum-debiased"),
)


def effects(result: Result) -> list[Effect]:
    """Judge every change whose two contenders were raced. Corrected for the number of changes."""
    by_name = {row.optimizer: row for row in result.rows}
    shown = [
        change
        for change in CHANGES
        if change.before in by_name
        and change.after in by_name
        and not _has(by_name[change.before].settings, change.unless)
    ]
    found = []
    verdicts = result.judge([Pair(change.after, change.before) for change in shown])
    for change, verdict in zip(shown, verdicts, strict=True):
        differing = _differences(by_name[change.before].settings, by_name[change.after].settings)
        caveat = _caveat(change, differing, tuned=result.race.trials > 0)
        found.append(Effect(change.what, verdict, differing, caveat))
    return found


def _has(settings: Settings, some: Settings) -> bool:
    return bool(some) and all(settings.get(name) == value for name, value in some.items())


def _differences(before: Settings, after: Settings) -> dict[str, list[object]]:
    """Return the settings that differ. A missing setting, such as `rectify`, counts as off."""
    decays = bool(before.get("weight_decay") or after.get("weight_decay"))
    found = {}
    for name in dict.fromkeys([*before, *after]):
        a, b = (_plain(settings.get(name, False)) for settings in (before, after))
        if a != b and (decays or name != "decoupled_weight_decay"):
            found[name] = [a, b]
    return found


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _caveat(change: Change, differing: dict[str, list[object]], tuned: bool) -> str:
    if not differing:
        return ""
    names = join_words([_in_words(name) for name in differing])
    how = "Each was tuned separately" if tuned else "Each had its own settings"
    return (
        f"{how}: {change.before} and {change.after} also differ in {names}, which is part of the "
        "difference."
    )


def _in_words(name: str) -> str:
    named = {"decoupled_weight_decay": "the form of weight decay"}
    return named.get(name, name.replace("_", " "))
