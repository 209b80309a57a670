"""What a race will cost, measured before it starts: time, disk and memory."""

from __future__ import annotations

import resource
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from adamomentum_lab.adversarial import Networks
from adamomentum_lab.catalog import Reference
from adamomentum_lab.engine.job import Job, execute
from adamomentum_lab.engine.store import Store
from adamomentum_lab.race.plan import Plan
from adamomentum_lab.race.reuse import known_specs
from adamomentum_lab.schedules import Moment
from adamomentum_lab.words import count_noun
from adamomentum_lab.workload import Workload

FIRST = 2
"""Updates that are not counted: they allocate memory and wait for the first batches."""
SECONDS, MOST, PATIENCE = 1.0, 100, 60.0
"""Updates of each contender are measured for a second, or until there are 100. If they are so slow
that a minute has passed, two are enough."""
PART = 1_000
"""Examples of an evaluation that is measured."""
KEPT = 2
"""Checkpoints that a run has."""


@dataclass(frozen=True)
class Cost:
    """What is left of a race costs, on one device and one run at a time."""

    runs: int = 0
    updates: int = 0
    """Of all runs."""
    seconds: float = 0.0
    """Of all runs: updates, evaluations and checkpoints."""
    longest: float = 0.0
    """Seconds of the longest run."""
    milliseconds: dict[str, float] = field(default_factory=dict)
    """By contender, of an update."""
    evaluation: float = 0.0
    """Seconds of the evaluations of an epoch."""
    disk: int = 0
    """Bytes of all checkpoints."""
    memory: int = 0
    """Bytes of a process that trains."""

    def __add__(self, other: Cost) -> Cost:
        """The cost of two races together."""
        return Cost(
            self.runs + other.runs,
            self.updates + other.updates,
            self.seconds + other.seconds,
            max(self.longest, other.longest),
            disk=self.disk + other.disk,
            memory=max(self.memory, other.memory),
        )

    def wall(self, jobs: int) -> float:
        """Return the seconds that it takes with so many runs at a time."""
        return max(self.seconds / jobs, self.longest)

    def words(self, jobs: int = 1) -> str:
        """Return it in two sentences."""
        if not self.runs:
            return "All runs are finished."
        at_a_time = f", {jobs} at a time" if jobs > 1 else ""
        return (
            f"{count_noun(self.runs, 'run')}, {self.updates:,} updates: about "
            f"{duration(self.wall(jobs))}{at_a_time} (longest run {duration(self.longest)}), "
            f"{size(self.disk)} of checkpoints, {size(self.memory)} of memory for each run."
        )

    def shortages(self, folder: Path, jobs: int = 1) -> list[str]:
        """Return a sentence for each resource of this machine that does not suffice."""
        found, free, memory = [], shutil.disk_usage(folder).free, _available_memory()
        if self.disk > free:
            found.append(
                f"{folder} has {size(free)} of free disk; checkpoints need {size(self.disk)}."
            )
        if memory is not None and jobs * self.memory > memory:
            found.append(
                f"{size(memory)} of memory are free; {count_noun(jobs, 'run')} at a time need "
                f"{size(jobs * self.memory)}. Use fewer --jobs."
            )
        return found


