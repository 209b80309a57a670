"""What came of a race: its ranking, how each was tuned, every run; and the files that keep it."""

from __future__ import annotations

import csv
import functools
import inspect
import io
import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from adamomentum_lab import contenders, files
from adamomentum_lab.catalog import Reference
from adamomentum_lab.engine.environment import environment
from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.engine.store import Run
from adamomentum_lab.errors import LabError
from adamomentum_lab.files import dumps
from adamomentum_lab.plugins import provided
from adamomentum_lab.race.judge import Row, headline
from adamomentum_lab.race.plan import Plan, Race
from adamomentum_lab.selection import reported_epoch
from adamomentum_lab.workload import Workload


@dataclass
class Tuning:
    """How one contender was tuned."""

    runs: list[Run]
    """By trial, each as far as it was trained; `stopped` where others went on."""
    chosen: int
    """The index of the best on validation."""
    space: dict[str, Any]
    exhausted: bool
    """Whether there was less to try than the budget allowed."""

    @property
    def epochs(self) -> int:
        """What was spent, whether in this race or before."""
        return sum(len(run.epochs) for run in self.runs)

    def as_json(self, workload: Workload) -> dict[str, Any]:
        """A dictionary that JSON can write; trials are numbered from 1."""
        trials = [
            {
                "trial": i,
                "settings": run.spec.as_json()["settings"],
                "run": run.spec.id,
                "status": run.status,
                "epochs": len(run.epochs),
                "validation": reported_epoch(run, workload).get("validation"),
            }
            for i, run in enumerate(self.runs, 1)
        ]
        return {
            "space": self.space,
            "exhausted": self.exhausted,
            "trials": trials,
            "chosen": self.chosen + 1,
            "epochs": self.epochs,
        }


@dataclass
class Result:
    """Who won, and every run."""

    plan: Plan
    rows: list[Row]
    runs: list[tuple[str, Run]]
    """With the stage of each: tuning or final."""
    workload: Workload
    reference: Reference
    """Where the workload comes from."""
    tuned: dict[str, Tuning]
    """By contender; empty where nothing was tuned."""

    @property
    def race(self) -> Race:
        """What was raced."""
        return self.plan.race

    @functools.cached_property
    def headline(self) -> str:
        """Who won, and how sure that is."""
        return headline(self.rows, self.workload)

    @property
    def caveats(self) -> tuple[str, ...]:
        """What must be said with it."""
        race, cls = self.race, type(self.workload)
        return (*self.workload.caveats, *missing_settings(race.optimizers, cls, race.protocol))

    @property
    def command(self) -> str:
        """What runs the same race again."""
        race, reference = self.race, self.reference
        options = {
            "optimizers": ",".join(race.optimizers),
            "trials": race.trials,
            "seeds": race.seeds,
            "scale": race.scale,
            "protocol": race.protocol,
            **({"search": race.search} if race.trials else {}),
            **({"tune": ",".join(race.tune)} if race.tune else {}),
        }
        words = ["adamomentum", "race", race.workload if reference.module else str(reference.file)]
        words += [word for name, value in options.items() for word in (f"--{name}", str(value))]
        return shlex.join(words + ["--halving"] * race.halving)

    @functools.cached_property
    def effects(self) -> list[Any]:
        """What single changes did, where contenders that differ in one were raced."""
        tuned = self.race.trials > 0
        return [
            effect for of in provided("effects") for effect in of(self.rows, self.workload, tuned)
        ]

    def as_json(self) -> dict[str, Any]:
        """The whole, as `adamomentum race --json` prints it."""
        return {
            "spec": asdict(self.race),
            "workload": problem_as_json(self.workload),
            "headline": self.headline,
            "ranking": [row.as_json() for row in self.rows],
            **({"tuning": self._tuning()} if self.tuned else {}),
            "runs": [
                {"stage": stage, "id": run.spec.id, **run_as_json(run, self.workload)}
                for stage, run in self.runs
            ],
            "machine": {**environment("cpu"), "command": self.command},
            **({"effects": list(map(asdict, self.effects))} if self.effects else {}),
            **({"caveats": self.caveats} if self.caveats else {}),
        }

    def _tuning(self) -> dict[str, Any]:
        return {
            "search": self.race.search,
            "words": self.plan.lines(),
            "rungs": [asdict(rung) for rung in self.plan.rungs],
            "contenders": {name: own.as_json(self.workload) for name, own in self.tuned.items()},
        }


