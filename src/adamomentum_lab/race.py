"""A race: every contender tuned with the same budget, then run over the same seeds."""

from __future__ import annotations

import csv
import hashlib
import inspect
import json
import shlex
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from adamomentum_lab import contenders, workloads
from adamomentum_lab.analysis.effects import Effect, effects
from adamomentum_lab.analysis.ranking import Row, edge_of, final, headline, ranking, validation_key
from adamomentum_lab.analysis.sensitivity import sensitivity
from adamomentum_lab.errors import LabError
from adamomentum_lab.output import dumps
from adamomentum_lab.runs import tuning
from adamomentum_lab.runs.environment import environment
from adamomentum_lab.runs.execute import Job
from adamomentum_lab.runs.spec import Spec
from adamomentum_lab.runs.store import Run, Store
from adamomentum_lab.workloads import Origin, Scale, Workload
from adamomentum_lab.workloads import Protocol as Rules

TUNING_SEED = 0  # the seeds of the final stage begin at 1: no run is judged by what chose it


@dataclass(frozen=True)
class Race:
    """What is raced. Frozen, and the same race again gives the same numbers."""

    workload: str
    code: str
    optimizers: tuple[str, ...]
    trials: int
    seeds: int
    scale: Scale
    protocol: Rules

    @property
    def id(self) -> str:
        """Of all of it; also the name of its folder."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class Engine(Protocol):
    """Whatever executes jobs."""

    def run(
        self,
        jobs: list[Job],
        on_epoch: Callable[[Job, dict[str, Any]], None] = ...,
        on_run: Callable[[Run], None] = ...,
    ) -> list[Run]:
        """All jobs; the result is in their order."""
        ...


@dataclass
class Result:
    """Who won, and every run."""

    race: Race
    rows: list[Row]
    runs: list[tuple[str, Run]]
    """With the stage of each: tuning or final."""
    workload: Workload
    file: Path
    """That of the workload."""

    @property
    def caveats(self) -> tuple[str, ...]:
        """What must be said with it."""
        race, cls = self.race, type(self.workload)
        return (*self.workload.caveats, *unstated(race.optimizers, cls, race.protocol))

    @property
    def command(self) -> str:
        """What holds the same race again."""
        race, file = self.race, self.file
        inside = file.parent == Path(workloads.__file__).parent
        options = {
            "optimizers": ",".join(race.optimizers),
            "trials": race.trials,
            "seeds": race.seeds,
            "scale": race.scale,
            "protocol": race.protocol,
        }
        words = ["adamomentum", "race", race.workload if inside else str(file)]
        words += [word for name, value in options.items() for word in (f"--{name}", str(value))]
        return shlex.join(words)

    @property
    def effects(self) -> list[Effect]:
        """What each change of the paper did, where the contenders that show it were raced."""
        return effects(self.rows, self.workload, tuned=self.race.trials > 0)

    def as_json(self) -> dict[str, Any]:
        """The whole, as `adamomentum race --json` prints it."""
        return {
            "spec": asdict(self.race),
            "workload": problem_as_json(self.workload),
            "headline": headline(self.rows, self.workload),
            "ranking": [row.as_json() for row in self.rows],
            "runs": [
                {"stage": stage, "id": run.spec.id, **run_as_json(run, self.workload)}
                for stage, run in self.runs
            ],
            "machine": {**environment("cpu"), "command": self.command},
            **({"effects": list(map(asdict, found))} if (found := self.effects) else {}),
            **({"caveats": self.caveats} if self.caveats else {}),
        }


def problem_as_json(workload: Workload) -> dict[str, Any]:
    """What a reader of results has to know of a workload, whose file may be gone by then."""
    return {
        "about": inspect.cleandoc(type(workload).__doc__ or "").split("\n\n")[0],
        "metric": workload.metric,
        "larger_is_better": workload.larger_is_better,
        "target": workload.target,
        "selection": workload.selection,
        "epochs": type(workload).epochs[workload.scale],
    }


def run_as_json(run: Run, workload: Workload, epochs: int | None = None) -> dict[str, Any]:
    """One run, as `adamomentum train --json` prints it."""
    return {
        "spec": run.spec.as_json(),
        "status": run.status,
        "epochs": run.epochs[:epochs],
        "final": final(run, workload, epochs),
        "machine": {**run.machine, "epoch_seconds": run.seconds[:epochs]},
        **({"caveats": caveats} if (caveats := caveats_of(run.spec, workload)) else {}),
        **({"error": run.error} if run.error else {}),
    }


def caveats_of(spec: Spec, workload: Workload) -> tuple[str, ...]:
    """What must be said with a run."""
    return (*workload.caveats, *unstated([spec.optimizer], type(workload), workload.protocol))


def base_settings(name: str, workload: type[Workload], protocol: Rules) -> dict[str, Any]:
    """What an optimizer starts from on a workload: its defaults, and what the protocol says."""
    stated = workload.settings.get(protocol, {}).get(name, {})
    return {**contenders.get(name).defaults, **stated}


def unstated(names: Iterable[str], workload: type[Workload], protocol: Rules) -> tuple[str, ...]:
    """A caveat, where a protocol has settings of its own but not for all of these."""
    stated = workload.settings.get(protocol, {})
    lacking = [name for name in names if stated and name not in stated]
    if not lacking:
        return ()
    return (f"no settings are known of {', '.join(lacking)} under {protocol}: their defaults",)


def hold(
    race: Race,
    origin: Origin,
    store: Store,
    engine: Engine,
    on_run: Callable[[str, Run, Workload], None],
) -> Result:
    """Hold the race: tuning on validation alone, then the seeds, then the ranking."""
    cls = origin.load()
    workload = cls(race.scale, race.protocol)

    def job(optimizer: str, settings: dict[str, Any], seed: int) -> Job:
        spec = Spec.of(
            settings,
            workload=race.workload,
            code=race.code,
            optimizer=optimizer,
            seed=seed,
            scale=race.scale,
            protocol=race.protocol,
        )
        return Job(spec, origin, store.folder_of(spec))

    def stage(name: str, jobs: list[Job]) -> list[Run]:
        return engine.run(jobs, on_run=lambda run: on_run(name, run, workload))

    best = {name: base_settings(name, cls, race.protocol) for name in race.optimizers}
    tried: list[Run] = []
    if race.trials:
        jobs = [
            job(name, settings, TUNING_SEED)
            for name in race.optimizers
            for settings in tuning.trials(contenders.get(name), cls.grid, best[name], race.trials)
        ]
        tried = stage("tuning", jobs)
        for i, name in enumerate(race.optimizers):
            mine = tried[i * race.trials : (i + 1) * race.trials]
            winner = min(mine, key=lambda run: validation_key(run, workload))
            best[name] = dict(winner.spec.settings)
    seeds = range(TUNING_SEED + 1, TUNING_SEED + 1 + race.seeds)
    runs = stage("final", [job(name, best[name], s) for name in race.optimizers for s in seeds])
    if all(run.status == "failed" for run in runs):
        raise LabError(f"every run failed; the first: {runs[0].error}")
    finals = {
        name: runs[i * race.seeds : (i + 1) * race.seeds] for i, name in enumerate(race.optimizers)
    }
    staged = [("tuning", run) for run in tried] + [("final", run) for run in runs]
    rows = ranking(finals, workload)
    sensitivities = sensitivity(tried, workload)
    for row in rows if race.trials else ():
        row.sensitivity = sensitivities[row.optimizer]
        mine = [run for run in tried if run.spec.optimizer == row.optimizer]
        row.edge = edge_of(row.settings["lr"], [dict(run.spec.settings)["lr"] for run in mine])
    return Result(race, rows, staged, workload, origin.file)


def write(result: Result, folder: Path) -> None:
    """The ranking and every run, trials included, as CSV and JSON."""
    metric = result.workload.metric
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "race.json").write_text(dumps(result.as_json(), indent=1) + "\n")
        with (folder / "ranking.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(
                ["rank", "optimizer", f"test {metric}", "95% +/-", "seeds", "diverged", "failed",
                 "difference", "difference 95% +/-", "p", "p after Holm", "Hedges' g",
                 "permutation p", "could be missed", "verdict", "epochs to target",
                 "steps to target", "seconds to target", "reached target", "ms per update",
                 "settings"]
            )  # fmt: skip
            for row in result.rows:
                gap, c = row.difference, row.comparison
                to_target = (
                    row.epochs_to_target, row.steps_to_target, row.machine["seconds_to_target"]
                )  # fmt: skip
                table.writerow(
                    [row.rank, row.optimizer, row.score.mean, row.score.half, len(row.values),
                     row.diverged, row.failed, gap and gap.mean, gap and gap.half,
                     *((c.p, c.p_holm, c.effect, c.permutation, c.missed, c.verdict) if c else
                       [None] * 6),
                     *(estimate and estimate.mean for estimate in to_target), row.reached,
                     row.machine["ms_per_update"], json.dumps(row.settings)]
                )  # fmt: skip
        with (folder / "runs.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(
                ["stage", "optimizer", "seed", "status", "epoch", f"validation {metric}",
                 f"test {metric}", "ms per update", "settings", "id"]
            )  # fmt: skip
            for stage, run in result.runs:
                end = final(run, result.workload)
                table.writerow(
                    [stage, run.spec.optimizer, run.spec.seed, run.status, end.get("epoch"),
                     end.get("validation", {}).get(metric),
                     end.get("test", {}).get(metric) if stage == "final" else None,
                     run.machine.get("ms_per_update"), json.dumps(run.spec.as_json()["settings"]),
                     run.spec.id]
                )  # fmt: skip
    except OSError as error:
        raise LabError(
            f"cannot write to {folder} ({error.strerror}); the runs themselves are kept."
        ) from error