def size(count: float) -> str:
    """Return a number of bytes in words."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return (
                f"{count:.1f} {unit}" if count < 10 and unit != "bytes" else f"{count:.0f} {unit}"
            )
        count /= 1000
    return f"{count:,.1f} TB"


def duration(seconds: float) -> str:
    """Return a time in words."""
    for unit, length, most in (("s", 1, 120), ("minutes", 60, 7_200), ("hours", 3_600, 172_800)):
        if seconds < most:
            count = seconds / length
            return f"{count:.1f} {unit}" if count < 10 else f"{count:.0f} {unit}"
    return f"{seconds / 86_400:,.1f} days"


def estimate(
    plan: Plan, reference: Reference, store: Store, *, device: str = "", threads: int = 1
) -> Cost:
    """Measure a few updates of each contender, a part of an evaluation, and a checkpoint.

    Nothing is kept, and stored runs are not counted. A search that decides as it goes is counted
    with all its trials. A LabError if data is missing.
    """
    race = plan.race
    known = store.get_all(known_specs(plan)).values()
    milliseconds, epochs_left, runs = {}, {}, 0
    saving, weight = 0.0, 0
    for name, settings in plan.starts.items():
        there = [run for run in known if run.spec.optimizer == name]
        epochs_left[name] = plan.epochs_of(name) - sum(len(run.epochs) for run in there)
        again = sum(count for count, _ in plan.parts(name)[1:])  # the same runs in a later rung
        finished = sum(len(run.epochs) >= plan.epochs for run in there)
        left = plan.runs_of(name) - again - finished
        if epochs_left[name] <= 0 or left <= 0:
            continue
        runs += left
        # In the results folder, so that a network of a score is trained once for all.
        with tempfile.TemporaryDirectory(prefix="estimate-", dir=store.folder) as folder:
            kind = race.device if device in ("", "cpu") else device
            spec = replace(race.spec(name, settings, race.final_seeds[0]), device=kind)
            entry = race.entries.get(name)
            job = Job(spec, reference, Path(folder), threads=threads, entry=entry)
            milliseconds[name], saved = _time_updates(job)
            saving = max(saving, saved)
            weight = max([weight, *(f.stat().st_size for f in Path(folder).glob("*.ckpt"))])
    if not milliseconds:
        return Cost()
    workload = reference.load()(race.scale, race.protocol)
    workload.kept = store.folder / "kept"
    updates, evaluation = _time_evaluation(workload, device or race.device or "cpu")
    epoch = {
        name: updates * each / 1e3 + evaluation + saving for name, each in milliseconds.items()
    }
    return Cost(
        runs=runs,
        updates=updates * sum(epochs_left[name] for name in epoch),
        seconds=sum(epochs_left[name] * each for name, each in epoch.items()),
        longest=max(plan.epochs, *plan.lengths, 0) * max(epoch.values()),
        milliseconds=milliseconds,
        evaluation=evaluation,
        disk=KEPT * weight * runs,
        memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT,
    )


_UNIT = 1 if sys.platform == "darwin" else 1024


def _time_updates(job: Job) -> tuple[float, float]:
    """Return the milliseconds of an update, and the seconds of writing a checkpoint."""
    marks = [time.perf_counter()]

    def on_update(_: Moment) -> None:
        if job.spec.device:
            torch.accelerator.synchronize()
        marks.append(time.perf_counter())

    def stopped() -> bool:
        count = len(marks) - 1 - FIRST
        if count <= 0:
            return False
        took = marks[-1] - marks[FIRST]
        return count >= MOST or (count >= 4 and took >= SECONDS) or marks[-1] - marks[0] > PATIENCE

    execute(job, on_update=on_update, stopped=stopped)
    end = time.perf_counter()
    # A run of very few updates has ended before.
    counted = marks[min(FIRST, len(marks) - 2) :]
    return 1e3 * (counted[-1] - counted[0]) / (len(counted) - 1), end - marks[-1]


def _time_evaluation(workload: Workload, device: str) -> tuple[int, float]:
    """Return the updates of an epoch, and the seconds of its evaluations."""
    data = workload.splits()
    model: Any = workload.model()
    if isinstance(model, Networks):
        model = model.generator
    if device != "cpu":
        model = model.to(torch.accelerator.current_accelerator())
    model.eval()
    seconds = 0.0
    with torch.no_grad():
        for split in (data.validation, data.test):
            if split is None:
                continue
            part, times = _part_of(split)
            workload.evaluate(model, part)  # what is computed once for all epochs
            started = time.perf_counter()
            workload.evaluate(model, part)
            seconds += times * (time.perf_counter() - started)
    return len(workload.source(data.train, training=True)), seconds


def _part_of(split: Any) -> tuple[Any, float]:
    """Return a part of a split, and how many times as large the whole is."""
    if isinstance(split, (tuple, list)) and all(isinstance(each, Tensor) for each in split):
        return tuple(each[:PART] for each in split), max(len(split[0]) / PART, 1.0)
    if callable(getattr(split, "part", None)):
        part = split.part(PART)
        return part, max(len(split) / len(part), 1.0)
    return split, 1.0


def _available_memory() -> int | None:
    """Return the bytes of memory that are free, or can be made free; None if that is unknown."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        found = dict(line.split(":", 1) for line in lines)
        return int(found["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, KeyError):
        return None
