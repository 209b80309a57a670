"""From the final runs of a race to a ranking with its uncertainty."""

from __future__ import annotations

import math
import statistics
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from adamomentum_lab.engine.store import Run
from adamomentum_lab.rules import OURS
from adamomentum_lab.selection import reported_epoch
from adamomentum_lab.stats.comparisons import Comparison, ScorePair, compare, compare_pairs
from adamomentum_lab.stats.estimates import Estimate, finite
from adamomentum_lab.words import count_noun, join_words, plus_minus
from adamomentum_lab.workload import Workload

if TYPE_CHECKING:
    from adamomentum_lab.race.sensitivity import Sensitivity


@dataclass
class Row:
    """One contender's place."""

    optimizer: str
    settings: dict[str, Any]
    score: Estimate
    """Of the metric on test."""
    values: list[float | None]
    """By seed; None where the run diverged, failed or has no finite score."""
    diverged: int
    failed: int
    difference: Estimate | None = None
    """To AdaMomentum, seed by seed; positive is a larger metric."""
    comparison: Comparison | None = None
    """With AdaMomentum as its base; None of AdaMomentum, and where it was not raced."""
    epochs_to_target: Estimate | None = None
    """Over the runs that reached it, as are the steps, and the seconds under `machine`."""
    steps_to_target: Estimate | None = None
    """Updates; None of runs that were recorded without their number."""
    reached: int = 0
    rank: int = 0
    """The same of those whose means are the same."""
    edge: str | None = None
    """Whether the chosen lr is the "largest", "smallest" or "only one" of those tried."""
    sensitivity: Sensitivity | None = None
    """To the lr, over the trials of its tuning."""
    machine: dict[str, Any] = field(default_factory=dict)

    @property
    def lost(self) -> int:
        """Runs without a score."""
        return self.values.count(None)

    def as_json(self) -> dict[str, Any]:
        """A dictionary that JSON can write."""
        return asdict(self)


def ranking(finals: dict[str, list[Run]], workload: Workload) -> list[Row]:
    """Best first; who has lost a run stands behind all who have not."""
    rows = [_row(name, runs, workload) for name, runs in finals.items()]
    ours = next((row for row in rows if row.optimizer == OURS), None)
    others = {row.optimizer: row for row in rows if row is not ours}
    if ours is not None:
        scores = {name: row.values for name, row in others.items()}
        metric = f"test {workload.metric}"
        for found in compare(ours.values, scores, metric, workload.larger_is_better):
            row = others[found.other]
            row.comparison, row.difference = found, found.difference
    sign = -1 if workload.larger_is_better else 1
    rows.sort(key=lambda row: (row.lost, row.score.mean is None, sign * (row.score.mean or 0.0)))
    for i, row in enumerate(rows):
        row.rank = rows[i - 1].rank if i and _tie(row, rows[i - 1]) else i + 1
    return rows


def _row(name: str, runs: list[Run], workload: Workload) -> Row:
    metric = workload.metric
    scores = finite([reported_epoch(run, workload).get("test", {}).get(metric) for run in runs])
    times = [run.machine["ms_per_update"] for run in runs if "ms_per_update" in run.machine]
    ends = [(run, epochs_to_target(run, workload)) for run in runs if run.status == "done"]
    reached = [(run, epoch) for run, epoch in ends if epoch is not None]
    steps = [step for run, epoch in reached if (step := _steps(run, epoch)) is not None]
    return Row(
        optimizer=name,
        settings=runs[0].spec.as_json()["settings"],
        score=Estimate.of([score for score in scores if score is not None]),
        values=scores,
        diverged=sum(run.status == "diverged" for run in runs),
        failed=sum(run.status == "failed" for run in runs),
        epochs_to_target=Estimate.of([float(epoch) for _, epoch in reached]),
        steps_to_target=Estimate.of(steps) if len(steps) == len(reached) else None,
        reached=len(reached),
        machine={
            "ms_per_update": statistics.median(times) if times else None,
            "seconds_to_target": Estimate.of([sum(run.seconds[:e]) for run, e in reached]),
        },
    )


def _steps(run: Run, epoch: int) -> float | None:
    """Updates up to the end of an epoch: exactly where all epochs have as many, and else, on Penn
    Treebank, in proportion."""
    updates = run.machine.get("updates")
    return None if updates is None else updates * epoch / len(run.epochs)


def edge_of(chosen: float, tried: list[float]) -> str | None:
    """Where among the learning rates that were tried the chosen one is, if not in the middle."""
    if len(set(tried)) == 1:
        return "only one"
    if chosen == max(tried):
        return "largest"
    return "smallest" if chosen == min(tried) else None


