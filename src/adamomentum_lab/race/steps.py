"""Times of an update and memory, measured apart from the race, as a record holds them."""

from __future__ import annotations

from dataclasses import dataclass

from adamomentum_lab.race.record import Record
from adamomentum_lab.race.typed_json import FaultError, decode


@dataclass(frozen=True)
class StepTime:
    """What an update of a contender takes: data, forward and backward pass, and step."""

    milliseconds: float
    """The median."""
    low: float
    """The quartiles."""
    high: float
    updates: int
    """How many were measured."""
    memory: int
    """Bytes of model, gradients and optimizer state, at the peak of a step of the optimizer."""
    alone: float
    """The share of the time in which this process was computing; less than 0.9 if others were."""


def steps_of(record: Record) -> dict[str, StepTime]:
    """By contender; empty if nothing was measured."""
    try:
        found: dict[str, StepTime] = decode(
            dict[str, StepTime], record.machine.get("steps", {}), "machine.steps"
        )
    except FaultError:
        return {}
    return found if {*record.spec.optimizers} <= found.keys() else {}
