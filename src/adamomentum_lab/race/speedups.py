"""What the budgets of a race say: how much training each contender saves, or costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from adamomentum_lab.race.budgets import REACH, lengths
from adamomentum_lab.race.record import Record, RunRecord
from adamomentum_lab.selection import reported_epoch
from adamomentum_lab.space import Value
from adamomentum_lab.stats.speedup import Speedup, speedup

Finals = Mapping[str, Sequence[RunRecord]]


@dataclass(frozen=True)
class Budget:
    """The baseline at one length of training."""

    factor: float
    """In parts of a usual run."""
    epochs: int
    lr: Value | None
    """Of its final runs."""
    tried: tuple[Value, ...]
    """Learning rates that were tried on the tuning seed; empty if none was checked again."""
    runs: tuple[RunRecord, ...]
    """Its final runs, by seed."""

    @property
    def at_edge(self) -> bool:
        """Whether the learning rate is the largest or smallest that was tried."""
        rates = [lr for lr in self.tried if isinstance(lr, (int, float))]
        return len(rates) > 1 and self.lr in (min(rates), max(rates))


def budgets_of(record: Record, finals: Finals) -> tuple[Budget, ...]:
    """The baseline at each length, the shortest first; empty if the race has no budgets."""
    base, usual = record.spec.baseline, record.workload.epochs
    if base is None or not record.budgets or not finals[base]:
        return ()
    found = [Budget(1.0, usual, finals[base][0].settings.get("lr"), (), tuple(finals[base]))]
    for epochs in dict.fromkeys(run.spec.epochs for run in record.budgets):
        own = [run for run in record.budgets if run.spec.epochs == epochs]
        raced = sorted((r for r in own if r.stage == "final"), key=lambda run: run.spec.seed)
        tried = tuple(run.settings["lr"] for run in own if run.stage == "tuning")
        if raced:
            lr = raced[0].settings.get("lr")
            found.append(Budget(epochs / usual, epochs, lr, tried, tuple(raced)))
    return tuple(sorted(found, key=lambda budget: budget.epochs))


def speedups_of(record: Record, finals: Finals) -> dict[str, Speedup]:
    """By contender, over the seeds that all its runs and those of the baseline share.

    Contenders that lost a run have none.
    """
    budgets = budgets_of(record, finals)
    found: dict[str, Speedup] = {}
    for name, runs in finals.items() if budgets else ():
        if name == record.spec.baseline:
            continue
        seeds = min(len(runs), *(len(budget.runs) for budget in budgets))
        scores = {b.factor: [_score(run, record) for run in b.runs[:seeds]] for b in budgets}
        worth = speedup(scores, [_score(run, record) for run in runs[:seeds]])
        if worth is not None:
            found[name] = worth
    return found


def further_lengths(record: Record, finals: Finals, run: Iterable[int]) -> tuple[int, ...]:
    """The lengths that `auto` runs next, after those that were run: the ends of its reach, where a
    contender lies outside."""
    factors = [found.factor for found in speedups_of(record, finals).values()]
    low, high = REACH
    wanted = [low] if 0.0 in factors else []
    wanted += [high] if math.inf in factors else []
    known = {*run}
    return tuple(n for n in lengths(wanted, record.workload.epochs, False) if n not in known)


def _score(run: RunRecord, record: Record) -> float:
    """Smaller is better; infinite if there is none."""
    by = record.workload
    value: float | None = reported_epoch(run, by).get("test", {}).get(by.metric)
    if value is None or not math.isfinite(value):
        return math.inf
    return -value if by.larger_is_better else value
