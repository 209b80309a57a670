"""From records to verdicts: pure functions, each of a race as its record holds it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from adamomentum_lab.race.judge import epochs_to_target, score_pair
from adamomentum_lab.race.result import Result
from adamomentum_lab.race.sensitivity import WITHIN, Sensitivity
from adamomentum_lab.report.sentences import of_comparison
from adamomentum_lab.selection import reported_epoch
from adamomentum_lab.stats.comparisons import LEVEL, Comparison, compare, compare_pairs, holm
from adamomentum_lab.stats.distributions import two_sided_p
from adamomentum_lab.stats.estimates import Estimate
from adamomentum_lab.words import count_noun, join_words
from adamomentum_paper.claims.wording import estimate, gap, interval, lead, reason, undetected

Verdict = Literal["seen", "seen in part", "not seen", "undecided", "not tested"]

OURS = "adamomentum"
MARGIN = 0.5
"""Points of accuracy within which one is as good as another: our choice, about half of what
separates Adam from SGDM in the paper's table of CIFAR-10."""
STEP = 1.0
"""Decades of lr between points of the paper's grid: what is closer cannot be told apart."""
DEFAULT = {"lr": 1e-3, "betas": [0.9, 0.999]}
"""What the paper calls the default of adaptive methods (section 5.2)."""


@dataclass(frozen=True)
class Judged:
    """A verdict, and what it comes from in words."""

    verdict: Verdict
    found: str


def better_than(race: Result, names: Sequence[str]) -> Judged:
    """Whether AdaMomentum is better than each of these, by the comparisons of the ranking."""
    ours = race.row(OURS)
    if ours is None:
        return Judged("not tested", "AdaMomentum was not raced.")
    found = [c for c in beside_ours(race) if c.other in names]
    score = f"{OURS} {estimate(ours.score)} test {race.workload.metric}."
    verdict, words = _beside(found, names)
    return Judged(verdict, f"{score} {words}")


def as_good_as(race: Result, name: str, margin: float = MARGIN) -> Judged:
    """Whether AdaMomentum is at most `margin` points of the metric worse than another, by the 95 %
    interval of their difference."""
    ours, other = race.row(OURS), race.row(name)
    if ours is None or other is None:
        return Judged("not tested", f"{OURS if ours is None else name} was not raced.")
    c = next(c for c in beside_ours(race) if c.other == name)
    scores = f"{OURS} {estimate(ours.score)}, {name} {estimate(other.score)} test "
    scores += f"{race.workload.metric}. "
    mean, half = c.difference.mean, c.difference.half
    if c.verdict == "not comparable" or mean is None or half is None:
        return Judged("undecided", f"{scores}They cannot be compared: {reason(c)}.")
    sign = 1 if race.workload.larger_is_better else -1
    lag = sign * mean + half  # how far ahead of ours the other may be
    words = f"{scores}{name} minus {OURS}: {interval(mean, half)}"
    if lag <= margin:
        return Judged("seen", f"{words}, nowhere {margin:g} ahead.")
    if c.verdict == "better":
        return Judged("not seen", f"{words}.")
    return Judged("undecided", f"{words}: {margin:g} and more ahead is not excluded.")


def least_varied(race: Result, names: Sequence[str]) -> Judged:
    """Whether AdaMomentum's scores vary less from seed to seed than each of these's: by Pitman and
    Morgan's test of two variances of paired scores, with Holm's correction."""
    rows = {row.optimizer: row for row in race.rows}
    raced = [name for name in names if name in rows]
    if OURS not in rows or not raced:
        return Judged("not tested", "It was not raced beside any of them.")
    spreads = {name: _spread(rows[name].values) for name in (OURS, *raced)}
    words = ", ".join(f"{name} {_spread_text(spread)}" for name, spread in spreads.items())
    ps = [_pitman_morgan(rows[OURS].values, rows[name].values) for name in raced]
    found: dict[bool, list[str]] = {True: [], False: []}  # whether ours varies less
    for name, p in zip(raced, holm([1.0 if p is None else p for p in ps]), strict=True):
        mine, its = spreads[OURS], spreads[name]
        if p <= LEVEL and mine is not None and its is not None:
            found[mine < its].append(name)
    less, more = found[True], found[False]
    verdict: Verdict = "seen in part" if less else "undecided"
    if more or len(less) == len(names):
        verdict = "not seen" if more else "seen"
    return Judged(
        verdict,
        f"Standard deviations over seeds: {words}. Detected as smaller than of "
        f"{join_words(less) or 'none'}, as larger than of {join_words(more) or 'none'}.",
    )


