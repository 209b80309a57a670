"""From what is alive, a plan, a workload and its runs, to what a record holds of it."""

from __future__ import annotations

import inspect
import math
import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from adamomentum_lab import contenders
from adamomentum_lab.race.plan import Plan, Race
from adamomentum_lab.race.record import (
    Record,
    RunRecord,
    RunTimes,
    SearchFacts,
    Status,
    WorkloadFacts,
)
from adamomentum_lab.race.typed_json import decode
from adamomentum_lab.rules import at_scale
from adamomentum_lab.selection import EpochRecord, reported_epoch
from adamomentum_lab.space import Value

if TYPE_CHECKING:
    from adamomentum_lab.catalog import Reference
    from adamomentum_lab.engine.events import Stage
    from adamomentum_lab.engine.store import Run
    from adamomentum_lab.workload import Workload


def record_of(
    plan: Plan, runs: Sequence[tuple[Stage, Run]], workload: Workload, reference: Reference
) -> Record:
    """The record of a race; the runs are its trials, by contender, then the final ones."""
    from adamomentum_lab.engine.environment import environment

    race = plan.race
    spaces = {
        name: {key: tuple(map(_plain, values)) for key, values in space.items()}
        for name, space in plan.spaces.items()
    }
    return Record(
        spec=race,
        workload=workload_facts(workload, race.workload),
        search=SearchFacts(spaces, plan.rungs) if race.trials else SearchFacts(),
        runs=tuple(run_record(stage, run) for stage, run in runs),
        caveats=caveats_of(race.optimizers, workload),
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


def run_record(stage: Stage, run: Run) -> RunRecord:
    """What the record holds of a run."""
    machine, times = run.machine, ("updates", "seconds", "ms_per_update")
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
    """What runs the same race again."""
    options = {"optimizers": ",".join(race.optimizers)}
    options |= {key: getattr(race, key) for key in ("trials", "seeds", "scale", "protocol")}
    options |= {"search": race.search} if race.trials else {}
    options |= {"tune": ",".join(race.tune)} if race.tune else {}
    words = ["adamomentum", "race", race.workload if reference.module else str(reference.file)]
    words += [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return shlex.join(words + ["--halving"] * race.halving)


def run_as_json(run: Run, workload: Workload, epochs: int | None = None) -> dict[str, object]:
    """One run, as `adamomentum train --json` prints it."""
    caveats = caveats_of([run.spec.optimizer], workload)
    return {
        "spec": run.spec.as_json(),
        "status": run.status,
        "epochs": run.epochs[:epochs],
        "final": reported_epoch(run, workload, epochs),
        "machine": {**run.machine, "epoch_seconds": run.seconds[:epochs]},
        **({"caveats": caveats} if caveats else {}),
        **({"error": run.error} if run.error else {}),
    }


def caveats_of(names: Iterable[str], workload: Workload) -> tuple[str, ...]:
    """What must be said with the runs of these optimizers."""
    return (*workload.caveats, *missing_settings(names, type(workload), workload.protocol))


def missing_settings(
    names: Iterable[str], workload: type[Workload], protocol: str
) -> tuple[str, ...]:
    """A caveat, where a protocol has settings of its own but not for all of these."""
    settings = workload.settings.get(protocol, {})
    missing = [name for name in names if not contenders.get(name).settings_for(settings)]
    if not settings or not missing:
        return ()
    return (f"no settings are known of {', '.join(missing)} under {protocol}: their defaults",)
