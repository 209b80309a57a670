"""The rules of a comparison: how large, which epoch counts, and whether settings are searched.

A protocol is a name for some rules. The lab knows `fair`; plugins add others, and a workload may
have rules of its own under each name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from adamomentum_lab.errors import LabError, unknown
from adamomentum_lab.plugins import provided

Scale = Literal["smoke", "mini", "full"]
SCALES: tuple[Scale, ...] = get_args(Scale)
Selection = Literal["validation", "last", "test"]


def at_scale(value: int | Mapping[str, int], scale: str) -> int:
    """A number that a workload gives for all scales together, or for each."""
    return value[scale] if isinstance(value, Mapping) else value


@dataclass(frozen=True)
class Rules:
    """The rules of a protocol."""

    select: Selection = "validation"
    """The epoch that is reported: the best on validation; the last; the best on test."""
    tune: bool = True
    """Whether settings are searched; otherwise a workload states them for each optimizer."""
    summary: str = ""
    """For `adamomentum list`."""
    words: str = ""
    """What was done, for the report."""
    flaws: tuple[str, ...] = ()
    """What a reader of the report has to know, by names that FLAWS explains."""

    def __post_init__(self) -> None:
        if self.select not in get_args(Selection):
            raise LabError(unknown("selection", str(self.select), get_args(Selection)))


FLAWS = {
    "forms of decay": (
        "Weight decay has the form each optimizer is known by, coupled or decoupled."
    ),
    "luck of tuning": (
        "Intervals are over seeds; the luck of tuning, which happened once, is not in them."
    ),
    "untuned": "Defaults may suit one optimizer better than another here.",
}
"""Sentences by name. Plugins add theirs. A name that nobody explains is shown as it is."""
FAIR = Rules(
    summary="equal tuning, validation chooses",
    words="Every optimizer was tuned with the same number of runs on validation data; test was "
    "read at the epoch that validation chose, over seeds that tuned nothing.",
    flaws=("forms of decay", "luck of tuning"),
)
UNTUNED = Rules(
    tune=False,
    words="Nothing was tuned; test was read at the epoch that validation chose.",
    flaws=("forms of decay", "untuned"),
)
"""What `fair` is with no trials."""


def protocols() -> dict[str, Rules]:
    """The rules of each protocol, `fair` first."""
    found = {"fair": FAIR}
    for more in provided("rules"):
        found |= more
    return found


def get(protocol: str) -> Rules:
    """The rules of a protocol, where a workload has none of its own."""
    known = protocols()
    if protocol not in known:
        raise LabError(unknown("protocol", protocol, known))
    return known[protocol]


def explain(flaws: Iterable[str]) -> list[str]:
    """Flaws in sentences."""
    known = dict(FLAWS)
    for more in provided("flaws"):
        known |= more
    return [known.get(name, name) for name in flaws]
