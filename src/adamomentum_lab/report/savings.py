"""How much training a contender saves, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from adamomentum_lab.race.result import Result
from adamomentum_lab.stats.speedup import Speedup
from adamomentum_lab.words import count_noun, join_words, number

SHOWN = 3
"""Contenders in a headline, at most."""
COVERS = (
    "Each interval is a 95 % interval over seeds, for one contender. It does not cover the luck of "
    "tuning."
)


def share_in_words(found: Speedup) -> str:
    """1/f with its interval: `0.74 (0.66 to 0.83)`, or `less than 0.50`."""
    text = _share(found.factor, found)
    if found.low is None or found.high is None:
        return text
    low, high = _share(found.high, found), _share(found.low, found)
    return text if low == high == text else f"{text} ({low} to {high})"


def _share(factor: float, found: Speedup) -> str:
    """1/f. Nothing is said beyond the lengths that were run."""
    if math.isinf(factor):
        return f"less than {1 / found.longest:.2f}"
    if factor == 0.0:
        return f"more than {1 / found.shortest:.2f}"
    return f"{1 / factor:.2f}"


def decided(name: str, result: Result) -> bool:
    """Whether a contender saves or costs something, beyond chance: its interval leaves out 1, and
    its verdict, which allows for tuning and for the other pairs, is decided too."""
    found = result.speedups[name]
    if found.low is None or found.high is None or found.low <= 1 <= found.high:
        return False
    kind = next((v.kind for v in result.verdicts if v.a == name), "undecided")
    return kind == ("better" if found.factor > 1 else "worse")


def of_speedup(name: str, result: Result) -> str:
    """What a contender saves beside the baseline, in a sentence."""
    found, base = result.speedups[name], result.race.baseline
    share, metric = share_in_words(found), result.workload.metric
    if found.factor >= 1:
        text = f"{name}: the same {metric} as {base} in {share} of the updates"
    else:
        text = f"{name}: the same {metric} as {base} takes {share} times the updates"
    if (ratio := time_ratio(name, result)) is not None and 0 < found.factor < math.inf:
        time = f"{ratio / found.factor:.2f}"
        text += f" and {time} of the time" if found.factor >= 1 else f" and {time} times the time"
    if found.low is not None and not decided(name, result):
        text += ", which may be chance"
    return f"{text}."


def time_ratio(name: str, result: Result) -> float | None:
    """The time of an update beside the baseline's; None if it was not measured."""
    steps, base = result.steps, result.race.baseline
    if base is None or not steps or not steps[base].milliseconds:
        return None
    return steps[name].milliseconds / steps[base].milliseconds


def of_steps(result: Result) -> str:
    """How times and memory were measured."""
    if not result.steps:
        return "Times of an update were not measured."
    updates = min(step.updates for step in result.steps.values())
    text = (
        f"Times are medians of {count_noun(updates, 'update')}, measured after the race, in turns, "
        "on one thread, in processor time. Memory is that of model, gradients and optimizer state "
        "at the peak of a step."
    )
    if any(step.alone < 0.9 for step in result.steps.values()):
        text += " Other programs were busy at the time, so times may be too long by sharing caches."
    return text


def of_target(result: Result) -> str:
    """What epochs to a target do not mean."""
    return (
        f"These are epochs within runs of {count_noun(result.workload.epochs, 'epoch')}. They do "
        "not say how much training is saved: at the same epoch a run with a longer schedule is at "
        "a higher learning rate. `--budgets` measures that."
    )


def of_speedups(result: Result) -> list[str]:
    """A sentence for each of the best contenders."""
    names = [row.optimizer for row in result.rows if row.optimizer in result.speedups]
    return [of_speedup(name, result) for name in names[:SHOWN]]


def of_budgets(result: Result) -> list[str]:
    """How it was measured, and what speaks against it."""
    budgets, base = result.budgets, result.race.baseline
    if not budgets:
        return []
    run = join_words([number(round(budget.factor, 3)) for budget in budgets])
    usual = count_noun(result.workload.epochs, "epoch")
    how = (
        f"{base} trained to the end of its schedule for {run} times the usual {usual}. The "
        "training it needs for the score of each other optimizer is read off between these "
        "lengths, and never beyond them."
    )
    said = [how, COVERS]
    if edges := [budget for budget in budgets if budget.at_edge]:
        where = join_words([number(round(budget.factor, 3)) for budget in edges])
        said.append(
            f"At {where} times the length, the best lr of {base} is the largest or smallest that "
            "was tried there, so it may do better."
        )
    if lost := [budget for budget in budgets if any(r.status != "done" for r in budget.runs)]:
        where = join_words([number(round(budget.factor, 3)) for budget in lost])
        said.append(f"{base} lost runs at {where} times the length, which is left out.")
    missing = _without(result)
    if missing:
        said.append(f"Runs of {join_words(missing)} were lost, so nothing is said of them.")
    return said


def _without(result: Result) -> Sequence[str]:
    return [n for n in result.finals if n != result.race.baseline and n not in result.speedups]
