"""Rules that turn records into verdicts. All are pure functions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from adamomentum_lab.race import verdict as race_verdict
from adamomentum_lab.race.judge import epochs_to_target
from adamomentum_lab.race.referee import Pair
from adamomentum_lab.race.result import Result
from adamomentum_lab.race.sensitivity import WITHIN, Sensitivity
from adamomentum_lab.report.verdicts import difference, sentence
from adamomentum_lab.selection import reported_epoch
from adamomentum_lab.stats.comparisons import LEVEL, Comparison, compare, holm
from adamomentum_lab.stats.distributions import two_sided_p
from adamomentum_lab.words import count_noun, join_words
from adamomentum_paper.claims.wording import (
    because,
    beside,
    estimate,
    lead,
    reason,
    undetected,
)

Verdict = Literal["supported", "partly supported", "contradicted", "undecided", "not tested"]

OURS = "adamomentum"
MARGIN = 0.5
"""Points of accuracy within which one optimizer is as good as another. Our choice: about half of
the difference between Adam and SGDM in the paper's CIFAR-10 table."""
STEP = 1.0
"""Decades of lr between points of the paper's grid, the resolution of the search."""
DEFAULT = {"lr": 1e-3, "betas": [0.9, 0.999]}
"""The default of adaptive methods according to the paper (section 5.2)."""


@dataclass(frozen=True)
class Judged:
    """A verdict, and the measurement behind it as text."""

    verdict: Verdict
    found: str


def better_than(race: Result, names: Sequence[str]) -> Judged:
    """Judge whether AdaMomentum is better than each of `names`."""
    ours = race.row(OURS)
    if ours is None:
        return Judged("not tested", "AdaMomentum was not raced.")
    found = [one for one in beside_ours(race) if one.b in names]
    kinds = {
        kind: [one for one in found if one.kind == kind]
        for kind in ("better", "worse", "equivalent", "undecided", "not comparable")
    }
    missing = [name for name in names if name not in {one.b for one in found}]
    outcomes = {
        "Better than ": join_words([beside(one) for one in kinds["better"]]),
        "Worse than ": join_words([beside(one) for one in kinds["worse"]]),
        "Equivalent to ": join_words([beside(one) for one in kinds["equivalent"]]),
        "Undecided: ": "; ".join(because(one) for one in kinds["undecided"]),
        "Not comparable: ": join_words([one.b for one in kinds["not comparable"]]),
        "Not raced: ": join_words(missing),
    }
    words = " ".join(f"{what}{who.rstrip('.')}." for what, who in outcomes.items() if who)
    verdict: Verdict = "undecided" if found else "not tested"
    if kinds["worse"]:
        verdict = "contradicted"
    elif kinds["better"]:
        all_of_them = len(kinds["better"]) == len(names)
        verdict = "supported" if all_of_them else "partly supported"
    return Judged(verdict, f"{OURS} {estimate(ours.score)} test {race.workload.metric}. {words}")


def as_good_as(race: Result, name: str, margin: float = MARGIN) -> Judged:
    """Judge whether AdaMomentum is at most `margin` points worse than another optimizer.

    The interval of the difference decides. It covers seeds and the placing of the learning rate.
    """
    ours, other = race.row(OURS), race.row(name)
    if ours is None or other is None:
        return Judged("not tested", f"{OURS if ours is None else name} was not raced.")
    found = next(one for one in beside_ours(race) if one.b == name)
    scores = f"{OURS} {estimate(ours.score)}, {name} {estimate(other.score)} test "
    scores += f"{race.workload.metric}."
    if found.kind == "not comparable":
        return Judged("undecided", f"{scores} They cannot be compared: some runs failed.")
    low, high = found.interval
    worst = low if race.workload.larger_is_better else high  # of AdaMomentum minus the other
    lag = abs(worst) if worst is not None and found.kind != "better" else None
    if found.kind == "better" or (lag is not None and lag <= margin):
        words = f"{OURS} minus {name}: {difference(found)}. A lead of {margin:g} for {name} is "
        return Judged("supported", f"{scores} {words}excluded.")
    if found.kind == "worse":
        return Judged("contradicted", f"{scores} {OURS} minus {name}: {difference(found)}.")
    open_lead = f"A lead of {margin:g} for {name} is not excluded."
    return Judged("undecided", f"{scores} {because(found)}. {open_lead}")


