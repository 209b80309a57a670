"""Races and measurements that were never run."""

import json
from dataclasses import replace
from pathlib import Path

from adamomentum_lab.race.plan import Race
from adamomentum_lab.race.record import Record, RunRecord, RunTimes, SearchFacts, WorkloadFacts
from adamomentum_lab.race.result import Result

ROOT = Path(__file__).parents[2]
OURS = [90.0, 90.4, 89.7, 90.2, 89.9]
LOWER = [85.1, 85.3, 84.8, 85.4, 84.7]
HIGHER = [95.1, 95.3, 94.8, 95.4, 94.7]
NEAR = [90.3, 89.8, 90.1, 89.8, 90.3]


def race_of(scores, workload="cifar10_resnet34", larger=True, target=None, **more):
    """A race with these test scores by seed, or None where one was lost.

    `lost` is the status of such runs. `epochs` has for each optimizer the validation scores of
    every epoch of every seed, `trials` for each its trials (made by `trial`) and the index of the
    chosen one.
    """
    metric = more.get("metric", "accuracy")
    spec = {"scale": "mini", "protocol": "fair", "trials": 4, "code": "", **more.get("spec", {})}
    seeds = len(next(iter(scores.values())))
    race = Race(workload, optimizers=tuple(scores), seeds=seeds, **spec)
    plain = {
        name: [[] if score is None else [score] for score in values]
        for name, values in scores.items()
    }
    curves = more.get("epochs", plain)
    trials, runs = more.get("trials", {}), []

    def run(stage, name, seed, settings, status, epochs, trained):
        made = race.spec(name, settings, seed)
        times = RunTimes(seconds=36.0)
        runs.append(RunRecord(stage, f"{made.id}{len(runs)}", made, status, epochs, trained, times))

    for name, (tried, _) in trials.items():
        for settings, score, status, trained in tried:
            epochs = () if score is None else ({"epoch": 1, "validation": {metric: score}},)
            run("tuning", name, 0, settings, status, epochs, trained)
    for name, values in scores.items():
        tried, chosen = trials.get(name, ([({"lr": 0.001}, None, "done", 0)], 0))
        for seed, (score, curve) in enumerate(zip(values, curves[name], strict=False), 1):
            epochs = tuple(
                {"epoch": i, "validation": {metric: one}, "test": {metric: score}}
                for i, one in enumerate(curve, 1)
            )
            status = more.get("lost", "diverged") if score is None else "done"
            run("final", name, seed, tried[chosen][0], status, epochs, len(epochs))
    facts = WorkloadFacts(
        workload, "Made up.", metric, larger, target, "validation", more.get("length", 5)
    )
    spaces = {name: {"lr": (0.1, 0.001)} for name in trials}
    machine = {"command": "adamomentum race", "torch": "2", "adamomentum": "0"}
    record = Record(race, facts, SearchFacts(spaces), tuple(runs), (), machine)
    return Result(record, more.get("name", f"{workload}-{race.scale}-{race.protocol}"))


def trial(lr=0.001, score=None, status="done", trained=5, **settings):
    """Of AdaMomentum or another: its settings, its score on validation, how it ended."""
    return {"lr": lr, **settings}, score, status, trained


def judged(race, **changes):
    """A race whose rows were changed: by optimizer, the new fields of its row."""
    rows = (replace(row, **changes.get(row.optimizer, {})) for row in race.rows)
    race.__dict__["rows"] = tuple(rows)
    return race


def speed_records(models=("ResNet-34", "one of 64 Mi")):
    """Of three measurements of these shapes, seconds that are easy to divide."""
    sizes = {"ResNet-34": (110, 21_282_122)}
    ways = ("Adam, fused", "AdaMomentum", "  plain loop", "  bfloat16 moments")
    seconds = [
        dict(zip(ways, (ms * 1e-3 for ms in its), strict=True))
        for its in ((3, 2, 24, 1), (4, 2, 30, 2), (2, 4, 44, 4))
    ]
    machine = {"threads": 2, "processors": 2, "processor": "A Processor", "torch": "2.13.0"}

    def steps(one):
        return {
            name: {"seconds": s, "state_bytes_per_parameter": 8.0, "gb_per_second": 1e-1 / s}
            for name, s in one.items()
        }

    return [
        {
            "machine": machine,
            "add_gb_per_second": 30.0 + i,
            "models": {
                model: {"tensors": tensors, "parameters": parameters, "steps": steps(one)}
                for model in models
                for tensors, parameters in [sizes.get(model, (1, 67_108_864))]
            },
        }
        for i, one in enumerate(seconds)
    ]


def written(file, record):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(record if isinstance(record, str) else json.dumps(record))
    return file


def landscape_record():
    """The committed one, with what the command writes beside it."""
    return json.loads(
        (ROOT / "results" / "landscape" / "digits_cnn-mini-fair.json").read_text("utf-8")
    )
