"""A race: every contender tuned with the same budget, then run over the same seeds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from adamomentum_lab.catalog import Reference
from adamomentum_lab.engine.driver import Driver
from adamomentum_lab.engine.events import (
    Event,
    Listener,
    RunEnded,
    RunsDropped,
    Stage,
    broadcast,
)
from adamomentum_lab.engine.job import Job
from adamomentum_lab.engine.store import Run, Store
from adamomentum_lab.errors import LabError
from adamomentum_lab.race.facts import record_of
from adamomentum_lab.race.plan import TUNING_SEED, Plan
from adamomentum_lab.race.result import Result
from adamomentum_lab.race.search import select_survivors, select_winner
from adamomentum_lab.space import Settings

Wanted = tuple[str, Settings, int]
"""An optimizer, its settings and a seed."""


def run_race(
    plan: Plan,
    reference: Reference,
    store: Store,
    engine: Driver,
    listeners: Iterable[Listener] = (),
) -> Result:
    """Run the race: tuning on validation alone, then the seeds.

    The listeners hear of every run. One that raises is reported, and the race goes on without it.
    """
    race = plan.race
    workload = reference.load()(race.scale, race.protocol)
    emit = broadcast(listeners, engine.say)

    def train(stage: Stage, wanted: list[Wanted], epochs: int) -> list[Run]:
        """Train runs up to so many epochs."""
        asked = epochs if epochs < plan.epochs else None
        specs = [race.spec(*one) for one in wanted]
        jobs = [Job(spec, reference, store.folder_of(spec), asked, stage=stage) for spec in specs]

        def tell(event: Event) -> None:
            if isinstance(event, RunEnded):
                event = replace(event, run=truncate(event.run, asked))
            emit(event)

        return [truncate(run, asked) for run in engine.run(jobs, tell)]

    tried: dict[str, dict[int, Run]] = {name: {} for name in race.optimizers}
    going = {name: list(range(len(settings))) for name, settings in plan.trials.items()}
    before = 0
    for rung in plan.rungs if race.trials else ():
        for name, mine in tried.items() if before else ():
            going[name] = select_survivors(mine, going[name], rung.trials, workload)
            if lost := min(rung.trials, len(mine)) - len(going[name]):
                emit(RunsDropped("tuning", name, lost, lost * (rung.epochs - before)))
        trials = [(name, i) for name, those in going.items() for i in those]
        wanted = [(name, plan.trials[name][i], TUNING_SEED) for name, i in trials]
        for (name, i), run in zip(trials, train("tuning", wanted, rung.epochs), strict=True):
            tried[name][i] = run
        before = rung.epochs
    best = {
        name: dict(mine[select_winner(mine, workload)].spec.settings) if mine else plan.starts[name]
        for name, mine in tried.items()
    }
    wanted = [(name, best[name], seed) for name in race.optimizers for seed in race.final_seeds]
    runs = train("final", wanted, plan.epochs)
    if all(run.status == "failed" for run in runs):
        raise LabError(f"every run failed; the first: {runs[0].error}")
    staged: list[tuple[Stage, Run]] = [
        ("tuning", mine[i]) for mine in tried.values() for i in range(len(mine))
    ]
    staged += [("final", run) for run in runs]
    return Result(record_of(plan, staged, workload, reference), race.id)


def truncate(run: Run, epochs: int | None) -> Run:
    """The run as it was after so many epochs, whatever became of it later."""
    if epochs is None or len(run.epochs) < epochs:
        return run
    part, seconds = run.epochs[:epochs], run.seconds[:epochs]
    return replace(run, status="stopped", epochs=part, seconds=seconds, error=None)
