"""The races and single runs that a table or figure needs."""

from __future__ import annotations

from adamomentum_lab.catalog import Reference, find_workload
from adamomentum_lab.engine.job import Job
from adamomentum_lab.engine.store import Store
from adamomentum_lab.errors import LabError
from adamomentum_lab.race.plan import Plan, Race, base_settings, make_plan
from adamomentum_lab.race.result import Result
from adamomentum_lab.rules import Scale
from adamomentum_lab.space import Settings
from adamomentum_paper.items import catalog
from adamomentum_paper.items.catalog import Item

TRIALS = 10
"""Tuning runs of each optimizer, under protocols that tune."""


def plans_of(
    item: Item,
    scale: Scale,
    protocol: str,
    seeds: int | None = None,
    optimizers: tuple[str, ...] = (),
    device: str = "",
) -> dict[str, tuple[Reference, Plan]]:
    """Return the race on each workload of a table, or of the table that a figure needs."""
    table = catalog.get(item.needs) if item.needs else item
    if table.kind != "scores":
        return {}
    raced = tuple(name for name in table.columns if not optimizers or name in optimizers)
    if not raced:
        raise LabError(f"{table.name} has no column of {', '.join(optimizers)}.")
    found = {}
    for name in table.rows:
        reference = find_workload(name)
        cls = reference.load()
        race = Race(
            name,
            reference.code,
            raced,
            TRIALS if cls.rules_of(protocol).tune else 0,
            seeds or table.seeds,
            scale,
            protocol,
            margin=cls.margin,
            device=device,
        )
        found[name] = reference, make_plan(race, cls)
    return found


def single_jobs(
    item: Item, scale: Scale, protocol: str, store: Store, device: str = ""
) -> list[Job]:
    """Return the runs with seeds that a caption names, at the settings of the table's runs."""
    jobs = []
    for name, optimizer, seed in item.single:
        reference = find_workload(name)
        cls = reference.load()
        if cls.rules_of(protocol).tune:
            settings = _tuned(store, name, optimizer, scale, protocol)
        else:
            settings = base_settings(optimizer, cls, protocol)
        race = Race(name, reference.code, (optimizer,), 0, 1, scale, protocol, device=device)
        spec = race.spec(optimizer, settings, seed)
        jobs.append(Job(spec, reference, store.folder_of(spec)))
    return jobs


def _tuned(store: Store, name: str, optimizer: str, scale: str, protocol: str) -> Settings:
    """Return the settings that a race has chosen."""
    for file in sorted(store.folder.glob("races/*/race.json")):
        result = Result.read(file)
        race = result.race
        same = (race.workload, race.scale, race.protocol) == (name, scale, protocol)
        if same and (runs := result.finals.get(optimizer)):
            return runs[0].settings
    table = next(one.name for one in catalog.ITEMS.values() if name in one.rows)
    raise LabError(
        f"{optimizer} has no tuned settings for {name} in {store.folder}: run "
        f"`adamomentum paper run {table} --protocol {protocol}` first."
    )
