"""What came of a race: its ranking, how each was tuned, every run; and the files that keep it."""

from __future__ import annotations

import csv
import functools
import inspect
import io
import json
import shlex
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from adamomentum_lab import contenders, files
from adamomentum_lab.catalog import Reference
from adamomentum_lab.engine.environment import environment
from adamomentum_lab.engine.store import Run
from adamomentum_lab.errors import LabError
from adamomentum_lab.files import dumps
from adamomentum_lab.plugins import provided
from adamomentum_lab.race.judge import Row, headline
from adamomentum_lab.race.plan import Plan, Race
from adamomentum_lab.rules import at_scale
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
        ends = {"trials": trials, "chosen": self.chosen + 1, "epochs": self.epochs}
        return {"space": self.space, "exhausted": self.exhausted, **ends}


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
        return caveats_of(self.race.optimizers, self.workload)

    @property
    def command(self) -> str:
        """What runs the same race again."""
        race, reference = self.race, self.reference
        options = {"optimizers": ",".join(race.optimizers)}
        options |= {key: getattr(race, key) for key in ("trials", "seeds", "scale", "protocol")}
        options |= {"search": race.search} if race.trials else {}
        options |= {"tune": ",".join(race.tune)} if race.tune else {}
        words = ["adamomentum", "race", race.workload if reference.module else str(reference.file)]
        words += [word for name, value in options.items() for word in (f"--{name}", str(value))]
        return shlex.join(words + ["--halving"] * race.halving)

    @functools.cached_property
    def effects(self) -> list[Any]:
        """What single changes did, where contenders that differ in one were raced."""
        given = (self.rows, self.workload, self.race.trials > 0)
        return [effect for find in provided("effects") for effect in find(*given)]

    def as_json(self) -> dict[str, Any]:
        """The whole, as `adamomentum race --json` prints it."""
        tuning = {
            "search": self.race.search,
            "words": self.plan.lines(),
            "rungs": [asdict(rung) for rung in self.plan.rungs],
            "contenders": {name: own.as_json(self.workload) for name, own in self.tuned.items()},
        }
        return {
            "spec": asdict(self.race),
            "workload": problem_as_json(self.workload),
            "headline": self.headline,
            "ranking": [row.as_json() for row in self.rows],
            **({"tuning": tuning} if self.tuned else {}),
            "runs": [
                {"stage": stage, "id": run.spec.id, **run_as_json(run, self.workload)}
                for stage, run in self.runs
            ],
            "machine": {**environment("cpu"), "command": self.command},
            **({"effects": list(map(asdict, self.effects))} if self.effects else {}),
            **({"caveats": self.caveats} if self.caveats else {}),
        }


def problem_as_json(workload: Workload) -> dict[str, Any]:
    """What a reader of results has to know of a workload, whose file may be gone by then."""
    return {
        "about": inspect.cleandoc(type(workload).__doc__ or "").split("\n\n")[0],
        "metric": workload.metric,
        "larger_is_better": workload.larger_is_better,
        "target": workload.target,
        "selection": workload.selection,
        "flaws": list(workload.rules_of(workload.protocol).flaws),
        "epochs": at_scale(workload.epochs, workload.scale),
    }


def run_as_json(run: Run, workload: Workload, epochs: int | None = None) -> dict[str, Any]:
    """One run, as `adamomentum train --json` prints it."""
    caveats = caveats_of([run.spec.optimizer], workload)
    return {
        "spec": run.spec.as_json(),
        "status": run.status,
        "epochs": run.epochs[:epochs],
        "final": reported_epoch(run, workload, epochs),
        "machine": {**run.machine, "epoch_seconds": run.seconds[:epochs]},
        **({"caveats": caveats} if caveats else {}),
        **({"error": run.error} if run.error else {}),
    }


def caveats_of(names: Iterable[str], workload: Workload) -> tuple[str, ...]:
    """What must be said with the runs of these optimizers."""
    return (*workload.caveats, *missing_settings(names, type(workload), workload.protocol))


def missing_settings(
    names: Iterable[str], workload: type[Workload], protocol: str
) -> tuple[str, ...]:
    """A caveat, where a protocol has settings of its own but not for all of these."""
    settings = workload.settings.get(protocol, {})
    missing = [name for name in names if not contenders.get(name).settings_for(settings)]
    if not settings or not missing:
        return ()
    return (f"no settings are known of {', '.join(missing)} under {protocol}: their defaults",)


def write(result: Result, payload: dict[str, Any], folder: Path) -> None:
    """The ranking and every run, trials included, as CSV and JSON, which is the payload."""
    contents = {
        "race.json": dumps(payload) + "\n",
        "ranking.csv": _csv([_ranking_row(row, result.workload) for row in result.rows]),
        "runs.csv": _csv([_run_row(*one, result.workload) for one in result.runs]),
    }
    try:
        for name, content in contents.items():
            files.write(folder / name, content)
    except LabError as error:
        raise LabError(f"{error} The runs themselves are kept.") from error


def _csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _ranking_row(row: Row, workload: Workload) -> dict[str, Any]:
    gap, c, machine = row.difference, row.comparison, row.machine
    tests = {"p": "p", "p after Holm": "p_holm", "Hedges' g": "effect"}
    tests |= {"permutation p": "permutation", "could be missed": "missed", "verdict": "verdict"}
    to_target = {"epochs": row.epochs_to_target, "steps": row.steps_to_target}
    to_target["seconds"] = machine["seconds_to_target"]
    return {
        "rank": row.rank,
        "optimizer": row.optimizer,
        f"test {workload.metric}": row.score.mean,
        "95% +/-": row.score.half,
        "seeds": len(row.values),
        "diverged": row.diverged,
        "failed": row.failed,
        "difference": gap and gap.mean,
        "difference 95% +/-": gap and gap.half,
        **{title: getattr(c, name, None) for title, name in tests.items()},
        **{f"{unit} to target": took and took.mean for unit, took in to_target.items()},
        "reached target": row.reached,
        "ms per update": machine["ms_per_update"],
        "settings": json.dumps(row.settings),
    }


def _run_row(stage: str, run: Run, workload: Workload) -> dict[str, Any]:
    end, metric = reported_epoch(run, workload), workload.metric
    return {
        "stage": stage,
        "optimizer": run.spec.optimizer,
        "seed": run.spec.seed,
        "status": run.status,
        "epoch": end.get("epoch"),
        f"validation {metric}": end.get("validation", {}).get(metric),
        f"test {metric}": end.get("test", {}).get(metric) if stage == "final" else None,
        "ms per update": run.machine.get("ms_per_update"),
        "settings": json.dumps(run.spec.as_json()["settings"]),
        "id": run.spec.id,
    }
