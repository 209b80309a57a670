"""A race: every contender tuned with the same budget, then run over the same seeds."""

from __future__ import annotations

import csv
import hashlib
import inspect
import json
import shlex
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from adamomentum_lab import contenders, workloads
from adamomentum_lab.analysis.effects import Effect, effects
from adamomentum_lab.analysis.ranking import Row, edge_of, final, headline, ranking, validation_key
from adamomentum_lab.analysis.sensitivity import sensitivity
from adamomentum_lab.budget import Budget
from adamomentum_lab.errors import LabError
from adamomentum_lab.output import dumps
from adamomentum_lab.runs import tuning
from adamomentum_lab.runs.environment import environment
from adamomentum_lab.runs.execute import Job
from adamomentum_lab.runs.spec import Spec
from adamomentum_lab.runs.store import Run, Store
from adamomentum_lab.workloads import Origin, Scale, Workload
from adamomentum_lab.workloads import Protocol as Rules

Wanted = tuple[str, dict[str, Any], int]
"""An optimizer, its settings and a seed."""
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
    search: tuning.Search = "grid"
    tune: tuple[str, ...] = ()
    """The settings that are searched; none stands for those the workload's grid searches."""
    halving: bool = False

    def spec(self, optimizer: str, settings: dict[str, Any], seed: int) -> Spec:
        """One of its runs."""
        return Spec.of(
            settings,
            workload=self.workload,
            code=self.code,
            optimizer=optimizer,
            seed=seed,
            scale=self.scale,
            protocol=self.protocol,
        )

    @property
    def final_seeds(self) -> range:
        """Those that are reported."""
        return range(TUNING_SEED + 1, TUNING_SEED + 1 + self.seeds)

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
class Tuned:
    """How one contender was tuned."""

    runs: list[Run]
    """By trial, each as far as it was trained; `stopped` where others went on."""
    chosen: int
    """The index of the best on validation."""
    space: dict[str, Any]
    exhausted: bool
    """Whether there was less to try than the budget allowed."""

    @property
    def epochs(self) -> int:
        """What was spent, whether in this race or before."""
        return sum(len(run.epochs) for run in self.runs)

    def as_json(self, workload: Workload) -> dict[str, Any]:
        """A dictionary that JSON can write; trials are numbered from 1."""
        trials = [
            {
                "trial": i,
                "settings": run.spec.as_json()["settings"],
                "run": run.spec.id,
                "status": run.status,
                "epochs": len(run.epochs),
                "validation": final(run, workload).get("validation"),
            }
            for i, run in enumerate(self.runs, 1)
        ]
        return {
            "space": self.space,
            "exhausted": self.exhausted,
            "trials": trials,
            "chosen": self.chosen + 1,
            "epochs": self.epochs,
        }


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
    tuned: dict[str, Tuned] = field(default_factory=dict)
    """By contender; empty where nothing was tuned."""
    rungs: tuple[tuning.Rung, ...] = ()

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
            **({"search": race.search} if race.trials else {}),
            **({"tune": ",".join(race.tune)} if race.tune else {}),
        }
        words = ["adamomentum", "race", race.workload if inside else str(file)]
        words += [word for name, value in options.items() for word in (f"--{name}", str(value))]
        return shlex.join(words + ["--halving"] * race.halving)

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
            **({"tuning": self._tuning()} if self.tuned else {}),
            "runs": [
                {"stage": stage, "id": run.spec.id, **run_as_json(run, self.workload)}
                for stage, run in self.runs
            ],
            "machine": {**environment("cpu"), "command": self.command},
            **({"effects": list(map(asdict, found))} if (found := self.effects) else {}),
            **({"caveats": self.caveats} if self.caveats else {}),
        }

    def _tuning(self) -> dict[str, Any]:
        return {
            "search": self.race.search,
            "rungs": [asdict(rung) for rung in self.rungs],
            "contenders": {name: own.as_json(self.workload) for name, own in self.tuned.items()},
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


def budget(race: Race, cls: type[Workload]) -> Budget:
    """What the race will spend, and on what."""
    starts = {name: base_settings(name, cls, race.protocol) for name in race.optimizers}
    trials = {
        name: tuning.trials(
            contenders.get(name), cls.grid, start, race.trials, race.search, race.tune
        )
        for name, start in starts.items()
    }
    spaces = {
        name: tuning.searched(contenders.get(name), cls.grid, race.tune) for name in race.optimizers
    }
    epochs = cls.epochs[race.scale]
    rungs = tuning.rungs(race.trials, epochs, race.halving)
    return Budget(starts, trials, spaces, race.search, race.trials, race.seeds, rungs, epochs)


def kept(race: Race, plan: Budget, store: Store) -> list[Run]:
    """Of the runs that are known before the race, those that there are already: the trials, or the
    final ones where nothing is tuned."""
    known = [
        (name, settings, TUNING_SEED) for name, tried in plan.trials.items() for settings in tried
    ] or [(name, start, seed) for name, start in plan.starts.items() for seed in race.final_seeds]
    return list(store.get_all(race.spec(*one) for one in known).values())


def hold(
    race: Race,
    origin: Origin,
    store: Store,
    engine: Engine,
    on_run: Callable[[str, Run, Workload], None],
    on_pace: Callable[[int, int], None] = lambda *_: None,
    on_drop: Callable[[str, int], None] = lambda *_: None,
) -> Result:
    """Hold the race: tuning on validation alone, then the seeds, then the ranking.

    `on_pace` hears how many epochs were computed so far and how many are left, `on_drop` of runs of
    a contender that are not to be done after all.
    """
    cls = origin.load()
    workload = cls(race.scale, race.protocol)
    plan = budget(race, cls)
    pace = _Pace(plan.all_epochs, on_pace)

    def stage(name: str, wanted: list[Wanted], epochs: int, more: int) -> list[Run]:
        """Train runs up to so many epochs, `more` than they have."""
        asked = epochs if epochs < plan.epochs else None
        specs = [race.spec(*one) for one in wanted]

        def done(run: Run) -> None:
            pace.run(run, more)
            on_run(name, _up_to(run, asked), workload)

        jobs = [Job(spec, origin, store.folder_of(spec), asked) for spec in specs]
        return [_up_to(run, asked) for run in engine.run(jobs, pace.epoch, done)]

    tried: dict[str, dict[int, Run]] = {name: {} for name in race.optimizers}
    going = {name: list(range(len(settings))) for name, settings in plan.trials.items()}
    before = 0
    for rung in plan.rungs if race.trials else ():
        more = rung.epochs - before
        for name, mine in tried.items() if before else ():
            going[name] = _better(mine, going[name], rung.trials, workload)
            if lost := min(rung.trials, len(mine)) - len(going[name]):
                pace.drop(lost * more)
                on_drop(name, lost)
        trials = [(name, i) for name, those in going.items() for i in those]
        wanted = [(name, plan.trials[name][i], TUNING_SEED) for name, i in trials]
        for (name, i), run in zip(trials, stage("tuning", wanted, rung.epochs, more), strict=True):
            tried[name][i] = run
        before = rung.epochs
    tuned = {
        name: Tuned(
            [mine[i] for i in range(len(mine))],
            _winner(mine, workload),
            plan.space_as_json(name),
            name in plan.exhausted,
        )
        for name, mine in tried.items()
        if mine
    }
    best = {
        name: dict(tuned[name].runs[tuned[name].chosen].spec.settings) if tuned else start
        for name, start in plan.starts.items()
    }
    wanted = [(name, best[name], seed) for name in race.optimizers for seed in race.final_seeds]
    runs = stage("final", wanted, plan.epochs, plan.epochs)
    if all(run.status == "failed" for run in runs):
        raise LabError(f"every run failed; the first: {runs[0].error}")
    finals = {
        name: runs[i * race.seeds : (i + 1) * race.seeds] for i, name in enumerate(race.optimizers)
    }
    staged = [("tuning", run) for own in tuned.values() for run in own.runs]
    staged += [("final", run) for run in runs]
    rows = ranking(finals, workload)
    sensitivities = sensitivity([run for own in tuned.values() for run in own.runs], workload)
    for row in rows if tuned else ():
        row.sensitivity = sensitivities[row.optimizer]
        if "lr" in plan.spaces[row.optimizer]:
            rates = [dict(run.spec.settings)["lr"] for run in tuned[row.optimizer].runs]
            row.edge = edge_of(row.settings["lr"], rates)
    return Result(race, rows, staged, workload, origin.file, tuned, plan.rungs if tuned else ())


class _Pace:
    """Counts epochs, for whoever wants to know how long the rest will take."""

    def __init__(self, left: int, tell: Callable[[int, int], None]) -> None:
        self._left, self._tell = left, tell
        self._computed = 0
        self._under_way: dict[str, int] = {}

    def epoch(self, job: Job, _: dict[str, Any]) -> None:
        """A run has one more."""
        self._computed += 1
        self._under_way[job.spec.id] = self._under_way.get(job.spec.id, 0) + 1
        self._say()

    def run(self, run: Run, epochs: int) -> None:
        """A run has all that were asked for, or will have no more."""
        self._under_way.pop(run.spec.id, None)
        self.drop(epochs)

    def drop(self, epochs: int) -> None:
        """So many are not left any more."""
        self._left -= epochs
        self._say()

    def _say(self) -> None:
        self._tell(self._computed, max(0, self._left - sum(self._under_way.values())))


def _up_to(run: Run, epochs: int | None) -> Run:
    """The run as it was after so many epochs, whatever became of it later."""
    if epochs is None or len(run.epochs) < epochs:
        return run
    return replace(
        run,
        status="stopped",
        epochs=run.epochs[:epochs],
        seconds=run.seconds[:epochs],
        error=None,
    )


def _better(tried: dict[int, Run], going: list[int], count: int, workload: Workload) -> list[int]:
    """The trials that go on, so many at most: by validation, ties by their numbers. Those that
    diverged or failed do not."""
    able = [i for i in going if "validation" in final(tried[i], workload)]
    able.sort(key=lambda i: (validation_key(tried[i], workload), i))
    return sorted(able[:count])


def _winner(tried: dict[int, Run], workload: Workload) -> int:
    """The trial that is raced: the best on validation of those that got furthest. Where all were
    lost it is the first, what the optimizer starts from."""

    def key(i: int) -> tuple[bool, int, tuple[float, float], int]:
        lost = "validation" not in final(tried[i], workload)
        return lost, 0 if lost else -len(tried[i].epochs), validation_key(tried[i], workload), i

    return min(tried, key=key)


def write(result: Result, folder: Path) -> None:
    """The ranking and every run, trials included, as CSV and JSON."""
    metric = result.workload.metric
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "race.json").write_text(dumps(result.as_json()) + "\n")
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
