"""A race: every contender tuned with the same budget, then compared over the same seeds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from adamomentum_lab.catalog import Reference
from adamomentum_lab.engine.driver import Driver
from adamomentum_lab.engine.events import (
    Event,
    Listener,
    RunEnded,
    RunsAdded,
    RunsDropped,
    Stage,
    broadcast,
)
from adamomentum_lab.engine.job import Job
from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.engine.store import Run, Store
from adamomentum_lab.errors import LabError
from adamomentum_lab.race.bracket import bracket
from adamomentum_lab.race.budgets import Budgets, BudgetTask
from adamomentum_lab.race.facts import StagedRun, record_of, run_record
from adamomentum_lab.race.judge import task_score, tell_trials
from adamomentum_lab.race.looks import plan_looks, record_looks
from adamomentum_lab.race.plan import Plan
from adamomentum_lab.race.record import Record
from adamomentum_lab.race.referee import LOST, Referee, Task
from adamomentum_lab.race.result import Result
from adamomentum_lab.race.sampling import measure_sampling
from adamomentum_lab.race.search import select_survivors
from adamomentum_lab.race.spaces import point_of
from adamomentum_lab.race.speedups import further_lengths
from adamomentum_lab.selection import FAULTS
from adamomentum_lab.space import Settings
from adamomentum_lab.workload import Workload


def run_race(
    plan: Plan,
    reference: Reference,
    store: Store,
    engine: Driver,
    listeners: Iterable[Listener] = (),
) -> Result:
    """Run the race: tune on validation alone, then run the final seeds.

    The listeners hear of every run. One that raises is reported, and the race goes on without it.
    """
    race = plan.race
    workload = reference.load()(race.scale, race.protocol)
    emit = broadcast(listeners, engine.say)
    levels = plan_looks(race, store) if race.studies == 1 else {}
    spaces = plan.search_spaces
    searches = {name: bracket(own) for name, own in spaces.items()} if plan.brackets else {}
    referee = Referee(spaces, plan.conduct(levels), searches)
    tasks: dict[str, Task] = {}

    def job_of_settings(name: str, settings: Settings, seed: int, stage: Stage, epochs: int) -> Job:
        spec = race.spec(name, settings, seed, epochs)
        entry = race.entries.get(name)
        return Job(spec, reference, store.folder_of(spec), stage=stage, entry=entry)

    done: dict[str, StagedRun] = {}

    def job_of(task: Task) -> Job:
        settings = spaces[task.contender].settings(task.point)
        job = job_of_settings(task.contender, settings, task.seed, _stage(task, referee), 0)
        tasks[job.spec.id] = task
        return job

    def follow(job: Job, run: Run) -> list[Job]:
        task = tasks[job.spec.id]
        done[job.spec.id] = StagedRun(job.stage, run, task.point)
        resolution = float(run.machine.get("resolution", 0.0))
        referee.resolution = max(referee.resolution, resolution)
        new = referee.tell(task, task_score(task.stage, run, workload))
        emit_changes(task, new)
        return [job_of(task) for task in new]

    def emit_changes(task: Task, new: list[Task]) -> None:
        """Say how the number of runs differs from the plan."""
        own = referee.contenders[task.contender]
        unused = race.trials - len(own.trials)
        over = not any(one.stage == "tuning" for one in new)
        if task.stage == "tuning" and over and unused:
            emit(RunsDropped("tuning", task.contender, unused, unused * plan.epochs))
        if task.stage == "tuning" and over and own.faulty:
            emit(RunsDropped("final", task.contender, race.seeds, race.seeds * plan.epochs))
        if task.stage == "final":
            added = Counter((_stage(one, referee), one.contender) for one in new)
            for (stage, name), count in added.items():
                emit(RunsAdded(stage, name, count, count * plan.epochs))

    if race.trials and not plan.brackets:
        tried = _tune_listed(plan, reference, store, engine, workload, emit)
        for name, mine in tried.items():
            done |= {one.run.spec.id: one for one in mine}
            pairs = [(one.point, one.run) for one in mine]
            tell_trials(referee.contenders[name], pairs, workload)
    engine.run([job_of(task) for task in referee.begin()], emit, follow)
    finals = [one for one in done.values() if one.stage == "final"]
    if all(one.run.status in FAULTS for one in finals):
        first = next(one.run for one in done.values() if one.run.status in FAULTS)
        what = "every run failed" if finals else "every optimizer lost trials"
        raise LabError(f"{what}; the first: {first.error}")
    scores = {
        name: own.scores(own.tuned, own.seeds) if own.seeds else []
        for name, own in referee.contenders.items()
    }
    looks = record_looks(race, store, levels, scores)
    runs = _in_order(plan, done)
    folders = {
        name: [
            store.folder_of(one.run.spec)
            for one in runs
            if one.stage == "final" and one.run.spec.optimizer == name
        ]
        for name in race.optimizers
    }
    sampling = measure_sampling(race.pairs, folders)
    record = record_of(plan, runs, looks, sampling, workload, reference)
    if race.budgets:
        at_budgets = _run_budgets(plan, record, referee, engine, workload, emit, job_of_settings)
        record = replace(record, budgets=tuple(run_record(*one) for one in at_budgets))
    return Result(record, race.id)


JobOf = Callable[[str, Settings, int, Stage, int], Job]


def _run_budgets(
    plan: Plan,
    record: Record,
    referee: Referee,
    engine: Driver,
    workload: Workload,
    emit: Listener,
    job_of: JobOf,
) -> list[StagedRun]:
    """Run the baseline at other lengths; with `more_budgets`, until all contenders lie within."""
    race, name = plan.race, plan.race.baseline
    assert name is not None
    own = referee.contenders[name]
    first = race.tuning_seed + 1
    seeds = range(first, first + own.seeds)
    budgets = Budgets(own.space, own.tuned, race.tuning_seed, seeds)
    tasks: dict[str, BudgetTask] = {}
    done: list[tuple[BudgetTask, StagedRun]] = []
    foreseen = sum(runs for runs, _ in plan.at_budgets(name))

    def jobs_of(new: list[BudgetTask]) -> list[Job]:
        jobs = []
        for one in new:
            settings = own.space.settings(one.point)
            jobs.append(job_of(name, settings, one.seed, one.stage, one.epochs))
            tasks[jobs[-1].spec.id] = one
        for one in new[max(0, foreseen - len(tasks) + len(new)) :]:
            emit(RunsAdded(one.stage, name, 1, one.epochs))
        return jobs

    def follow(job: Job, run: Run) -> list[Job]:
        task = tasks[job.spec.id]
        done.append((task, StagedRun(task.stage, run, task.point)))
        return jobs_of(budgets.tell(task, task_score(task.stage, run, workload) or LOST))

    def found() -> list[StagedRun]:
        """The shortest first; of each length, those of the tuning seed first."""

        def key(one: tuple[BudgetTask, StagedRun]) -> tuple[int, bool, int, list[float]]:
            task = one[0]
            places = [-math.inf if p is None else float(p) for p in task.point]
            return task.epochs, task.stage == "final", task.seed, places

        return [staged for _, staged in sorted(done, key=key)]

    wanted = plan.lengths
    while wanted:
        engine.run(jobs_of(budgets.begin(wanted)), emit, follow)
        now = replace(record, budgets=tuple(run_record(*one) for one in found()))
        wanted = ()
        if race.more_budgets:
            wanted = further_lengths(now, Result(now).finals, budgets.lengths)
    return found()


def _stage(task: Task, referee: Referee) -> Stage:
    if task.stage == "tuning":
        return "tuning"
    return "final" if task.point == referee.contenders[task.contender].tuned else "check"


def _tune_listed(
    plan: Plan,
    reference: Reference,
    store: Store,
    engine: Driver,
    workload: Workload,
    emit: Listener,
) -> dict[str, list[StagedRun]]:
    """Run the trials of a grid or a random search, with successive halving if the plan has it."""
    race = plan.race

    def train(specs: list[Spec], epochs: int) -> list[Run]:
        """Train runs up to so many epochs."""
        asked = epochs if epochs < plan.epochs else None
        jobs = [
            Job(
                spec,
                reference,
                store.folder_of(spec),
                asked,
                stage="tuning",
                entry=race.entries.get(spec.optimizer),
            )
            for spec in specs
        ]

        def tell(event: Event) -> None:
            if isinstance(event, RunEnded):
                event = replace(event, run=truncate(event.run, asked))
            emit(event)

        return [truncate(run, asked) for run in engine.run(jobs, tell)]

    tried: dict[str, dict[int, Run]] = {name: {} for name in race.optimizers}
    going = {name: list(range(len(settings))) for name, settings in plan.trials.items()}
    before = 0
    for rung in plan.rungs:
        for name, mine in tried.items() if before else ():
            going[name] = select_survivors(mine, going[name], rung.trials, workload)
            if lost := min(rung.trials, len(mine)) - len(going[name]):
                emit(RunsDropped("tuning", name, lost, lost * (rung.epochs - before)))
        trials = [(name, i) for name, those in going.items() for i in those]
        specs = [race.spec(name, plan.trials[name][i], race.tuning_seed) for name, i in trials]
        for (name, i), run in zip(trials, train(specs, rung.epochs), strict=True):
            tried[name][i] = run
        before = rung.epochs
    return {
        name: [
            StagedRun("tuning", mine[i], point_of(plan.search_spaces[name], plan.trials[name][i]))
            for i in range(len(mine))
        ]
        for name, mine in tried.items()
    }


def _in_order(plan: Plan, done: dict[str, StagedRun]) -> list[StagedRun]:
    """The trials of each contender as they were run, then the final runs, then the checks."""
    names, stages = plan.race.optimizers, ("tuning", "final", "check")

    def key(one: StagedRun) -> tuple[int, int, tuple[float, ...], int]:
        spec, stage = one.run.spec, stages.index(one.stage)
        place = tuple(-math.inf if p is None else float(p) for p in one.point)
        if one.stage == "tuning":
            return stage, names.index(spec.optimizer), (), 0
        return stage, names.index(spec.optimizer), place, spec.seed

    return sorted(done.values(), key=key)


def truncate(run: Run, epochs: int | None) -> Run:
    """The run as it was after so many epochs, whatever became of it later."""
    if epochs is None or len(run.epochs) < epochs:
        return run
    part, seconds = run.epochs[:epochs], run.seconds[:epochs]
    return replace(run, status="stopped", epochs=part, seconds=seconds, error=None)
