"""Records of older formats in the present one.

Format 1, without a number, is that of version 0.1. It kept what follows from the runs, too:
rankings, verdicts, sentences, and with each run the epoch that is reported. Its small records, as
those in `results/`, have that epoch with six digits and the others with five, and of a trial that
epoch alone.

Format 2 has neither looks nor points of a search space, and settings beside the chosen ones were
not run on the final seeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adamomentum_lab.contenders import BASELINE_OF_0_1
from adamomentum_lab.race.typed_json import FaultError, Json, decode, get
from adamomentum_lab.rules import Selection
from adamomentum_lab.selection import EpochRecord, select_epoch

_DIGITS = 6  # of the reported scores of small records
_TIMES = ("updates", "seconds", "ms_per_update", "epoch_seconds")


@dataclass(frozen=True)
class _Measure:
    metric: str
    larger_is_better: bool
    selection: Selection


def upgrade(data: Json, number: int) -> Json:
    """A record of an older format in the present one."""
    whole = _upgrade_1(data) if number < 2 else data
    if number < 3 and isinstance(whole, dict):
        # Then every optimizer had the form of weight decay that it is known by.
        spec = {"search": "grid", **_object(whole, "spec"), "own_decay": True}
        whole = {**whole, "format": 3, "spec": spec}
    return whole


def _upgrade_1(data: Json) -> Json:
    """A record of format 1 in format 2."""
    spec, workload = _object(data, "spec"), _object(data, "workload")
    raced = get(spec, "optimizers", "spec")
    took_part = isinstance(raced, list) and BASELINE_OF_0_1 in raced
    baseline = BASELINE_OF_0_1 if took_part else None
    measure: _Measure = decode(_Measure, workload, "workload")
    tuning = _object(data, "tuning") if get(spec, "trials", "spec") else {}
    contenders = _object(tuning, "contenders", "tuning") if tuning else {}
    trained = {
        get(trial, "run", "a trial"): get(trial, "epochs", "a trial")
        for own in contenders.values()
        for trial in _list(own, "trials", "a contender of tuning")
    }
    spaces: Json = {
        name: {key: _values(of) for key, of in _object(own, "space", name).items()}
        for name, own in contenders.items()
    }
    rungs = get(tuning, "rungs", "tuning") if tuning else []
    return {
        "spec": {**spec, "baseline": baseline},
        "workload": {
            **workload,
            "name": get(spec, "workload", "spec"),
            "summary": get(workload, "about", "workload"),
        },
        "search": {"spaces": spaces, "rungs": rungs},
        "runs": [
            _run(run, measure, trained, f"runs[{i}]") for i, run in enumerate(_list(data, "runs"))
        ],
        "caveats": data.get("caveats", []) if isinstance(data, dict) else [],
        "machine": _object(data, "machine"),
        "digits": _digits(data),
    }


def _run(run: Json, measure: _Measure, trained: dict[Any, Json], place: str) -> dict[str, Json]:
    epochs, final = _list(run, "epochs", place), _object(run, "final", place)
    machine = _object(run, "machine", place)
    times = {key: machine[key] for key in _TIMES if key in machine}
    rest = {key: value for key, value in machine.items() if key not in times}
    assert isinstance(run, dict)
    return {
        **run,
        "epochs": list(_with_final(epochs, final, measure)),
        "trained": trained.get(run.get("id"), len(epochs)),
        "machine": {**times, "environment": rest},
    }


def _with_final(epochs: list[Any], final: EpochRecord, measure: _Measure) -> list[EpochRecord]:
    """The epochs, with all digits of the one that is reported."""
    if not final or final in epochs:
        return epochs
    if not epochs:
        return [final]
    merged = [final if epoch.get("epoch") == final.get("epoch") else epoch for epoch in epochs]
    if select_epoch(merged, measure) is final or measure.selection == "last":
        return merged
    # A later epoch with as good a score was rounded up: they are compared by the same digits.
    return [
        {**final, measure.selection: old[measure.selection]} if new is final else new
        for new, old in zip(merged, epochs, strict=True)
    ]


def _digits(data: Json) -> int | None:
    """Of the reported scores, if the record is a small one."""
    finals = (_object(run, "final", "a run") for run in _list(data, "runs"))
    scores = [
        value
        for final in finals
        for split in final.values()
        if isinstance(split, dict)
        for value in split.values()
        if isinstance(value, float)
    ]
    rounded = all(value == float(f"{value:.{_DIGITS}g}") for value in scores)
    return _DIGITS if scores and rounded else None


def _values(space: Json) -> Json:
    """Under a random search the two ends were kept."""
    return [space.get("from"), space.get("to")] if isinstance(space, dict) else space


def _object(data: Json, key: str, place: str = "") -> dict[str, Json]:
    found = get(data, key, place)
    if not isinstance(found, dict):
        raise FaultError(f"{place + '.' if place else ''}{key} is no object")
    return found


def _list(data: Json, key: str, place: str = "") -> list[Json]:
    found = get(data, key, place)
    if not isinstance(found, list):
        raise FaultError(f"{place + '.' if place else ''}{key} is no list")
    return found
