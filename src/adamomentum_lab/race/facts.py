"""From what is alive, a plan, a workload and its runs, to what a record holds of it."""

from __future__ import annotations

import inspect
import math
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from adamomentum_lab.contender import Contender
from adamomentum_lab.engine.events import Stage
from adamomentum_lab.engine.store import Run
from adamomentum_lab.race.bracket import Axis, Point
from adamomentum_lab.race.looks import Look
from adamomentum_lab.race.plan import Plan, Race
from adamomentum_lab.race.record import (
    AxisFacts,
    Place,
    Record,
    RunRecord,
    RunTimes,
    SearchFacts,
    Status,
    WorkloadFacts,
)
from adamomentum_lab.race.sampling import Sampling
from adamomentum_lab.race.typed_json import decode
from adamomentum_lab.rules import at_scale
from adamomentum_lab.selection import EpochRecord, reported_epoch
from adamomentum_lab.space import Value
from adamomentum_lab.words import join_words

if TYPE_CHECKING:
    from adamomentum_lab.catalog import Reference
    from adamomentum_lab.workload import Workload


SHOWN = 12
"""Names of parameters in a list, at most."""


class StagedRun(NamedTuple):
    """A run of a race: what it was for, and its place in the search space."""

    stage: Stage
    run: Run
    point: Point


def record_of(
    plan: Plan,
    runs: Sequence[StagedRun],
    looks: tuple[Look, ...],
    sampling: tuple[Sampling, ...],
    workload: Workload,
    reference: Reference,
    budgets: Sequence[StagedRun] = (),
) -> Record:
    """The record of a race; the runs are its trials, then the final ones, then the checks."""
    from adamomentum_lab.engine.environment import environment

    race = plan.race
    spaces = {
        name: {key: tuple(map(_plain, values)) for key, values in space.items()}
        for name, space in plan.spaces.items()
    }
    return Record(
        spec=race,
        workload=workload_facts(workload, race.workload),
        search=SearchFacts(
            spaces,
            plan.rungs,
            {name: tuple(map(_axis, own.axes)) for name, own in plan.search_spaces.items()},
            {
                name: {one.name: tuple(map(_plain, one.values)) for one in own.choices}
                for name, own in plan.search_spaces.items()
            },
        )
        if race.trials
        else SearchFacts(),
        runs=tuple(run_record(*one) for one in runs),
        looks=looks,
        sampling=sampling,
        caveats=caveats_of(map(race.contender, race.optimizers), workload),
        budgets=tuple(run_record(*one) for one in budgets),
        machine={**environment("cpu"), "command": command(race, reference)},
    )


def workload_facts(workload: Workload, name: str) -> WorkloadFacts:
    """What the record holds of a workload."""
    return WorkloadFacts(
        name=name,
        summary=inspect.cleandoc(type(workload).__doc__ or "").split("\n\n")[0],
        metric=workload.metric,
        larger_is_better=workload.larger_is_better,
        target=workload.target,
        selection=workload.selection,
        epochs=at_scale(workload.epochs, workload.scale),
        flaws=workload.rules_of(workload.protocol).flaws,
    )


def _axis(axis: Axis) -> AxisFacts:
    low, high = (None if end is None else float(end) for end in (axis.low, axis.high))
    return AxisFacts(axis.name, axis.start, _place(axis.first), low, high)


def _place(positions: Point) -> Place:
    return tuple(None if position is None else float(position) for position in positions)


def run_record(stage: Stage, run: Run, point: Point | None = None) -> RunRecord:
    """What the record holds of a run."""
    machine, times = run.machine, ("updates", "seconds", "ms_per_update", "resolution")
    return RunRecord(
        stage=stage,
        id=run.spec.id,
        spec=run.spec,
        status=decode(Status, run.status, "status"),
        epochs=tuple(map(_finite, run.epochs)),
        trained=len(run.epochs),
        machine=RunTimes(
            updates=machine.get("updates"),
            seconds=machine.get("seconds"),
            ms_per_update=machine.get("ms_per_update"),
            epoch_seconds=tuple(run.seconds),
            environment={key: value for key, value in machine.items() if key not in times},
        ),
        error=run.error,
        resolution=float(machine.get("resolution", 0.0)),
        point=None if point is None else _place(point),
    )


def _finite(record: EpochRecord) -> EpochRecord:
    """With None for scores that are no finite numbers, as JSON has them."""
    scores = [scores for split, scores in record.items() if split != "epoch"]
    if all(math.isfinite(value) for one in scores for value in one.values()):
        return record
    return {
        split: {key: value if math.isfinite(value) else None for key, value in scores.items()}
        if split != "epoch"
        else scores
        for split, scores in record.items()
    }