def epochs_to_target(run: Run, workload: Workload) -> int | None:
    """The first epoch that reached the workload's target, on validation where there is such."""
    if workload.target is None:
        return None
    split = "validation" if workload.selection == "validation" else "test"
    for record in run.epochs:
        score = record[split][workload.metric]
        if score == workload.target or workload.better(score, workload.target):
            return int(record["epoch"])
    return None


def headline(rows: list[Row], workload: Workload) -> str:
    """Who won a race, and how sure that is, in a few sentences."""
    scored = [row for row in rows if row.score.mean is not None]
    if not scored:
        return "Nobody won: no run ended with a score."
    first, *rest = rows
    best = [first, *(row for row in rest if _tie(row, first))]
    said = [_best_sentence(best, f"test {workload.metric}")]
    seeds = len(first.values)
    if first.lost:
        who = "They each" if len(best) > 1 else "It"
        runs = count_noun(seeds, "run")
        said.append(f"{who} lost {first.lost} of {runs}, and nobody lost fewer.")
    flattered = [row for row in scored if row.lost > first.lost and _beats(row, first, workload)]
    if flattered:
        one = len(flattered) == 1
        said.append(
            f"{_names(flattered)} {'has a better mean' if one else 'have better means'} over the "
            f"runs that ended well, but lost more of them and {'ranks' if one else 'rank'} behind."
        )
    if not rest:
        said.append("There was nobody to compare it with.")
    elif seeds == 1:
        said.append("With one seed nothing can be said of chance.")
    elif any(row.optimizer == OURS for row in rows):
        said += _sentences_on_ours(rows, best)
    else:
        said.append(_lead_sentence(first, rest[0], len(rows), workload))
    return " ".join(said)


def _best_sentence(best: list[Row], metric: str) -> str:
    score = best[0].score
    assert score.mean is not None
    what = metric if score.n == 1 else f"mean {metric}"
    if len(best) > 1:
        return f"{_names(best)} share the best {what}, {score.mean:.4g}."
    value = plus_minus(score.mean, score.half or None, ".4g")
    return f"{best[0].optimizer} has the best {what}, {value}."


def _tie(row: Row, other: Row) -> bool:
    a, b = row.score.mean, other.score.mean
    close = a == b if a is None or b is None else math.isclose(a, b, rel_tol=1e-12)
    return close and row.lost == other.lost


def _sentences_on_ours(rows: list[Row], best: list[Row]) -> list[str]:
    """AdaMomentum beside the others, by the verdicts that were corrected for their number."""
    better, worse, same, others = (
        [row for row in rows if row.comparison is not None and row.comparison.verdict == verdict]
        for verdict in ("worse", "better", "no difference detected", "not comparable")
    )
    ours = next(row for row in rows if row.optimizer == OURS)
    said = []
    if ours not in best:
        said.append(f"{OURS} is number {ours.rank} of {len(rows)}.")
    elif len(best) == 1:
        after = rows[1].comparison
        assert after is not None
        resolved = {
            "worse": "is more than chance",
            "no difference detected": f"is not resolved by {after.n} seeds",
        }.get(after.verdict, "cannot be judged")
        said.append(f"{OURS}'s lead over {after.other}, the next, {resolved}.")
    if better:
        said.append(f"{OURS} is better than {_names(better)}.")
    if worse:
        said.append(f"{OURS} is worse than {_names(worse)}.")
    if same:
        whom = "any of the others" if len(same) == len(rows) - 1 > 2 else _names(same, "or")
        said.append(f"Between {OURS} and {whom} no difference was detected.")
    if others:
        said.append(f"{_names(others)} cannot be compared with {OURS}, since runs were lost.")
    return said


def _lead_sentence(first: Row, second: Row, contenders: int, workload: Workload) -> str:
    """Of the best over the next, who were found from the scores themselves: that is fair only if
    every two that might have been so found are corrected for."""
    pair = ScorePair(second.optimizer, first.optimizer, second.values, first.values)
    metric, every_two = f"test {workload.metric}", math.comb(contenders, 2)
    return compare_pairs([pair], metric, workload.larger_is_better, of=every_two)[0].sentence


def _beats(row: Row, than: Row, workload: Workload) -> bool:
    a, b = row.score.mean, than.score.mean
    return a is not None and b is not None and workload.better(a, b)


def _names(rows: list[Row], word: str = "and") -> str:
    return join_words([row.optimizer for row in rows], word)
