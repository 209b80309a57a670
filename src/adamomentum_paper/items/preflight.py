"""Before the first run: what is missing, and what the runs will cost."""

from __future__ import annotations

from collections.abc import Callable

from adamomentum_lab.engine.store import Store
from adamomentum_lab.errors import LabError
from adamomentum_lab.race.estimate import Cost, estimate
from adamomentum_lab.race.plan import Race, make_plan
from adamomentum_lab.rules import Scale
from adamomentum_paper.items.catalog import Item
from adamomentum_paper.items.plans import plans_of, single_jobs


def check(
    item: Item,
    scale: Scale,
    protocol: str,
    store: Store,
    say: Callable[[str], None],
    *,
    seeds: int | None = None,
    optimizers: tuple[str, ...] = (),
    device: str = "",
) -> tuple[Cost, list[str]]:
    """Return the cost of all runs, and a sentence for each data set or file that is missing.

    Nothing is measured if something is missing.
    """
    plans = plans_of(item, scale, protocol, seeds, optimizers, device)
    for job in single_jobs(item, scale, protocol, store, device):
        spec, cls = job.spec, job.reference.load()
        race = Race(
            spec.workload, spec.code, (spec.optimizer,), 0, 1, scale, protocol, device=device
        )
        plans[f"{spec.workload} {spec.optimizer}"] = job.reference, make_plan(race, cls)
    missing: list[str] = []
    for reference, plan in plans.values():
        workload = reference.load()(plan.race.scale, plan.race.protocol)
        workload.kept = store.folder / "kept"
        try:
            workload.splits()
        except LabError as error:
            if str(error) not in missing:
                missing.append(str(error))
    total = Cost()
    if not missing:
        for name, (reference, plan) in plans.items():
            cost = estimate(plan, reference, store, device=device)
            say(f"{name}: {cost.words()}")
            total += cost
    return total, missing