def _plain(value: Value) -> Value:
    return list(value) if isinstance(value, tuple) else value


def command(race: Race, reference: Reference) -> str:
    """The command that runs the same race again. Empty for a class of a script or a notebook."""
    if reference.given:
        return ""
    place = race.workload if reference.module else str(reference.file)
    return shlex.join(["adamomentum", "race", place, *options(race)])


def options(race: Race) -> list[str]:
    """The options of `adamomentum race` that state a race; defaults are left out."""
    given: dict[str, object] = {"optimizers": ",".join(map(race.written, race.optimizers))}
    given |= {"trials": race.trials, "seeds": race.seeds}
    usual = {"scale": "mini", "protocol": "fair", "search": Race.search, "certify": Race.certify}
    tunes = race.trials > 0
    stated = ("scale", "protocol", "search", "certify") if tunes else ("scale", "protocol")
    given |= {key: getattr(race, key) for key in stated if getattr(race, key) != usual[key]}
    if race.tune:
        given["tune"] = ",".join(race.tune)
    if race.baseline is None:
        given["pairs"] = "all"
    elif race.baseline != replace(race, baseline="").baseline:
        given["baseline"] = race.baseline
    if race.device:
        given["device"] = race.device
    if race.precision != "32-true":
        given["precision"] = race.precision
    if race.margin is not None:
        given["margin"] = f"{race.margin:g}"
    if race.budgets:
        given["budgets"] = (
            "auto" if race.more_budgets else ",".join(map("{:g}".format, race.budgets))
        )
    if race.studies > 1:
        given["studies"] = race.studies
    words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    words += [word for text in race.space for word in ("--space", text)]
    switches = {
        "halving": race.halving,
        "compile": race.compile,
        "space-is-hard": race.hard,
        "own-decay": race.own_decay,
        "one-look": race.looks == "all",
        "until-decided": race.looks == "until decided",
    }
    return words + [f"--{name}" for name, on in switches.items() if on]


def run_as_json(
    run: Run, workload: Workload, caveats: Sequence[str] = (), epochs: int | None = None
) -> dict[str, object]:
    """One run, as `adamomentum train --json` prints it."""
    return {
        "spec": run.spec.as_json(),
        "status": run.status,
        "epochs": run.epochs[:epochs],
        "final": reported_epoch(run, workload, epochs),
        "machine": {**run.machine, "epoch_seconds": run.seconds[:epochs]},
        **({"caveats": caveats} if caveats else {}),
        **({"error": run.error} if run.error else {}),
    }


def caveats_of(contenders: Iterable[Contender], workload: Workload) -> tuple[str, ...]:
    """What must be said with the runs of these optimizers."""
    raced = [*contenders]
    missing = missing_settings(raced, type(workload), workload.protocol)
    notes = [note for contender in raced for note in contender.notes]
    for one in raced:
        usual = workload.schedule_of(one.name)
        if one.schedule(usual) != usual:
            notes.append(f"{one.name} trains at a constant lr, without the schedule of the others")
    return (*workload.caveats, *missing, *notes, *_parts(raced, workload))


def _parts(raced: Iterable[Contender], workload: Workload) -> list[str]:
    """Which parameters go where, of optimizers that treat some in another way."""
    found = []
    for contender in raced:
        if contender.groups is None:
            continue
        model = workload.model()
        names = {param: name for name, param in model.named_parameters()}
        parts = []
        for group in contender.groups(model):
            its = [names[param] for param in group["params"]]
            more = [f"{len(its) - SHOWN} more"] if len(its) > SHOWN else []
            its = [*its[:SHOWN], *more]
            parts.append(f"{group.get('part', 'a group')}: {join_words(its) or 'none'}")
        found.append(f"{contender.name} trains {'; '.join(parts)}")
    return found


def missing_settings(
    contenders: Iterable[Contender], workload: type[Workload], protocol: str
) -> tuple[str, ...]:
    """A caveat, where a protocol has settings of its own but not for all of these."""
    if workload.rules_of(protocol).tune:  # what is stated is where a search starts from
        return ()
    settings = workload.settings.get(protocol, {})
    missing = [one.name for one in contenders if not one.settings_for(settings)]
    if not settings or not missing:
        return ()
    return (f"no settings are known of {', '.join(missing)} under {protocol}: their defaults",)