def faster_than(race: Result, names: Sequence[str], most: Sequence[str] = ()) -> Judged:
    """Whether AdaMomentum needs fewer epochs to the workload's target than each of these, and than
    more than half of `most`.

    A run that ended without it counts as one epoch more than it had, so that differences are rather
    too small.
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
    found = [c for c in every if c.other in named]  # corrected for all that were raced
    ended = [value for value in mine if value is not None]
    reached = sum(value <= problem.epochs for value in ended)
    mean = f"{statistics.fmean(ended):.1f}" if ended else "no"
    verdict, words = _beside(found, named, "Faster", "Slower")
    if most and verdict != "not tested":
        verdict = _than_most(found, names, most)
    told = f"{OURS} {mean} {what}, reached by {reached} of {count_noun(len(mine), 'run')}."
    return Judged(verdict, f"{told} {words}")


def _than_most(found: Sequence[Comparison], names: Sequence[str], most: Sequence[str]) -> Verdict:
    """Whether all of these, and more than half of `most`, are worse."""
    worse = {c.other for c in found if c.verdict == "worse"}
    better = {c.other for c in found if c.verdict == "better"}
    if better & set(names) or 2 * len(better & set(most)) > len(most):
        return "not seen"
    if worse >= set(names) and 2 * len(worse & set(most)) > len(most):
        return "seen"
    return "seen in part" if worse else "undecided"


def default_works(race: Result) -> Judged:
    """Whether the default comes within 2 % of the best of AdaMomentum's trials, on validation."""
    problem, own = race.workload, race.tuned.get(OURS)
    if own is None:
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
        return Judged("undecided", "No trial ended with a score.")
    if score is None:
        return Judged("not seen", "The default's run was lost.")
    near = abs(score - best) <= WITHIN * abs(best)
    return Judged(
        "seen" if near else "not seen",
        f"Default {score:.4g}, best of {count_noun(len(own.runs), 'trial')} {best:.4g} "
        f"validation {problem.metric}, one seed.",
    )


def robust_to_lr(race: Result, names: Sequence[str]) -> Judged:
    """Whether more decades of lr are good for AdaMomentum than for these, in the middle of them, by
    a step of the grid."""
    asked = {
        row.optimizer: row.sensitivity
        for row in race.rows
        if row.sensitivity and row.optimizer in (OURS, *names)
    }
    if OURS not in asked or len(asked) < 2:
        return Judged("not tested", "There are no trials to tell it from.")
    untold = [one.note for one in asked.values() if one.note and not _none_good(one)]
    if untold:
        return Judged("not tested", f"It cannot be told: {untold[0]}.")
    decades = {name: one.decades or 0.0 for name, one in asked.items()}
    mine = decades.pop(OURS)
    others = list(decades.values())
    middle = statistics.median(others)
    words = (
        f"Decades of lr within {WITHIN:.0%} of the best of all: {OURS} {mine:.1f}, median of "
        f"{len(others)} others {middle:.1f}, most {max(others):.1f}; one seed."
    )
    if abs(mine - middle) < STEP:
        return Judged("undecided", words)
    return Judged("seen" if mine > middle else "not seen", words)


