"""What a driver and its workers say to each other. Light to import: a worker needs it first."""

from __future__ import annotations

from dataclasses import dataclass

from adamomentum_lab.engine.events import EpochEnded, RunEnded, RunUpdated
from adamomentum_lab.errors import LabError


@dataclass(frozen=True)
class Setting:
    """To a worker: where the driver is, and where it finds modules."""

    path: list[str]
    argv: list[str]
    folder: str


@dataclass(frozen=True)
class Ready:
    """From a worker: it has started."""


@dataclass(frozen=True)
class Busy:
    """Another process is at work on the run."""


@dataclass(frozen=True)
class Failed:
    """The run ended with an error that is the user's to mend."""

    error: LabError


@dataclass(frozen=True)
class Died:
    """The worker ended before the run did. Noticed by the driver."""

    how: str


Progress = RunUpdated | EpochEnded
"""The job goes on after these messages, and ends with any other."""
Message = Progress | RunEnded | Busy | Failed | Died
"""Of a job."""
