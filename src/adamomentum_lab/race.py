"""A race: every contender tuned with the same budget, then run over the same seeds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from adamomentum_lab import contenders
from adamomentum_lab.analysis.ranking import edge_of, final, ranking, validation_key
from adamomentum_lab.analysis.sensitivity import sensitivity
from adamomentum_lab.budget import Budget
from adamomentum_lab.errors import LabError
from adamomentum_lab.result import Result, Tuned
from adamomentum_lab.runs import tuning
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


def base_settings(name: str, workload: type[Workload], protocol: Rules) -> dict[str, Any]:
    """What an optimizer starts from on a workload: its defaults, and what the protocol says."""
    contender = contenders.get(name)
    return {**contender.defaults, **contender.stated(workload.settings.get(protocol, {}))}


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
    return Result(race, rows, staged, workload, origin.file, plan, tuned)


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