def least_varied(race: Result, names: Sequence[str]) -> Judged:
    """Judge whether AdaMomentum's scores vary less between seeds than those of each of `names`.

    Uses the Pitman-Morgan test of two variances of paired scores, with Holm's correction.
    """
    rows = {row.optimizer: row for row in race.rows}
    raced = [name for name in names if name in rows]
    if OURS not in rows or not raced:
        return Judged("not tested", "It was not raced together with any of them.")
    spreads = {name: _spread(rows[name].values) for name in (OURS, *raced)}
    words = ", ".join(f"{name} {_spread_text(spread)}" for name, spread in spreads.items())
    ps = [_pitman_morgan(rows[OURS].values, rows[name].values) for name in raced]
    found: dict[bool, list[str]] = {True: [], False: []}  # whether ours varies less
    for name, p in zip(raced, holm([1.0 if p is None else p for p in ps]), strict=True):
        mine, its = spreads[OURS], spreads[name]
        if p <= LEVEL and mine is not None and its is not None:
            found[mine < its].append(name)
    less, more = found[True], found[False]
    verdict: Verdict = "partly supported" if less else "undecided"
    if more or len(less) == len(names):
        verdict = "contradicted" if more else "supported"
    return Judged(
        verdict,
        f"Standard deviations over seeds: {words}. Significantly smaller than "
        f"{join_words(less) or 'none'}, significantly larger than {join_words(more) or 'none'}.",
    )


def faster_than(race: Result, names: Sequence[str], most: Sequence[str] = ()) -> Judged:
    """Judge whether AdaMomentum reaches the workload's target in fewer epochs.

    It must need fewer epochs than each of `names` and than more than half of `most`. Runs that
    never reach the target count as one epoch longer than they ran, which makes differences smaller.
    """
    problem = race.workload
    if problem.target is None:
        return Judged("not tested", "The workload has no target.")
    raced = [row.optimizer for row in race.rows]
    if OURS not in raced:
        return Judged("not tested", "AdaMomentum was not raced.")
    epochs = {name: _epochs_to_target(race, name) for name in raced}
    mine = epochs.pop(OURS)
    what = f"epochs to {problem.target:g} {problem.metric}"
    named = (*names, *most)
    every = compare(OURS, mine, epochs, larger_is_better=False)
    found = [c for c in every if c.other in named]  # Holm's correction covers the whole race
    ended = [value for value in mine if value is not None]
    reached = sum(value <= problem.epochs for value in ended)
    mean = f"{statistics.fmean(ended):.1f}" if ended else "no"
    verdict, words = _beside(found, named, "Faster", "Slower")
    if most and verdict != "not tested":
        verdict = _than_most(found, names, most)
    summary = f"{OURS} {mean} {what}, reached by {reached} of {count_noun(len(mine), 'run')}."
    return Judged(verdict, f"{summary} {words}")


def _than_most(found: Sequence[Comparison], names: Sequence[str], most: Sequence[str]) -> Verdict:
    """Judge whether all of `names`, and more than half of `most`, are worse."""
    worse = {c.other for c in found if c.verdict == "worse"}
    better = {c.other for c in found if c.verdict == "better"}
    if better & set(names) or 2 * len(better & set(most)) > len(most):
        return "contradicted"
    if worse >= set(names) and 2 * len(worse & set(most)) > len(most):
        return "supported"
    return "partly supported" if worse else "undecided"


