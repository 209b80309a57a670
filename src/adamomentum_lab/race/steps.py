"""Times of an update and memory, measured apart from the race, as a record holds them."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from adamomentum_lab.errors import LabError
from adamomentum_lab.race.record import Record
from adamomentum_lab.race.typed_json import FaultError, decode

if TYPE_CHECKING:
    from pathlib import Path

    from adamomentum_lab.catalog import Reference
    from adamomentum_lab.engine.store import Store

UPDATES = {"smoke": 20, "mini": 200, "full": 200}
SECONDS = {"smoke": 1.0, "mini": 10.0, "full": 60.0}
"""For each contender, at most; slow updates are measured fewer times."""


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


def with_known_steps(record: Record, file: Path) -> Record | None:
    """The record with the times that its file has, if that holds the same runs; None if not."""
    try:
        known = Record.read(file)
    except LabError:
        return None
    if known.runs != record.runs or not steps_of(known):
        return None
    return replace(record, machine={**record.machine, "steps": known.machine["steps"]})


def with_steps(record: Record, reference: Reference, store: Store) -> Record:
    """The record with times and memory of an update of each contender at its tuned settings.

    They are measured in this process, on one thread, while no run of the race is under way.
    """
    import torch

    from adamomentum_lab.engine.job import Job, make_loop
    from adamomentum_lab.training.stopwatch import measure

    race = record.spec
    specs = {r.spec.optimizer: r.spec for r in record.runs if r.stage == "final"}
    loops = {}
    for name in race.optimizers:
        job = Job(
            specs[name], reference, store.folder_of(specs[name]), entry=race.entries.get(name)
        )
        loops[name] = functools.partial(make_loop, job)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        steps = measure(loops, UPDATES[race.scale], SECONDS[race.scale])
    finally:
        torch.set_num_threads(threads)
    return replace(record, machine={**record.machine, "steps": steps})
