"""Which of a race's runs are stored already, before it begins."""

from __future__ import annotations

from adamomentum_lab.catalog import Reference
from adamomentum_lab.engine.job import Job
from adamomentum_lab.engine.reuse import Reuse, tell_changes
from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.engine.store import Run, Store
from adamomentum_lab.race.plan import Plan


def show_stored_runs(
    plan: Plan, reference: Reference, store: Store, fresh: bool = False, explain: bool = False
) -> tuple[list[Run], list[str]]:
    """Of the runs that are known before the race, those that are stored and count; and what has
    changed since others were stored, in lines.

    Args:
        plan: of the race.
        reference: to its workload.
        store: of its runs.
        fresh: whether stored runs are ignored.
        explain: say of each run that is known before the race why it counts or not.
    """
    race, reuse = plan.race, Reuse(store, fresh)
    specs = known_specs(plan)
    known = store.get_all(specs)
    found, explained = [], []
    for spec in specs:
        run = known.get(spec.id)
        decision = reuse.decide(
            Job(spec, reference, store.folder_of(spec), entry=race.entries.get(spec.optimizer)), run
        )
        if run is not None and decision.use in ("reuse", "continue"):
            found.append(run)
        if explain:
            explained.append(decision.about(spec))
    raced = {name: race.entries.get(name) for name in race.optimizers}
    changes = tell_changes(store, reference, race.scale, race.protocol, raced)
    return found, [*([] if fresh else changes), *explained]


def known_specs(plan: Plan) -> list[Spec]:
    """The runs that are known before the race: the trials, of a bracketing search the first, or
    the final runs where nothing is tuned."""
    race, starts = plan.race, plan.starts.items()
    if plan.brackets:
        return [race.spec(*start, race.tuning_seed) for start in starts]
    trials = [(name, settings) for name, tried in plan.trials.items() for settings in tried]
    if trials:
        return [race.spec(*trial, race.tuning_seed) for trial in trials]
    return [race.spec(*start, seed) for start in starts for seed in race.final_seeds]