def default_works(race: Result) -> Judged:
    """Judge whether the default comes within 2 % of AdaMomentum's best trial on validation."""
    problem, own = race.workload, race.tuned.get(OURS)
    if own is None or own.chosen is None:
        return Judged("not tested", "AdaMomentum was not tuned.")
    trial = next((run for run in own.runs if DEFAULT.items() <= run.settings.items()), None)
    if trial is None:
        return Judged("not tested", "No trial had the paper's default lr and betas.")
    chosen = own.runs[own.chosen]
    if trial.status == "stopped" and trial.trained < chosen.trained:
        return Judged(
            "not tested",
            f"Halving stopped the default after {trial.trained} of {chosen.trained} epochs.",
        )
    best, score = (
        reported_epoch(run, problem).get("validation", {}).get(problem.metric)
        for run in (chosen, trial)
    )
    if best is None:
        return Judged("undecided", "No trial has a score.")
    if score is None:
        return Judged("contradicted", "The run with the default failed.")
    near = abs(score - best) <= WITHIN * abs(best)
    return Judged(
        "supported" if near else "contradicted",
        f"Default {score:.4g}, best of {count_noun(len(own.runs), 'trial')} {best:.4g} "
        f"validation {problem.metric}, one seed.",
    )


def robust_to_lr(race: Result, names: Sequence[str]) -> Judged:
    """Judge whether more learning rates are good for AdaMomentum than for `names`.

    Its range of good learning rates must exceed the median of the others by a step of the grid.
    """
    asked = {
        row.optimizer: row.sensitivity
        for row in race.rows
        if row.sensitivity and row.optimizer in (OURS, *names)
    }
    if OURS not in asked or len(asked) < 2:
        return Judged("not tested", "There are not enough trials.")
    unknown = [one.note for one in asked.values() if one.note and not _none_good(one)]
    if unknown:
        return Judged("not tested", f"The trials do not show it: {unknown[0]}.")
    decades = {name: one.decades or 0.0 for name, one in asked.items()}
    mine = decades.pop(OURS)
    others = list(decades.values())
    middle = statistics.median(others)
    words = (
        f"Decades of lr within {WITHIN:.0%} of the best of all: {OURS} {mine:.1f}, median of "
        f"{len(others)} others {middle:.1f}, maximum {max(others):.1f}; one seed."
    )
    if abs(mine - middle) < STEP:
        return Judged("undecided", words)
    return Judged("supported" if mine > middle else "contradicted", words)


def _none_good(sensitivity: Sensitivity) -> bool:
    """Return whether learning rates were tried and none was good."""
    return str(sensitivity.note).startswith("no learning rate came within")


def effect(race: Result, before: str, after: str) -> Judged:
    """Judge whether a change of the paper helps, from contenders without and with it."""
    verdicts: dict[str, Verdict] = {"better": "supported", "worse": "contradicted"}
    for one in race.effects:
        found = one.verdict
        if (found.b, found.a) == (before, after):
            words = f"{sentence(found, f'test {race.workload.metric}')} {one.caveat}".strip()
            return Judged(verdicts.get(found.kind, "undecided"), words)
    return Judged("not tested", f"{before} was not raced together with {after}.")


def together(judged: dict[str, Judged]) -> Judged:
    """Combine the verdicts on several workloads. "supported" needs support on all of them."""
    missing = [name for name, one in judged.items() if one.verdict == "not tested"]
    words = [f"{name}: {one.found}" for name, one in judged.items() if name not in missing]
    if not words:
        return Judged("not tested", "")
    if missing:
        words.append(f"Not tested: {join_words(missing)}.")
    verdicts = {one.verdict for one in judged.values()}
    verdict: Verdict = "contradicted" if "contradicted" in verdicts else "undecided"
    if verdicts & {"supported", "partly supported"}:
        verdict = "supported" if verdicts == {"supported"} else "partly supported"
    return Judged(verdict, " ".join(words))


