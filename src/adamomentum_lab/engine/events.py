"""What happens to runs, as it happens: one stream of events for progress, trackers and their like.

A listener is a function of one event. `run_race(..., listeners=[...])` calls it in its own thread,
in the order of events, so it should be quick.
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

Stage = Literal["tuning", "final"]
"""What a run is for: to choose settings, or to be reported."""
Scores = Mapping[str, Mapping[str, float]]
"""By split (train, validation, test), then by the name of a score."""


@dataclass(frozen=True)
class RunBegun:
    """A run was given to a worker: a new one, or the rest of one. After the death of its worker a
    run begins again."""

    stage: Stage
    spec: Spec
    """The run's optimizer, settings and seed, and all else that decides its numbers."""


@dataclass(frozen=True)
class RunUpdated:
    """How far a run is; about twice a second."""

    stage: Stage
    spec: Spec
    epoch: float
    """Epochs since the start of the run, parts included."""


@dataclass(frozen=True)
class EpochEnded:
    """A run has one more epoch. Those after the last checkpoint come again if its worker dies."""

    stage: Stage
    spec: Spec
    record: EpochRecord
    """As it is stored."""
    seconds: float
    """Of training alone."""

    @property
    def epoch(self) -> int:
        """Its number; the first is 1."""
        number: int = self.record["epoch"]
        return number

    @property
    def scores(self) -> Scores:
        """What may be shown of the epoch."""
        return scores_to_show(self.stage, self.record)


@dataclass(frozen=True)
class RunEnded:
    """A run has all that was asked for, or will not get it. It may have been finished before, and
    then had no other events."""

    stage: Stage
    run: Run
    """With its status (done, diverged, stopped where more of it is left, failed) and its epochs."""
    epochs: int | None
    """How many it was to have; None is the whole run."""

    @property
    def spec(self) -> Spec:
        """The run's optimizer, settings and seed, and all else that decides its numbers."""
        return self.run.spec


@dataclass(frozen=True)
class RunsDropped:
    """Some runs of the plan will not take place: too few trials of an optimizer are left."""

    stage: Stage
    optimizer: str
    runs: int
    epochs: int
    """Of these runs together."""


Event = RunBegun | RunUpdated | EpochEnded | RunEnded | RunsDropped
Listener = Callable[[Event], None]


def scores_to_show(stage: Stage, record: EpochRecord) -> Scores:
    """The scores of an epoch; of a trial without those on test, by which nothing may be chosen."""
    hidden = {"epoch", "test"} if stage == "tuning" else {"epoch"}
    return {split: scores for split, scores in record.items() if split not in hidden}


def broadcast(listeners: Iterable[Listener], say: Callable[[str], None]) -> Listener:
    """A listener that passes events on to all of these.

    A listener that raises an Exception does not end the race: `say` gets one sentence, and that
    listener hears no more.
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
                with contextlib.suppress(Exception):  # a text of the user's making
                    why += f": {error}"
                say(f"The listener {name} failed ({why}); the race goes on without it.")

    return emit
