"""The events of runs, for progress bars and experiment trackers.

A listener is a function of one event. `run_race(..., listeners=[...])` calls every listener in the
thread of the race, in the order of events, so listeners should be quick.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from adamomentum_lab.engine.spec import Spec
    from adamomentum_lab.engine.store import Run
    from adamomentum_lab.selection import EpochRecord

Stage = Literal["tuning", "final", "check"]
"""The purpose of a run: `tuning` chooses settings, `final` is reported, and `check` tests on the
final seeds whether a value next to the chosen one is better."""
Scores = Mapping[str, Mapping[str, float]]
"""split (train, validation, test) -> name of a score -> value."""


@dataclass(frozen=True)
class RunBegun:
    """A worker has started or resumed a run. If the worker dies, the run begins once more."""

    stage: Stage
    spec: Spec
    """The run's optimizer, settings and seed, and all else that decides its numbers."""


@dataclass(frozen=True)
class RunUpdated:
    """Progress within a run, about twice a second."""

    stage: Stage
    spec: Spec
    epoch: float
    """Epochs since the start of the run, as a fraction: 2.5 is the middle of the third."""


@dataclass(frozen=True)
class EpochEnded:
    """A run has finished an epoch. If its worker dies, epochs since the last checkpoint repeat."""

    stage: Stage
    spec: Spec
    record: EpochRecord
    """The record of the epoch as it is stored."""
    seconds: float
    """Training time, without evaluations."""

    @property
    def epoch(self) -> int:
        """The number of the epoch; the first is 1."""
        number: int = self.record["epoch"]
        return number

    @property
    def scores(self) -> Scores:
        """The scores that may be shown; see `scores_to_show`."""
        return scores_to_show(self.stage, self.record)


@dataclass(frozen=True)
class RunEnded:
    """A run is complete, or has failed. A run that was finished before has no other events."""

    stage: Stage
    run: Run
    """The run. Its status is done, diverged, failed, or stopped if only a part was requested."""
    epochs: int | None
    """How many epochs were requested; None is the whole run."""

    @property
    def spec(self) -> Spec:
        """The run's optimizer, settings and seed, and all else that decides its numbers."""
        return self.run.spec


@dataclass(frozen=True)
class RunsDropped:
    """Runs of the plan that will not take place, since an optimizer has too few trials left."""

    stage: Stage
    optimizer: str
    runs: int
    epochs: int
    """Of these runs together."""


@dataclass(frozen=True)
class RunsAdded:
    """Additional runs that the plan did not contain, since a verdict may depend on them."""

    stage: Stage
    optimizer: str
    runs: int
    epochs: int
    """Of these runs together."""


Event = RunBegun | RunUpdated | EpochEnded | RunEnded | RunsDropped | RunsAdded
Listener = Callable[[Event], None]


def scores_to_show(stage: Stage, record: EpochRecord) -> Scores:
    """Return the scores of an epoch; of a tuning run without test, by which nothing is chosen."""
    hidden = {"epoch", "test"} if stage == "tuning" else {"epoch"}
    return {split: scores for split, scores in record.items() if split not in hidden}


def broadcast(listeners: Iterable[Listener], say: Callable[[str], None]) -> Listener:
    """Combine listeners into one.

    If a listener raises an Exception, the race continues without that listener, and `say` gets a
    sentence about it.
    """
    active = list(listeners)

    def emit(event: Event) -> None:
        for listener in tuple(active):
            try:
                listener(event)
            except Exception as error:
                active.remove(listener)
                name = getattr(listener, "__qualname__", type(listener).__qualname__)
                why = type(error).__name__
                with contextlib.suppress(Exception):  # the user's class may fail in __str__
                    why += f": {error}"
                say(f"The listener {name} failed ({why}); the race goes on without it.")

    return emit