def _none_good(sensitivity: Sensitivity) -> bool:
    """Whether learning rates were tried, and none was good."""
    return str(sensitivity.note).startswith("no learning rate came within")


def effect(race: Result, before: str, after: str) -> Judged:
    """Whether a change of the paper helps, by the contenders without it and with it."""
    verdicts: dict[str, Verdict] = {"better": "seen", "worse": "not seen"}
    for one in race.effects:
        c = one.comparison
        if (c.base, c.other) == (before, after):
            words = f"{of_comparison(c, f'test {race.workload.metric}')} {one.caveat}".strip()
            return Judged(verdicts.get(c.verdict, "undecided"), words)
    return Judged("not tested", f"{before} was not raced beside {after}.")


def theory(record: dict[str, Any], statement: str) -> Judged:
    """What was found of a statement, which is named by how it begins."""
    verdicts: dict[str, Verdict] = {
        "holds": "seen",
        "holds only when": "seen in part",
        "does not hold": "not seen",
    }
    for one in record["findings"]:
        if one["statement"].startswith(statement):
            word = one["word"].capitalize()
            return Judged(verdicts[one["word"]], f"{word}: {one['found']}")
    return Judged("not tested", "The record does not have it.")


def memory(state: dict[str, float]) -> Judged:
    """Whether the state of AdaMomentum is no larger than Adam's."""
    words = ", ".join(f"{name} {size:g}" for name, size in state.items())
    return Judged(
        "seen" if state[OURS] <= state["adam"] else "not seen",
        f"Bytes of state for each float32 parameter: {words}.",
    )


def together(judged: dict[str, Judged]) -> Judged:
    """One verdict over several workloads. Only what is seen on all is seen."""
    missing = [name for name, one in judged.items() if one.verdict == "not tested"]
    words = [f"{name}: {one.found}" for name, one in judged.items() if name not in missing]
    if not words:
        return Judged("not tested", "")
    if missing:
        words.append(f"Not tested: {join_words(missing)}.")
    verdicts = {one.verdict for one in judged.values()}
    verdict: Verdict = "not seen" if "not seen" in verdicts else "undecided"
    if verdicts & {"seen", "seen in part"}:
        verdict = "seen" if verdicts == {"seen"} else "seen in part"
    return Judged(verdict, " ".join(words))


def lr_effect(race: Result) -> tuple[str, list[str]] | None:
    """Whether a lead over Adam is one of the learning rate, and the comparisons in sentences.

    None where adam, adam-translated and AdaMomentum were not all raced. Where lr was tuned,
    adam-translated is Adam too, with another grid of lr: a lead must be one over both.
    """
    rows = {row.optimizer: row for row in race.rows}
    if not rows.keys() >= {"adam", "adam-translated", OURS}:
        return None
    two = (("adam", OURS), ("adam", "adam-translated"), ("adam-translated", OURS))
    pairs = [score_pair(rows[a], rows[b]) for a, b in two]
    found = compare_pairs(pairs, race.workload.larger_is_better)
    lead, longer, more = (c.verdict for c in found)
    tuned = bool(race.race.trials)
    if lead == "worse" or (tuned and more == "worse"):
        answer = "There is no lead: Adam is ahead."
    elif tuned and lead == more == "better":
        answer = "Not of lr alone: AdaMomentum is ahead of Adam with a tuned lr, on either grid."
    elif tuned:
        answer = "Undecided: no lead over Adam with a tuned lr was detected on both grids."
    elif lead != "better":
        answer = "Undecided: no lead over Adam was detected."
    elif more == "better":
        answer = "No: AdaMomentum is ahead of Adam at the translated lr too."
    elif more == "worse":
        answer = "Yes, and more: Adam at the translated lr is ahead of AdaMomentum."
    elif longer == "better" and more == "no difference detected":
        answer = (
            "As far as can be seen, yes: at the translated lr Adam is ahead of Adam too, and no "
            "difference between that and AdaMomentum was detected."
        )
    else:
        answer = "Undecided: there is a lead, but what Adam does at the translated lr is not clear."
    metric = f"test {race.workload.metric}"
    return answer, [of_comparison(c, metric) for c in found if not (tuned and c is found[1])]


