"""A result for other programs: its record, and beside it what follows from it."""

from __future__ import annotations

from dataclasses import asdict

from adamomentum_lab.race.judge import Row
from adamomentum_lab.race.result import Result, Tuning
from adamomentum_lab.report import sentences
from adamomentum_lab.selection import Measure, reported_epoch
from adamomentum_lab.stats.comparisons import Comparison


def as_json(result: Result) -> dict[str, object]:
    """As `adamomentum race --json` prints it: the keys of the record, as race.json has them, then
    `headline`, `ranking`, `tuning` and `effects`, which are derived."""
    found: dict[str, object] = {
        **result.record.as_json(),
        "headline": sentences.of_result(result),
        "ranking": [_row(row, result) for row in result.rows],
    }
    if result.tuned:
        found["tuning"] = {
            "search": result.race.search,
            "words": list(sentences.of_search(result)),
            "rungs": [asdict(rung) for rung in result.record.search.rungs],
            "contenders": {
                name: _tuning(own, result.workload) for name, own in result.tuned.items()
            },
        }
    if result.effects:
        found["effects"] = [
            {**asdict(effect), "comparison": _comparison(effect.comparison, result)}
            for effect in result.effects
        ]
    return found


def _row(row: Row, result: Result) -> dict[str, object]:
    compared = row.comparison and _comparison(row.comparison, result)
    return {**asdict(row), "comparison": compared}


def _comparison(found: Comparison, result: Result) -> dict[str, object]:
    sentence = sentences.of_comparison(found, f"test {result.workload.metric}")
    return {**asdict(found), "sentence": sentence}


def _tuning(own: Tuning, by: Measure) -> dict[str, object]:
    """Trials are numbered from 1."""
    return {
        "exhausted": own.exhausted,
        "trials": [
            {
                "trial": i,
                "settings": dict(run.settings),
                "run": run.id,
                "status": run.status,
                "epochs": run.trained,
                "validation": reported_epoch(run, by).get("validation"),
            }
            for i, run in enumerate(own.runs, 1)
        ],
        "chosen": own.chosen + 1,
        "epochs": own.epochs,
    }