def lr_effect(race: Result) -> tuple[str, list[str]] | None:
    """Judge whether a lead over Adam is just a larger learning rate.

    If lr was tuned, adam-translated is Adam with another lr grid, so a lead must be over both.

    Returns:
        The answer and a sentence for each comparison. None unless adam, adam-translated and
        AdaMomentum were all raced.
    """
    rows = {row.optimizer: row for row in race.rows}
    if not rows.keys() >= {"adam", "adam-translated", OURS}:
        return None
    pairs = (Pair(OURS, "adam"), Pair("adam-translated", "adam"), Pair(OURS, "adam-translated"))
    found = race.judge(pairs)
    lead, longer, more = (one.kind for one in found)
    tuned = bool(race.race.trials)
    if lead == "worse" or (tuned and more == "worse"):
        answer = "There is no lead: Adam is better."
    elif tuned and lead == more == "better":
        answer = "Not lr alone: AdaMomentum is better than Adam with a tuned lr, on both lr grids."
    elif tuned:
        answer = "Undecided: there is no significant lead over Adam with a tuned lr on both grids."
    elif lead != "better":
        answer = "Undecided: there is no significant lead over Adam."
    elif more == "better":
        answer = "No: AdaMomentum is also better than Adam at the translated lr."
    elif more == "worse":
        answer = "Yes: Adam at the translated lr is even better than AdaMomentum."
    elif longer == "better" and more in ("undecided", "equivalent"):
        answer = (
            "Probably yes: the translated lr makes Adam better too, and then it does not differ "
            "significantly from AdaMomentum."
        )
    else:
        answer = "Undecided: there is a lead, but the effect of the translated lr is not clear."
    metric = f"test {race.workload.metric}"
    told = (found[0], found[2]) if tuned else found
    return answer, [sentence(one, metric) for one in told]


def _beside(
    found: Sequence[Comparison], names: Sequence[str], more: str = "Better", less: str = "Worse"
) -> tuple[Verdict, str]:
    """Return the verdict on being better than all `names`, and a sentence for each outcome."""
    worse, better, same, lost = (
        [c for c in found if c.verdict == verdict]
        for verdict in ("worse", "better", "no difference detected", "not comparable")
    )
    missing = set(names) - {c.other for c in found}
    outcomes = {
        f"{more} than ": join_words([lead(c) for c in worse]),
        f"{less} than ": join_words([lead(c) for c in better]),
        "No significant difference from ": join_words([undetected(c) for c in same]),
        "": "; ".join(f"{c.other} cannot be compared: {reason(c)}" for c in lost),
        "Not raced: ": join_words([name for name in names if name in missing]),
    }
    text = " ".join(f"{words}{who}." for words, who in outcomes.items() if who)
    if not found:
        return "not tested", text
    if better:
        return "contradicted", text
    if worse:
        return "supported" if len(worse) == len(names) else "partly supported", text
    return "undecided", text


def beside_ours(race: Result) -> tuple[race_verdict.Verdict, ...]:
    """Return the verdict on AdaMomentum beside each of the others that were raced."""
    others = [name for name in race.race.optimizers if name != OURS]
    return race.judge([Pair(OURS, name) for name in others])


def _epochs_to_target(race: Result, name: str) -> list[float | None]:
    """Return the epochs to the target by seed; None for a run that diverged or failed."""
    never = race.workload.epochs + 1
    return [
        float(epochs_to_target(run, race.workload) or never) if run.status == "done" else None
        for run in race.finals[name]
    ]


def _spread(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.stdev(known) if len(known) == len(values) > 1 else None


def _spread_text(spread: float | None) -> str:
    return f"{spread:.2g}" if spread is not None else "none (failed runs, or one seed)"


def _pitman_morgan(a: Sequence[float | None], b: Sequence[float | None]) -> float | None:
    """Return the two-sided p that two paired scores have the same variance.

    The sum and the difference are then uncorrelated (Pitman 1939, Morgan 1939). None if a run
    failed or there are fewer than three.
    """
    pairs = [(x, y) for x, y in zip(a, b, strict=True) if x is not None and y is not None]
    n = len(pairs)
    if n < 3 or n < len(a):
        return None
    sums, gaps = [x + y for x, y in pairs], [x - y for x, y in pairs]
    if min(statistics.stdev(sums), statistics.stdev(gaps)) == 0:
        return None
    r = statistics.correlation(sums, gaps)
    if 1 - r * r <= 0:
        return 0.0
    t = abs(r) * math.sqrt((n - 2) / (1 - r * r))
    return two_sided_p(t, n - 2)
