"""The runs of each cell of a table, from a folder of results. It may be half finished."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from adamomentum_lab.engine.store import Run, Store
from adamomentum_lab.errors import LabError
from adamomentum_lab.race.result import Result
from adamomentum_lab.rules import Scale
from adamomentum_lab.selection import EpochRecord, Measure, Trained, reported_epoch
from adamomentum_paper.items.catalog import Item
from adamomentum_paper.items.plans import plans_of

Runs = tuple[Trained, ...]


@dataclass(frozen=True)
class Spread:
    """Mean and population standard deviation, as the paper has them."""

    mean: float
    deviation: float | None
    """None of one run."""

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """Of some values; None if there are none."""
        if not values:
            return None
        deviation = statistics.pstdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), deviation)


@dataclass(frozen=True)
class Cell:
    """The runs of one optimizer on one workload."""

    workload: str
    optimizer: str
    by: Measure
    runs: Runs
    """Those that have ended."""
    planned: int
    """How many the table needs."""
    under_way: int = 0
    older: bool = False
    """Whether the code of the workload has changed since these runs."""
    devices: str = ""
    """Unless it is one CPU: the kind of device, how many shared a run, and how."""

    @property
    def values(self) -> list[float]:
        """The reported score of each run that has one."""
        return self._scores(lambda run: reported_epoch(run, self.by))

    @property
    def last(self) -> list[float]:
        """The score at the last epoch, where the best on test is reported."""
        if self.by.selection != "test":
            return []
        return self._scores(lambda run: run.epochs[-1] if run.status == "done" else {})

    @property
    def lost(self) -> int:
        """Runs that diverged or failed."""
        return len(self.runs) - len(self.values)

    def _scores(self, epoch_of: Callable[[Trained], EpochRecord]) -> list[float]:
        found = [epoch_of(run).get("test", {}).get(self.by.metric) for run in self.runs]
        return [value for value in found if value is not None and math.isfinite(value)]


def collect(item: Item, scale: Scale, protocol: str, folder: Path) -> dict[tuple[str, str], Cell]:
    """Return the cells of a table, or of the table that a figure needs: workload, optimizer.

    Runs are read from the store, and if their settings were tuned, or there is no store, from the
    records of races.
    """
    if not folder.is_dir():
        raise LabError(f"there are no results in {folder}; set --runs to the folder that has them.")
    store = Store(folder) if (folder / "runs.sqlite").exists() else None
    results = [Result.read(file) for file in sorted(folder.glob("races/*/race.json"))]
    cells, on_others = {}, _on_others(store)
    for name, (reference, plan) in plans_of(item, scale, protocol).items():
        workload = reference.load()(scale, protocol)
        mine = [
            one
            for one in results
            if (one.race.workload, one.race.scale, one.race.protocol) == (name, scale, protocol)
        ]
        # Records of the present code first, then those with most seeds.
        mine.sort(key=lambda one: (one.race.code != reference.code, -one.race.seeds))
        for optimizer, settings in plan.starts.items():
            cell = functools.partial(Cell, name, optimizer, planned=plan.race.seeds)
            stored: list[Trained] = []
            under_way = 0
            if store is not None and not plan.race.trials:
                specs = [plan.race.spec(optimizer, settings, n) for n in plan.race.final_seeds]
                known = store.get_all(specs).values()
                stored = [run for run in known if run.status in ("done", "diverged", "failed")]
                under_way = len(known) - len(stored)
                if not known and (
                    found := [on_others[one.id] for one in specs if one.id in on_others]
                ):
                    kinds = {f"{run.spec.device} {run.spec.devices}".strip() for run in found}
                    several = ", ".join(sorted(kinds))
                    cells[name, optimizer] = cell(by=workload, runs=tuple(found), devices=several)
                    continue
            record = next((one for one in mine if optimizer in one.finals), None)
            if record is not None and len(record.finals[optimizer]) > len(stored):
                older = record.race.code != reference.code
                finals = record.finals[optimizer]
                cells[name, optimizer] = cell(by=record.workload, runs=finals, older=older)
            else:
                runs = tuple(stored)
                cells[name, optimizer] = cell(by=workload, runs=runs, under_way=under_way)
    return cells


def _on_others(store: Store | None) -> dict[str, Run]:
    """Return the finished runs on other devices, by the id of the same run on the CPU."""
    if store is None:
        return {}
    ended = ("done", "diverged", "failed")
    runs = [one for one in store.all() if one.spec.device or one.spec.devices]
    return {replace(run.spec, device="", devices="").id: run for run in runs if run.status in ended}
