"""Protocols: which epoch of a run counts, and whether settings are searched.

A protocol is a name for some rules. The lab has `fair`. Plugins add others, and a workload may have
its own rules under each name.
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
    """Return a workload's number at a scale. It may be one number for all scales."""
    return value[scale] if isinstance(value, Mapping) else value


@dataclass(frozen=True)
class Rules:
    """The rules of a protocol."""

    select: Selection = "validation"
    """Which epoch is reported: the best on validation, the last, or the best on test."""
    tune: bool = True
    """Whether settings are searched; otherwise a workload states them for each optimizer."""
    decay: Literal["matched", "own"] = "matched"
    """The form of weight decay. `matched`: decoupled for every optimizer, with a strength in the
    unit lr * weight_decay. `own`: the usual form of each optimizer."""
    summary: str = ""
    """A few words for `adamomentum list`."""
    words: str = ""
    """Sentences for the report: what was done."""
    flaws: tuple[str, ...] = ()
    """Known flaws, as names that FLAWS explains. The report shows them."""

    def __post_init__(self) -> None:
        if self.select not in get_args(Selection):
            raise LabError(unknown("selection", str(self.select), get_args(Selection)))


FLAWS = {
    "forms of decay": (
        "Weight decay has the form each optimizer is known by, coupled or decoupled."
    ),
    "luck of tuning": (
        "Settings were tuned once, on one seed. Intervals cover seeds and the placing of the "
        "learning rate, but not the luck of tuning the other settings."
    ),
    "untuned": "Defaults may suit one optimizer better than another here.",
}
"""name of a flaw -> sentence. Plugins add theirs. Unknown names are shown as they are."""
FAIR = Rules(
    summary="equal tuning, validation chooses",
    words="Every optimizer had the same number of tuning runs, scored on validation data. Test "
    "was read at the epoch that validation chose, over seeds that were not used for tuning. All "
    "use decoupled weight decay of the same strength, lr * weight_decay.",
    flaws=("luck of tuning",),
)
UNTUNED = Rules(
    tune=False,
    words="Nothing was tuned; test was read at the epoch that validation chose.",
    flaws=("untuned",),
)
"""The rules of `fair` without trials."""


def protocols() -> dict[str, Rules]:
    """Return the rules of every protocol, `fair` first."""
    found = {"fair": FAIR}
    for more in provided("rules"):
        found |= more
    return found


def get(protocol: str) -> Rules:
    """Return the rules of a protocol for workloads without rules of their own."""
    known = protocols()
    if protocol not in known:
        raise LabError(unknown("protocol", protocol, known))
    return known[protocol]


def explain(flaws: Iterable[str]) -> list[str]:
    """Return a sentence for each flaw."""
    known = dict(FLAWS)
    for more in provided("flaws"):
        known |= more
    return [known.get(name, name) for name in flaws]