def flatter_than(record: dict[str, Any], name: str) -> Judged:
    """Whether AdaMomentum's solutions are flatter than another's, by every measure of a landscape:
    each by its own 95 % interval over the seeds."""
    found = {
        one["measure"]: one
        for one in record["comparisons"]
        if (one["first"], one["other"]) == (OURS, name)  # one group of each
    }
    if not found:
        return Judged("not tested", f"{OURS} and {name} were not compared.")
    loss = found.pop("loss")
    words = [
        f"{record['measures'][measure]} {gap(Estimate(**one['difference']))} ({one['verdict']})"
        for measure, one in found.items()
    ]
    seeds = loss["difference"]["n"]
    told = (
        f"{OURS} minus {name}, {count_noun(seeds, 'seed')}: {'; '.join(words)}. Loss at the "
        f"solutions: {gap(Estimate(**loss['difference']))} ({loss['verdict']})."
    )
    verdicts = {one["verdict"] for one in found.values()}
    if "sharper" in verdicts:
        return Judged("undecided" if "flatter" in verdicts else "not seen", told)
    if "flatter" in verdicts and loss["verdict"] == "lower":
        return Judged("undecided", f"{told} It may be no more than how far each was trained.")
    if verdicts == {"flatter"}:
        return Judged("seen", told)
    return Judged("seen in part" if "flatter" in verdicts else "undecided", told)


def _beside(
    found: Sequence[Comparison], names: Sequence[str], more: str = "Better", less: str = "Worse"
) -> tuple[Verdict, str]:
    """One verdict on being better than all of them, and a sentence for each outcome."""
    worse, better, same, lost = (
        [c for c in found if c.verdict == verdict]
        for verdict in ("worse", "better", "no difference detected", "not comparable")
    )
    missing = set(names) - {c.other for c in found}
    outcomes = {
        f"{more} than ": join_words([lead(c) for c in worse]),
        f"{less} than ": join_words([lead(c) for c in better]),
        "No difference detected to ": join_words([undetected(c) for c in same]),
        "": "; ".join(f"{c.other} cannot be compared: {reason(c)}" for c in lost),
        "Not raced: ": join_words([name for name in names if name in missing]),
    }
    text = " ".join(f"{words}{who}." for words, who in outcomes.items() if who)
    if not found:
        return "not tested", text
    if better:
        return "not seen", text
    if worse:
        return "seen" if len(worse) == len(names) else "seen in part", text
    return "undecided", text


def beside_ours(race: Result) -> list[Comparison]:
    """The others beside AdaMomentum: the comparisons of the ranking, if it is the baseline."""
    if race.race.baseline == OURS:
        return [row.comparison for row in race.rows if row.comparison]
    rows = {row.optimizer: row.values for row in race.rows}
    mine = rows.pop(OURS)
    return compare(OURS, mine, rows, race.workload.larger_is_better, race.record.digits)


def _epochs_to_target(race: Result, name: str) -> list[float | None]:
    """By seed; None of a run that diverged or failed."""
    never = race.workload.epochs + 1
    return [
        float(epochs_to_target(run, race.workload) or never) if run.status == "done" else None
        for run in race.finals[name]
    ]


def _spread(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.stdev(known) if len(known) == len(values) > 1 else None


def _spread_text(spread: float | None) -> str:
    return f"{spread:.2g}" if spread is not None else "none (runs lost, or one seed)"


def _pitman_morgan(a: Sequence[float | None], b: Sequence[float | None]) -> float | None:
    """Two-sided p that two paired scores vary alike: their sum and difference then are not
    correlated (Pitman 1939, Morgan 1939). None with a lost run, or fewer than three."""
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