def problem_as_json(workload: Workload) -> dict[str, Any]:
    """What a reader of results has to know of a workload, whose file may be gone by then."""
    return {
        "about": inspect.cleandoc(type(workload).__doc__ or "").split("\n\n")[0],
        "metric": workload.metric,
        "larger_is_better": workload.larger_is_better,
        "target": workload.target,
        "selection": workload.selection,
        "epochs": type(workload).epochs[workload.scale],
    }


def run_as_json(run: Run, workload: Workload, epochs: int | None = None) -> dict[str, Any]:
    """One run, as `adamomentum train --json` prints it."""
    return {
        "spec": run.spec.as_json(),
        "status": run.status,
        "epochs": run.epochs[:epochs],
        "final": reported_epoch(run, workload, epochs),
        "machine": {**run.machine, "epoch_seconds": run.seconds[:epochs]},
        **({"caveats": caveats} if (caveats := caveats_of(run.spec, workload)) else {}),
        **({"error": run.error} if run.error else {}),
    }


def caveats_of(spec: Spec, workload: Workload) -> tuple[str, ...]:
    """What must be said with a run."""
    return (
        *workload.caveats,
        *missing_settings([spec.optimizer], type(workload), workload.protocol),
    )


def missing_settings(
    names: Iterable[str], workload: type[Workload], protocol: str
) -> tuple[str, ...]:
    """A caveat, where a protocol has settings of its own but not for all of these."""
    settings = workload.settings.get(protocol, {})
    missing = [
        name for name in names if settings and not contenders.get(name).settings_for(settings)
    ]
    if not missing:
        return ()
    return (f"no settings are known of {', '.join(missing)} under {protocol}: their defaults",)


def write(result: Result, payload: dict[str, Any], folder: Path) -> None:
    """The ranking and every run, trials included, as CSV and JSON, which is the payload."""
    contents = {
        "race.json": dumps(payload) + "\n",
        "ranking.csv": _csv(_ranking(result)),
        "runs.csv": _csv(_runs(result)),
    }
    try:
        for name, content in contents.items():
            files.write(folder / name, content)
    except LabError as error:
        raise LabError(f"{error} The runs themselves are kept.") from error


def _csv(rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue()


def _ranking(result: Result) -> Iterator[list[Any]]:
    yield [
        "rank", "optimizer", f"test {result.workload.metric}", "95% +/-", "seeds", "diverged",
        "failed", "difference", "difference 95% +/-", "p", "p after Holm", "Hedges' g",
        "permutation p", "could be missed", "verdict", "epochs to target", "steps to target",
        "seconds to target", "reached target", "ms per update", "settings",
    ]  # fmt: skip
    for row in result.rows:
        gap, c = row.difference, row.comparison
        to_target = row.epochs_to_target, row.steps_to_target, row.machine["seconds_to_target"]
        yield [
            row.rank, row.optimizer, row.score.mean, row.score.half, len(row.values), row.diverged,
            row.failed, gap and gap.mean, gap and gap.half,
            *((c.p, c.p_holm, c.effect, c.permutation, c.missed, c.verdict) if c else [None] * 6),
            *(estimate and estimate.mean for estimate in to_target), row.reached,
            row.machine["ms_per_update"], json.dumps(row.settings),
        ]  # fmt: skip


def _runs(result: Result) -> Iterator[list[Any]]:
    metric = result.workload.metric
    yield [
        "stage", "optimizer", "seed", "status", "epoch", f"validation {metric}", f"test {metric}",
        "ms per update", "settings", "id",
    ]  # fmt: skip
    for stage, run in result.runs:
        end = reported_epoch(run, result.workload)
        yield [
            stage, run.spec.optimizer, run.spec.seed, run.status, end.get("epoch"),
            end.get("validation", {}).get(metric),
            end.get("test", {}).get(metric) if stage == "final" else None,
            run.machine.get("ms_per_update"), json.dumps(run.spec.as_json()["settings"]),
            run.spec.id,
        ]  # fmt: skip
