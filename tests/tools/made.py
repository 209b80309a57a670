"""Races and measurements that were never run, as records hold them."""

import json
from dataclasses import asdict
from pathlib import Path

from adamomentum_lab.stats.comparisons import compare
from adamomentum_lab.stats.estimates import Estimate

ROOT = Path(__file__).parents[2]
OURS = [90.0, 90.4, 89.7, 90.2, 89.9]
LOWER = [85.1, 85.3, 84.8, 85.4, 84.7]
HIGHER = [95.1, 95.3, 94.8, 95.4, 94.7]
NEAR = [90.3, 89.8, 90.1, 89.8, 90.3]


def race_of(scores, workload="cifar10_resnet34", larger=True, target=None, **more):
    """A race as its record holds it, with these test scores by seed, or None where one was lost.

    `epochs` has for each optimizer the validation scores of every epoch of every seed.
    """
    metric = more.get("metric", "accuracy")
    names = list(scores)
    found = {}
    if "adamomentum" in scores:
        others = {name: scores[name] for name in names if name != "adamomentum"}
        of = compare(scores["adamomentum"], others, f"test {metric}", larger)
        found = {c.other: asdict(c) for c in of}
    ranking = [
        {
            "optimizer": name,
            "rank": rank,
            "values": values,
            "score": asdict(Estimate.of([value for value in values if value is not None])),
            "comparison": found.get(name),
            "settings": {"lr": 0.001},
            "edge": None,
            "sensitivity": {
                "decades": (its := more.get("decades", {}).get(name)),
                "note": more.get("note")
                or ("no learning rate came within 2%" if its is None else None),
            },
        }
        for rank, (name, values) in enumerate(scores.items(), 1)
    ]
    curves = more.get("epochs", {name: [[]] * len(scores[name]) for name in names})
    runs = [
        {
            "stage": "final",
            "id": f"{name}{seed}",
            "spec": {"optimizer": name, "seed": seed},
            "status": "diverged" if scores[name][seed] is None else "done",
            "epochs": [
                {"epoch": i, "validation": {metric: score}} for i, score in enumerate(curve, 1)
            ],
            "machine": {"seconds": 36.0},
        }
        for name in names
        for seed, curve in enumerate(curves[name])
    ]
    spec = {
        "workload": workload,
        "scale": "mini",
        "protocol": "fair",
        "trials": 4,
        "tune": [],
        "halving": False,
    }
    spec |= {"seeds": len(next(iter(scores.values()))), **more.get("spec", {})}
    return {
        "name": more.get("name", f"{workload}-{spec['scale']}-{spec['protocol']}"),
        "spec": spec,
        "workload": {
            "about": "Made up.",
            "metric": metric,
            "larger_is_better": larger,
            "target": target,
            "selection": "validation",
            "epochs": 5,
        },
        "headline": "Somebody won.",
        "ranking": ranking,
        "runs": runs,
        "tuning": {"contenders": more.get("tuned", {})},
        "machine": {"command": "adamomentum race", "torch": "2", "adamomentum": "0"},
        "effects": more.get("effects", []),
    }


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
