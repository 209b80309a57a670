"""The messages between a driver and its workers. This module imports no torch, to start fast."""

from __future__ import annotations

from dataclasses import dataclass

from adamomentum_lab.engine.events import EpochEnded, RunEnded, RunUpdated
from adamomentum_lab.errors import LabError


@dataclass(frozen=True)
class Surroundings:
    """To a worker: the driver's `sys.path`, `sys.argv` and working directory."""

    path: list[str]
    argv: list[str]
    folder: str


@dataclass(frozen=True)
class Ready:
    """From a worker: it has started."""


@dataclass(frozen=True)
class Begun:
    """From the process of a run: it has started."""

    process: int
    """Its number, by which its group is ended."""


@dataclass(frozen=True)
class Busy:
    """Another process is training the run."""

    who: str


@dataclass(frozen=True)
class Failed:
    """The run ended with an error: a MachineError, or one that the user can fix."""

    error: LabError


@dataclass(frozen=True)
class Died:
    """The worker died during the run. The driver makes this message itself."""

    how: str
    by_machine: bool = True
    """Whether by a signal or with its machine, and not by an exit status of its own."""


Progress = Begun | RunUpdated | EpochEnded
"""Messages of a running job. Any other message ends its job."""
Message = Progress | RunEnded | Busy | Failed | Died
"""Messages about a job."""
