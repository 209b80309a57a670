"""Protocols: which epoch is reported, whether there is tuning, and what that means for a reader.

The lab knows `fair`. Plugins add others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from adamomentum_lab.errors import LabError, unknown
from adamomentum_lab.plugins import provided

Scale = Literal["smoke", "mini", "full"]
SCALES: tuple[Scale, ...] = get_args(Scale)
OURS = "adamomentum"
"""Whom the others are compared with."""
Selection = Literal["validation", "last", "test"]


def at_scale(value: int | Mapping[str, int], scale: str) -> int:
    """A number that a workload gives for all scales together, or for each."""
    return value if isinstance(value, int) else value[scale]


@dataclass(frozen=True)
class Protocol:
    """The rules of a comparison."""

    select: Selection
    """The epoch that is reported: the best on validation; the last; the best on test."""
    tune: bool
    """Whether settings are searched; otherwise a workload states them for each optimizer."""
    summary: str
    """For `adamomentum list`."""
    words: str
    """What was done, for the report."""
    flaws: tuple[str, ...] = ()
    """What a reader has to know, on every workload."""
    flaws_on: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The same on single workloads, by how their names begin."""

    def flaws_of(self, workload: str) -> tuple[str, ...]:
        """What a reader has to know of this protocol on a workload."""
        found = (flaws for start, flaws in self.flaws_on.items() if workload.startswith(start))
        return (*self.flaws, *next(found, ()))


_DECAY = "Weight decay has the form each optimizer is known by, coupled or decoupled."
FAIR = Protocol(
    select="validation",
    tune=True,
    summary="equal tuning, validation chooses",
    words="Every optimizer was tuned with the same number of runs on validation data; test was "
    "read at the epoch that validation chose, over seeds that tuned nothing.",
    flaws=(
        _DECAY,
        "Intervals are over seeds; the luck of tuning, which happened once, is not in them.",
    ),
)
UNTUNED = Protocol(
    select="validation",
    tune=False,
    summary=FAIR.summary,
    words="Nothing was tuned; test was read at the epoch that validation chose.",
    flaws=(_DECAY, "Defaults may suit one optimizer better than another here."),
)
"""What `fair` is with no trials."""


def protocols() -> dict[str, Protocol]:
    """By name, `fair` first."""
    found = {"fair": FAIR}
    for more in provided("protocols"):
        found |= more
    return found


def get(name: str) -> Protocol:
    """The protocol of this name."""
    known = protocols()
    if name not in known:
        raise LabError(unknown("protocol", name, known))
    return known[name]
