"""What follows from the record of a race: its ranking, how each was tuned; and the files of it."""

from __future__ import annotations

import csv
import functools
import io
import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from adamomentum_lab import files
from adamomentum_lab.errors import LabError
from adamomentum_lab.plugins import provided
from adamomentum_lab.race.judge import (
    Edge,
    Effect,
    Row,
    conduct_of,
    contenders_of,
    edge_of,
    ranking,
)
from adamomentum_lab.race.plan import Race
from adamomentum_lab.race.record import Record, RunRecord, WorkloadFacts
from adamomentum_lab.race.referee import Entrant, Pair
from adamomentum_lab.race.sensitivity import sensitivity
from adamomentum_lab.race.speedups import Budget, budgets_of, speedups_of
from adamomentum_lab.race.steps import StepTime, steps_of
from adamomentum_lab.race.verdict import Verdict, judge
from adamomentum_lab.selection import FAULTS, reported_epoch
from adamomentum_lab.stats.comparisons import FLIPS, relative_rounding, sign_flips
from adamomentum_lab.stats.speedup import Speedup

FEWEST_FLIPS = 6
"""With fewer seeds, flips of signs cannot reach 0.05: 2 / 2^5 is 0.0625."""


@dataclass(frozen=True)
class Tuning:
    """How one contender was tuned."""

    runs: tuple[RunRecord, ...]
    """By trial, each as far as it was trained; `stopped` where others went on."""
    chosen: int | None
    """The index of the one whose settings were raced; None if trials were lost by a fault that is
    not the optimizer's, so that it was not raced."""
    exhausted: bool
    """Whether there was less to try than the budget allowed."""

    @property
    def epochs(self) -> int:
        """What was spent, whether in this race or before."""
        return sum(run.trained for run in self.runs)


@dataclass(frozen=True)
class Result:
    """Who won, and every run."""

    record: Record
    name: str = ""
    """Of the folder that it was read from."""

    @classmethod
    def read(cls, place: Path | str) -> Result:
        """From `race.json`, or from the folder of a race."""
        file = Path(place)
        file = file / "race.json" if file.is_dir() else file
        return cls(Record.read(file), file.resolve().parent.name)

    @property
    def race(self) -> Race:
        """What was raced."""
        return self.record.spec

    @property
    def workload(self) -> WorkloadFacts:
        """On what."""
        return self.record.workload

    @property
    def runs(self) -> tuple[RunRecord, ...]:
        """Every trial, then every final run."""
        return self.record.runs

    @property
    def command(self) -> str:
        """What runs the same race again."""
        return str(self.record.machine.get("command", ""))

    @property
    def is_of_users_file(self) -> bool:
        """Whether the workload was a file of the user's, not an installed one."""
        words = shlex.split(self.command)
        return len(words) > 2 and words[2] != self.race.workload

    @functools.cached_property
    def finals(self) -> dict[str, tuple[RunRecord, ...]]:
        """The final runs of each contender, by seed."""
        runs = sorted(self._staged("final"), key=lambda run: run.spec.seed)
        return {
            name: tuple(run for run in runs if run.spec.optimizer == name)
            for name in self.race.optimizers
        }

    @functools.cached_property
    def tuned(self) -> dict[str, Tuning]:
        """By contender; empty where nothing was tuned."""
        found = {}
        for name in self.race.optimizers:
            runs = tuple(run for run in self._staged("tuning") if run.spec.optimizer == name)
            if runs:
                tried = [run.spec.settings for run in runs]
                finals = self.finals[name]
                chosen = tried.index(finals[0].spec.settings) if finals else None
                exhausted = self.race.search != "bracket" and len(runs) < self.race.trials
                found[name] = Tuning(runs, chosen, exhausted)
        return found

    @functools.cached_property
    def checks(self) -> dict[str, tuple[RunRecord, ...]]:
        """By contender, its runs on the final seeds at settings beside the tuned ones."""
        return {
            name: tuple(run for run in self._staged("check") if run.spec.optimizer == name)
            for name in self.race.optimizers
        }

    @functools.cached_property
    def contenders(self) -> dict[str, Entrant]:
        """What the referee knew of each contender at the end."""
        return contenders_of(self.record)

    def judge(self, pairs: Sequence[Pair]) -> tuple[Verdict, ...]:
        """The verdict on each of these pairs, corrected for their number."""
        conduct = conduct_of(self.record, tuple(pairs))
        larger = self.workload.larger_is_better
        return tuple(
            judge(pair, self.contenders, conduct, self.resolution, larger) for pair in pairs
        )

    @functools.cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """On every pair that was compared; empty for one of several studies."""
        return self.judge(self.race.pairs) if self.race.studies == 1 else ()

    def sign_flips(self, verdict: Verdict) -> float | None:
        """Exact p of the mean difference at the tuned settings, by flips of the signs.

        A secondary figure, corrected neither for the number of pairs nor for looks. None with fewer
        than 6 seeds, which cannot reach 0.05, with more than 40, or where a run has no score.
        """
        found = [self.row(name) for name in (verdict.a, verdict.b)]
        values = [row.values[: verdict.seeds] for row in found if row is not None]
        pairs = [(a, b) for a, b in zip(*values, strict=True) if a is not None and b is not None]
        if len(pairs) < verdict.seeds or not FEWEST_FLIPS <= verdict.seeds <= FLIPS:
            return None
        largest = max(abs(value) for pair in pairs for value in pair)
        rounding = relative_rounding(self.record.digits) * largest * verdict.seeds
        return sign_flips([a - b for a, b in pairs], rounding)

    @property
    def resolution(self) -> float:
        """The smallest difference that the metric can show."""
        return max((run.resolution for run in self.runs), default=0.0)

    @functools.cached_property
    def rows(self) -> tuple[Row, ...]:
        """The ranking, best first."""
        verdicts = self.verdicts if self.race.baseline else ()
        rows = ranking(self.finals, self.workload, verdicts, self.record.digits)
        if not self.tuned:
            return tuple(rows)
        found = sensitivity(self._staged("tuning"), self.workload)
        return tuple(
            replace(row, sensitivity=found.get(row.optimizer), edge=self._edge(row)) for row in rows
        )

    @functools.cached_property
    def faults(self) -> tuple[RunRecord, ...]:
        """The runs that failed or were lost for a reason that is not the optimizer's. With any, the
        race is incomplete; the same race again runs just those."""
        every = (*self.runs, *self.record.budgets)
        return tuple(run for run in every if run.status in FAULTS)

    @functools.cached_property
    def budgets(self) -> tuple[Budget, ...]:
        """The baseline at several lengths of training."""
        return budgets_of(self.record, self.finals)

    @functools.cached_property
    def speedups(self) -> dict[str, Speedup]:
        """By contender, how much training the baseline needs for the same score."""
        return speedups_of(self.record, self.finals)

    @functools.cached_property
    def steps(self) -> dict[str, StepTime]:
        """By contender, time and memory of an update; empty if they were not measured."""
        return steps_of(self.record)

    @functools.cached_property
    def effects(self) -> tuple[Effect, ...]:
        """What single changes did, where contenders that differ in one were raced."""
        return tuple(effect for find in provided("effects") for effect in find(self))

    def row(self, optimizer: str) -> Row | None:
        """The place of a contender, if it was raced."""
        return next((row for row in self.rows if row.optimizer == optimizer), None)

    def score(self, run: RunRecord, split: str = "test") -> float | None:
        """What counts of a run: the metric on a split at the epoch that is reported.

        None if the run diverged or failed, or if the epoch has no score of the split.
        """
        scores = reported_epoch(run, self.workload).get(split, {})
        found: float | None = scores.get(self.workload.metric)
        return found

    def _staged(self, stage: str) -> list[RunRecord]:
        return [run for run in self.runs if run.stage == stage]

    def _edge(self, row: Row) -> Edge | None:
        if row.optimizer not in self.tuned or not row.values:
            return None
        space = self.contenders[row.optimizer].space
        if not any(axis.name == "lr" for axis in space.axes):
            return None
        rates = [run.settings["lr"] for run in self.tuned[row.optimizer].runs]
        return edge_of(row.settings["lr"], rates)


