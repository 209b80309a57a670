"""A race: every contender tuned with the same budget, then run over the same seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from adamomentum_lab.catalog import Reference
from adamomentum_lab.engine.driver import Driver
from adamomentum_lab.engine.job import Job
from adamomentum_lab.engine.store import Run, Store
from adamomentum_lab.errors import LabError
from adamomentum_lab.race.facts import record_of
from adamomentum_lab.race.plan import TUNING_SEED, Plan
from adamomentum_lab.race.record import Stage
from adamomentum_lab.race.result import Result
from adamomentum_lab.race.search import select_survivors, select_winner
from adamomentum_lab.space import Settings
from adamomentum_lab.workload import Workload

Wanted = tuple[str, Settings, int]
"""An optimizer, its settings and a seed."""


def run_race(
    plan: Plan,
    reference: Reference,
    store: Store,
    engine: Driver,
    on_run: Callable[[str, Run, Workload], None],
    on_pace: Callable[[int, int], None] = lambda *_: None,
    on_drop: Callable[[str, int], None] = lambda *_: None,
) -> Result:
    """Run the race: tuning on validation alone, then the seeds.

    `on_pace` hears how many epochs were computed so far and how many are left, `on_drop` of runs of
    a contender that are not to be done after all.
    """
    race = plan.race
    workload = reference.load()(race.scale, race.protocol)
    pace = _EpochCount(plan.all_epochs, on_pace)

    def stage(name: str, wanted: list[Wanted], epochs: int, more: int) -> list[Run]:
        """Train runs up to so many epochs, `more` than they have."""
        asked = epochs if epochs < plan.epochs else None
        specs = [race.spec(*one) for one in wanted]

        def done(run: Run) -> None:
            pace.run(run, more)
            on_run(name, truncate(run, asked), workload)

        jobs = [Job(spec, reference, store.folder_of(spec), asked) for spec in specs]
        return [truncate(run, asked) for run in engine.run(jobs, pace.epoch, done)]

    tried: dict[str, dict[int, Run]] = {name: {} for name in race.optimizers}
    going = {name: list(range(len(settings))) for name, settings in plan.trials.items()}
    before = 0
    for rung in plan.rungs if race.trials else ():
        more = rung.epochs - before
        for name, mine in tried.items() if before else ():
            going[name] = select_survivors(mine, going[name], rung.trials, workload)
            if lost := min(rung.trials, len(mine)) - len(going[name]):
                pace.drop(lost * more)
                on_drop(name, lost)
        trials = [(name, i) for name, those in going.items() for i in those]
        wanted = [(name, plan.trials[name][i], TUNING_SEED) for name, i in trials]
        for (name, i), run in zip(trials, stage("tuning", wanted, rung.epochs, more), strict=True):
            tried[name][i] = run
        before = rung.epochs
    best = {
        name: dict(mine[select_winner(mine, workload)].spec.settings) if mine else plan.starts[name]
        for name, mine in tried.items()
    }
    wanted = [(name, best[name], seed) for name in race.optimizers for seed in race.final_seeds]
    runs = stage("final", wanted, plan.epochs, plan.epochs)
    if all(run.status == "failed" for run in runs):
        raise LabError(f"every run failed; the first: {runs[0].error}")
    staged: list[tuple[Stage, Run]] = [
        ("tuning", mine[i]) for mine in tried.values() for i in range(len(mine))
    ]
    staged += [("final", run) for run in runs]
    return Result(record_of(plan, staged, workload, reference), race.id)


class _EpochCount:
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


def truncate(run: Run, epochs: int | None) -> Run:
    """The run as it was after so many epochs, whatever became of it later."""
    if epochs is None or len(run.epochs) < epochs:
        return run
    part, seconds = run.epochs[:epochs], run.seconds[:epochs]
    return replace(run, status="stopped", epochs=part, seconds=seconds, error=None)
