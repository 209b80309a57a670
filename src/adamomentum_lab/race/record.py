"""The record of a race: `race.json`, typed. Facts only: what was planned, run and measured.

Rankings, verdicts and words are derived from it (`result.py`), so that better ones reach old
records too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from adamomentum_lab.engine.events import Stage
from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.errors import LabError
from adamomentum_lab.files import dumps
from adamomentum_lab.race.looks import Look
from adamomentum_lab.race.plan import Race
from adamomentum_lab.race.sampling import Sampling
from adamomentum_lab.race.search import Rung
from adamomentum_lab.race.typed_json import FaultError, Json, decode, encode, get, is_finite
from adamomentum_lab.race.upgrade import upgrade
from adamomentum_lab.rules import Selection
from adamomentum_lab.selection import FAULTS, EpochRecord
from adamomentum_lab.space import Settings, Space, Value

FORMAT = 3
"""Of the files that are written. A change of the meaning of a key is a new one."""
Status = Literal["done", "diverged", "failed", "lost", "stopped"]


@dataclass(frozen=True)
class WorkloadFacts:
    """What a reader of results has to know of a workload, whose file may be gone by then."""

    name: str
    summary: str
    metric: str
    larger_is_better: bool
    target: float | None
    selection: Selection
    epochs: int
    """Of a whole run."""
    flaws: tuple[str, ...] | None = None
    """What a reader has to know of its rules, by name; None where those of the protocol hold."""


Place = tuple[float | None, ...]
"""A point of a search space: a position on each axis, in decades from the axis's start, None for
the value 0; then the index of each choice."""


@dataclass(frozen=True)
class AxisFacts:
    """A setting that was searched on a logarithmic scale."""

    name: str
    start: float
    first: Place
    """The positions that were tried before any other."""
    low: float | None = None
    """The smallest position that might be tried; None if there was no such wall."""
    high: float | None = None


@dataclass(frozen=True)
class SearchFacts:
    """What was searched; empty if nothing was tuned."""

    spaces: Mapping[str, Space] = field(default_factory=dict)
    """By contender and setting: the values of a grid or a random search."""
    rungs: tuple[Rung, ...] = ()
    """How long the trials trained."""
    axes: Mapping[str, tuple[AxisFacts, ...]] = field(default_factory=dict)
    """By contender. Records before format 3 have none."""
    choices: Mapping[str, Mapping[str, tuple[Value, ...]]] = field(default_factory=dict)
    """By contender and setting: the values that it was chosen from."""


@dataclass(frozen=True)
class RunTimes:
    """What may differ between two identical runs."""

    updates: int | None = None
    seconds: float | None = None
    ms_per_update: float | None = None
    epoch_seconds: tuple[float, ...] = ()
    environment: dict[str, object] = field(default_factory=dict)
    """Versions, processor, threads, device."""


@dataclass(frozen=True)
class RunRecord:
    """One run."""

    stage: Stage
    id: str
    spec: Spec
    status: Status
    """`stopped` is by halving, before the last epoch."""
    epochs: tuple[EpochRecord, ...]
    """Scores that are no finite numbers are None. A small record has of a trial only the epoch that
    is reported."""
    trained: int
    """Epochs that were trained."""
    machine: RunTimes = field(default_factory=RunTimes)
    error: str | None = None
    resolution: float = 0.0
    """The smallest difference of test scores that means anything; 0 where it was not measured."""
    point: Place | None = None
    """Its place in the search space. Records before format 3 have none."""

    @property
    def settings(self) -> Settings:
        """Every setting of the optimizer, as JSON has them."""
        settings: Settings = self.spec.as_json()["settings"]
        return settings


@dataclass(frozen=True)
class Record:
    """A race that was run. `Record.read` reads `race.json`, of this and of older versions."""

    spec: Race
    workload: WorkloadFacts
    search: SearchFacts
    runs: tuple[RunRecord, ...]
    """The trials of each contender in their order, then the final runs, then the checks."""
    caveats: tuple[str, ...]
    machine: dict[str, object]
    """Where the record was written, and under `command` what runs the same race again."""
    digits: int | None = None
    """Significant digits of the scores, where the record has fewer than were measured."""
    looks: tuple[Look, ...] = ()
    """The looks that the race took. Records before format 3 have none: they took one, at 0.05."""
    sampling: tuple[Sampling, ...] = ()
    """What the size of the test set adds to the uncertainty of each pair, where it is known."""
    budgets: tuple[RunRecord, ...] = ()
    """Runs of the baseline at other lengths: `tuning` on the tuning seed, then `final`. The length
    is `spec.epochs`."""
    format: int = FORMAT

    @classmethod
    def read(cls, file: Path | str) -> Record:
        """From a file."""
        if not Path(file).exists():
            raise LabError(f"there is no file {str(file)!r}; a race writes races/ID/race.json.")
        try:
            data = json.loads(Path(file).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            why = f"{file} cannot be read ({error})"
            raise LabError(f"{why}; the command of its race writes it anew.") from error
        return cls.from_json(data, str(file))

    @classmethod
    def from_json(cls, data: Json, source: str = "the record") -> Record:
        """From what `as_json` gave, or an older version of it. Other keys are ignored."""
        try:
            number = data.get("format", 1) if isinstance(data, dict) else 1
            if type(number) is not int or number < 1:
                raise FaultError(f"format is {number!r:.60}, not a whole number from 1 on")
            if number > FORMAT:
                newer = f"{source} has the format {number!r}, and this version reads up to {FORMAT}"
                raise LabError(f"{newer}; a newer adamomentum reads it.")
            whole = upgrade(data, number)
            shared = {k: get(get(whole, "spec"), k, "spec") for k in SHARED}
            record: Record = decode(cls, _with_specs(whole, shared))
            _check_race(record)
        except FaultError as fault:
            anew = "the command of its race writes it anew, and finished runs are not repeated"
            raise LabError(
                f"{source} was written by another version, or changed: {fault}; {anew}."
            ) from fault
        return record

    def as_json(self) -> dict[str, Json]:
        """As `race.json` has it; `from_json` is the inverse."""
        first = ("spec", "workload", "search", "runs", "looks", "sampling", "caveats")
        keys = (*first, *(("budgets",) if self.budgets else ()), "machine", "digits")
        return {"format": FORMAT, **{key: encode(getattr(self, key)) for key in keys}}

    def dumps(self) -> str:
        """As the text of `race.json`."""
        return dumps(self.as_json()) + "\n"


SHARED = ("workload", "code", "scale", "protocol")
"""What every run has in common with its race; a small record says it once."""


def _with_specs(whole: Json, shared: dict[str, Json]) -> Json:
    """With specifications of runs that are whole."""
    get(whole, "runs")
    assert isinstance(whole, dict)
    made: dict[str, Json] = {}
    for key in ("runs", "budgets"):
        runs = whole.get(key, [])
        if not isinstance(runs, list):
            raise FaultError(f"{key} is no list")
        full: list[Json] = []
        for i, run in enumerate(runs):
            spec = get(run, "spec", f"{key}[{i}]")
            if not isinstance(run, dict) or not isinstance(spec, dict):
                raise FaultError(f"{key}[{i}].spec is no object")
            full.append({**run, "spec": {**shared, **spec}})
        made[key] = full
    return {**whole, **made}


def _check_race(record: Record) -> None:
    """That every contender has all its final runs, with the settings of one of its trials, unless
    trials of it were lost."""
    race = record.spec
    if not race.optimizers or len(set(race.optimizers)) < len(race.optimizers):
        raise FaultError(f"spec.optimizers are {race.optimizers!r:.60}, not different names")
    if race.seeds < 1:
        raise FaultError(f"spec.seeds is {race.seeds}, not 1 or more")
    for i, run in enumerate(record.runs):
        _check_run(run, record, f"runs[{i}]")
    allowed = race.look_seeds
    for name in race.optimizers:
        mine = [run for run in record.runs if run.spec.optimizer == name]
        finals = [run.spec.settings for run in mine if run.stage == "final"]
        seeds = {run.spec.seed for run in mine if run.stage == "final"}
        lost = any(run.stage == "tuning" and run.status in FAULTS for run in mine)
        if not finals and lost:  # it was not raced, since nobody knows how to tune it
            continue
        if len(finals) not in allowed:
            wanted = " or ".join(map(str, allowed))
            raise FaultError(f"{name} has {len(finals)} final runs, not {wanted}")
        if len(seeds) != len(finals):
            raise FaultError(f"{name} has two final runs of one seed")
        tried = [run.spec.settings for run in mine if run.stage == "tuning"]
        if race.trials and not set(finals) <= set(tried):
            raise FaultError(f"the settings of the final runs of {name} are those of no trial")
        if len(set(finals)) > 1:
            raise FaultError(f"the final runs of {name} have different settings")
    for i, run in enumerate(record.budgets):
        _check_run(run, record, f"budgets[{i}]")
        if run.spec.epochs < 1 or run.spec.optimizer != race.baseline:
            raise FaultError(f"budgets[{i}] is no run of the baseline at another length")
    for key, runs in (("runs", record.runs), ("budgets", record.budgets)):
        for i, run in enumerate(runs):
            for j, epoch in enumerate(run.epochs):
                _check_epoch(epoch, record.workload, f"{key}[{i}].epochs[{j}]")


def _check_run(run: RunRecord, record: Record, place: str) -> None:
    """That it is a run of the race, with settings that can be compared and a place that exists."""
    spec, race, search = run.spec, record.spec, record.search
    if not re.fullmatch(r"\w[\w.-]*", run.id):
        raise FaultError(f"{place}.id is {run.id!r:.60}, which cannot be the name of a folder")
    if spec.optimizer not in race.optimizers:
        raise FaultError(f"{place}.spec.optimizer is {spec.optimizer!r:.60}, which was not raced")
    if (spec.workload, spec.scale, spec.protocol) != (race.workload, race.scale, race.protocol):
        raise FaultError(f"{place} is a run of another race")
    if type(spec.seed) is not int:
        raise FaultError(f"{place}.spec.seed is {spec.seed!r:.60}, not a whole number")
    for name, value in spec.settings:
        if not all(map(_is_value, value if isinstance(value, tuple) else (value,))):
            raise FaultError(f"{place}.spec.settings.{name} is {value!r:.60}, not a setting")

    searched = (search.axes, search.choices)
    count = sum(len(found.get(spec.optimizer, ())) for found in searched)
    if run.point is not None and len(run.point) != count:
        raise FaultError(f"{place}.point has {len(run.point)} positions, not {count}")


def _is_value(value: object) -> bool:
    return isinstance(value, (str, bool)) or value is None or _is_score(value)


def _check_epoch(epoch: EpochRecord, workload: WorkloadFacts, place: str) -> None:
    """That it has its number, scores, and what it is selected by."""
    if type(get(epoch, "epoch", place)) is not int:
        raise FaultError(f"{place}.epoch is no whole number")
    if workload.selection != "last":
        scores = get(epoch, workload.selection, place)
        get(scores, workload.metric, f"{place}.{workload.selection}")
    for split, scores in epoch.items():
        if split == "epoch":
            continue
        if not isinstance(scores, dict) or not all(map(_is_score, scores.values())):
            raise FaultError(f"{place}.{split} is no object of numbers")


def _is_score(value: object) -> bool:
    return value is None or (not isinstance(value, bool) and is_finite(value))