def write(result: Result, folder: Path) -> None:
    """The record as JSON, and the ranking and every run, trials included, as CSV."""
    workload = result.workload
    contents = {
        "race.json": result.record.dumps(),
        "ranking.csv": _csv(_ranking_row(row, result) for row in result.rows),
        "runs.csv": _csv(run_row(r, workload) for r in (*result.runs, *result.record.budgets)),
    }
    try:
        for name, content in contents.items():
            files.write(folder / name, content)
    except LabError as error:
        raise LabError(f"{error} The runs themselves are kept.") from error


def _csv(rows: Iterable[dict[str, object]]) -> str:
    first, *rest = rows
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(first))
    writer.writeheader()
    writer.writerows([first, *rest])
    return text.getvalue()


def _ranking_row(row: Row, result: Result) -> dict[str, object]:
    verdict, workload, step = row.verdict, result.workload, result.steps.get(row.optimizer)
    low, high = verdict.interval if verdict else (None, None)
    to_target = {"epochs": row.epochs_to_target, "steps": row.steps_to_target}
    return {
        "rank": row.rank,
        "optimizer": row.optimizer,
        f"test {workload.metric}": row.score.mean,
        "95% +/-": row.score.half,
        "seeds": len(row.values),
        "diverged": row.diverged,
        "failed": row.failed,
        "verdict": verdict and verdict.kind,
        "difference": verdict and verdict.difference,
        "difference from": low,
        "difference to": high,
        "why undecided": verdict and " ".join(reason.why for reason in verdict.reasons),
        **{f"{unit} to target": took and took.mean for unit, took in to_target.items()},
        "reached target": row.reached,
        "ms per update": step and step.milliseconds,
        "settings": json.dumps(row.settings),
    }


def run_row(run: RunRecord, workload: WorkloadFacts) -> dict[str, object]:
    """A row of the table of all runs."""
    end, metric = reported_epoch(run, workload), workload.metric
    return {
        "stage": run.stage,
        "optimizer": run.spec.optimizer,
        "seed": run.spec.seed,
        "status": run.status,
        "epoch": end.get("epoch"),
        f"validation {metric}": end.get("validation", {}).get(metric),
        f"test {metric}": end.get("test", {}).get(metric) if run.stage != "tuning" else None,
        "settings": json.dumps(run.settings),
        "id": run.id,
    }
