"""A result for other programs: its record, and beside it what follows from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

from adamomentum_lab.race.judge import Row
from adamomentum_lab.race.result import Result, Tuning
from adamomentum_lab.race.studies import judge_studies
from adamomentum_lab.race.verdict import Verdict
from adamomentum_lab.report import savings, sentences
from adamomentum_lab.report.verdicts import sentence
from adamomentum_lab.selection import Measure, reported_epoch


def as_json(result: Result) -> dict[str, object]:
    """As `adamomentum race --json` prints it: the keys of the record, as race.json has them, then
    `headline`, `verdicts` (each with `sign_flips`, a secondary p from 6 seeds on), `continue` (the
    option that may decide what is open), `ranking`, `tuning`, `speedups` (with --budgets) and
    `effects`, which are derived."""
    further = sentences.further_option(result)
    found: dict[str, object] = {
        **result.record.as_json(),
        "headline": sentences.of_result(result),
        "verdicts": [
            {**asdict(verdict), "sign_flips": result.sign_flips(verdict), "sentence": words}
            for verdict, words in sentences.of_pairs(result).items()
        ],
        "continue": further and f"{further[0]} {further[1]}",
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
    if result.budgets:
        found["speedups"] = {name: _speedup(name, result) for name in result.speedups}
    if result.effects:
        found["effects"] = [
            {**asdict(effect), "verdict": _verdict(effect.verdict, result)}
            for effect in result.effects
        ]
    return found


def studies_as_json(results: Sequence[Result]) -> dict[str, object]:
    """As `adamomentum race --studies --json` prints it: the verdicts with the study as the unit,
    then each study."""
    metric = f"test {results[0].workload.metric}"
    return {
        "headline": sentences.of_studies(results),
        "verdicts": [
            {**asdict(verdict), "sentence": sentence(verdict, metric)}
            for verdict in judge_studies(results)
        ],
        "studies": [as_json(result) for result in results],
    }


def _speedup(name: str, result: Result) -> dict[str, object]:
    """None is outside the budgets; the sentence says on which side."""
    found = result.speedups[name]
    plain = {
        key: value if not isinstance(value, float) or (value and math.isfinite(value)) else None
        for key, value in asdict(found).items()
    }
    return {**plain, "sentence": savings.of_speedup(name, result)}


def _row(row: Row, result: Result) -> dict[str, object]:
    step = result.steps.get(row.optimizer)
    return {
        **asdict(row),
        "verdict": row.verdict and _verdict(row.verdict, result),
        "machine": {"step": step and asdict(step)},  # times of loaded workers are no speeds
    }


def _verdict(verdict: Verdict, result: Result) -> dict[str, object]:
    words = sentence(verdict, f"test {result.workload.metric}")
    return {**asdict(verdict), "sentence": words}


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
        "chosen": None if own.chosen is None else own.chosen + 1,
        "epochs": own.epochs,
    }
