"""What each change of the paper buys: contenders that differ in one thing, beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from adamomentum_lab.race.judge import Effect, Row, score_pair
from adamomentum_lab.selection import Measure
from adamomentum_lab.space import Settings
from adamomentum_lab.stats.comparisons import compare_pairs
from adamomentum_lab.words import join_words


@dataclass(frozen=True)
class Change:
    """From one contender to another there is one change."""

    what: str
    before: str
    after: str
    unless: Settings = field(default_factory=dict, hash=False)
    """Settings of `before` under which there is no such change."""


CHANGES = (
    Change("squaring the momentum in v, not the gradient", "eadam", "adamomentum"),
    Change("eps inside v, not beside its root", "adamomentum-outer-eps", "adamomentum"),
    Change("eps inside v, not beside its root, for Adam", "adam", "eadam"),
    Change("being more than a larger lr for Adam", "adam-translated", "adamomentum"),
    Change("RAdam's rectification", "adamomentum", "adamomentum-rectified", {"rectify": True}),
    Change("squaring the bias-corrected momentum", "adamomentum", "adamomentum-debiased"),
)


def effects(rows: Sequence[Row], by: Measure, tuned: bool) -> list[Effect]:
    """Every change whose two contenders were raced, with Holm's correction over those."""
    by_name = {row.optimizer: row for row in rows}
    shown = [
        change
        for change in CHANGES
        if change.before in by_name
        and change.after in by_name
        and not _has(by_name[change.before].settings, change.unless)
    ]
    pairs = [score_pair(by_name[change.before], by_name[change.after]) for change in shown]
    found = compare_pairs(pairs, by.larger_is_better)
    told = []
    for change, comparison in zip(shown, found, strict=True):
        differing = _differences(by_name[change.before].settings, by_name[change.after].settings)
        caveat = _caveat(change, differing, tuned)
        told.append(Effect(change.what, comparison, differing, caveat))
    return told


def _has(settings: Settings, some: Settings) -> bool:
    return bool(some) and all(settings.get(name) == value for name, value in some.items())


def _differences(before: Settings, after: Settings) -> dict[str, list[object]]:
    """A setting that one lacks is as if it were off: such is AdaMomentum's `rectify`."""
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
    how = "Each was tuned for itself" if tuned else "Each had its own settings"
    return (
        f"{how}: {change.before} and {change.after} also differ in {names}, and what that does is "
        "part of the difference."
    )


def _in_words(name: str) -> str:
    named = {"decoupled_weight_decay": "the form of weight decay"}
    return named.get(name, name.replace("_", " "))
