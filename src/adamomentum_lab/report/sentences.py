"""What a race says, in sentences that cannot be misread."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from adamomentum_lab.race.judge import Row, score_pair, share_rank
from adamomentum_lab.race.plan import Plan, Race
from adamomentum_lab.race.result import Result
from adamomentum_lab.race.search import Rung
from adamomentum_lab.selection import Measure
from adamomentum_lab.space import LOGARITHMIC, Space, Value, ends
from adamomentum_lab.stats.comparisons import Comparison, compare_pairs
from adamomentum_lab.words import amount, count_noun, join_words, number, plus_minus, probability


def headline(rows: Sequence[Row], by: Measure, baseline: str | None) -> str:
    """Who won a race, and how sure that is, in a few sentences."""
    scored = [row for row in rows if row.score.mean is not None]
    if not scored:
        return "Nobody won: no run ended with a score."
    first, *rest = rows
    best = [first, *(row for row in rest if share_rank(row, first))]
    said = [_best_sentence(best, f"test {by.metric}")]
    seeds = len(first.values)
    if first.lost:
        who = "They each" if len(best) > 1 else "It"
        runs = count_noun(seeds, "run")
        said.append(f"{who} lost {first.lost} of {runs}, and nobody lost fewer.")
    flattered = [row for row in scored if row.lost > first.lost and _beats(row, first, by)]
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
    elif base := next((row for row in rows if row.optimizer == baseline), None):
        said += _sentences_on(base, rows, best)
    else:
        said.append(_lead_sentence(first, rest[0], len(rows), by))
    return " ".join(said)


def _best_sentence(best: Sequence[Row], metric: str) -> str:
    score = best[0].score
    assert score.mean is not None
    what = metric if score.n == 1 else f"mean {metric}"
    if len(best) > 1:
        return f"{_names(best)} share the best {what}, {score.mean:.4g}."
    value = plus_minus(score.mean, score.half or None, ".4g")
    return f"{best[0].optimizer} has the best {what}, {value}."


def _sentences_on(base: Row, rows: Sequence[Row], best: Sequence[Row]) -> list[str]:
    """The baseline beside the others, by the verdicts that were corrected for their number."""
    better, worse, same, others = (
        [row for row in rows if row.comparison is not None and row.comparison.verdict == verdict]
        for verdict in ("worse", "better", "no difference detected", "not comparable")
    )
    name, said = base.optimizer, []
    if base not in best:
        said.append(f"{name} is number {base.rank} of {len(rows)}.")
    elif len(best) == 1:
        after = rows[1].comparison
        assert after is not None
        resolved = {
            "worse": "is more than chance",
            "no difference detected": f"is not resolved by {after.n} seeds",
        }.get(after.verdict, "cannot be judged")
        said.append(f"{name}'s lead over {after.other}, the next, {resolved}.")
    if better:
        said.append(f"{name} is better than {_names(better)}.")
    if worse:
        said.append(f"{name} is worse than {_names(worse)}.")
    if same:
        whom = "any of the others" if len(same) == len(rows) - 1 > 2 else _names(same, "or")
        said.append(f"Between {name} and {whom} no difference was detected.")
    if others:
        said.append(f"{_names(others)} cannot be compared with {name}, since runs were lost.")
    return said


def _lead_sentence(first: Row, second: Row, contenders: int, by: Measure) -> str:
    """Of the best over the next, who were found from the scores themselves: that is fair only if
    every two that might have been so found are corrected for."""
    every_two = math.comb(contenders, 2)
    (found,) = compare_pairs([score_pair(second, first)], by.larger_is_better, of=every_two)
    return of_comparison(found, f"test {by.metric}")


def _beats(row: Row, than: Row, by: Measure) -> bool:
    a, b = row.score.mean, than.score.mean
    return a is not None and b is not None and (a > b if by.larger_is_better else a < b)


def _names(rows: Sequence[Row], word: str = "and") -> str:
    return join_words([row.optimizer for row in rows], word)


def of_result(result: Result) -> str:
    """Who won, and how sure that is."""
    return headline(result.rows, result.workload, result.race.baseline)


def of_search(result: Result) -> list[str]:
    """What was searched and how."""
    search = result.record.search
    tried = {name: len(own.runs) for name, own in result.tuned.items()}
    return _search_lines(result.race, search.spaces, search.rungs, tried)


def of_plan(plan: Plan) -> list[str]:
    """What is searched and how, before the race."""
    tried = {name: len(settings) for name, settings in plan.trials.items()}
    return _search_lines(plan.race, plan.spaces, plan.rungs, tried)


def _search_lines(
    race: Race,
    spaces: Mapping[str, Space],
    rungs: Sequence[Rung],
    tried: Mapping[str, int],
) -> list[str]:
    if not race.trials:
        return []
    alike: dict[str, list[str]] = {}
    for optimizer, space in spaces.items():
        parts = [f"{name.replace('_', ' ')} {_range(name, space[name])}" for name in space]
        alike.setdefault(", ".join(parts), []).append(optimizer)
    found = [
        f"Searched ({race.search}) for {', '.join(names)}: {words or 'nothing'}."
        for words, names in alike.items()
    ]
    if len(rungs) > 1:
        first, *later = rungs
        more = "".join(f", the best {rung.trials} to {rung.epochs}" for rung in later)
        start = f"Halving, for each: {first.trials} trials up to epoch {first.epochs}"
        found.append(f"{start}{more}.")
    exhausted: dict[int, list[str]] = {}
    for name, count in tried.items():
        if count < race.trials:
            exhausted.setdefault(count, []).append(name)
    found += [
        f"{', '.join(names)}: only {count_noun(count, 'point')} to try in {race.trials} trials; "
        "unused trials are not reassigned."
        for count, names in exhausted.items()
    ]
    return found


def _range(name: str, values: Sequence[Value]) -> str:
    if name in LOGARITHMIC:
        return "..".join(map(number, ends(values)))
    if all(isinstance(value, float) for value in values):
        return " to ".join(map(number, ends(values)))
    return " ".join(map(number, values))


def of_comparison(c: Comparison, metric: str) -> str:
    """What a comparison says, in one or two sentences. The metric is such as "test accuracy"."""
    if c.verdict == "not comparable":
        return _not_comparable(c, metric)
    mean = c.difference.mean
    assert mean is not None
    assert c.p_holm is not None
    if c.test == "sign flips":
        return _constant_difference(c, metric, mean)
    half = c.difference.half or 0.0
    p = probability(c.p_holm)
    if c.verdict == "no difference detected":
        missed = amount(c.missed, c.missed) if c.missed is not None else "some"
        found = f"95 % interval of {c.other} minus {c.base} {_interval(mean, half)}"
        if abs(mean) > half:  # for itself it would have been one: the interval must not mislead
            found += f", which leaves out 0, but {p}{_correction(c)}"
        text = (
            f"No difference in {metric} between {c.other} and {c.base} was detected with {c.n} "
            f"seeds ({found}); one smaller than {missed} could have been missed."
        )
        return text + _permutation_sentence(c, found=True)
    low, high = sorted([abs(mean - half), abs(mean + half)])
    text = (
        f"{c.other} is {c.verdict} than {c.base}: its {metric} is {amount(abs(mean), half)} "
        f"{_direction(mean)} (95 % interval {_end(low, half)} to {amount(high, half)}, "
        f"{p}{_correction(c)}, {c.n} seeds)."
    )
    return text + _permutation_sentence(c, found=False)


def _permutation_sentence(c: Comparison, found: bool) -> str:
    """Where the exact test, which finds a difference or not, disagrees with the t-test."""
    p = c.permutation_holm
    if p is None or (p <= 0.05) != found:
        return ""
    says = "does find one" if found else "does not confirm it"
    return f" An exact permutation test {says} ({probability(p)})."


def _interval(mean: float, half: float) -> str:
    write = _end if abs(mean) > half else amount
    return f"{write(mean - half, half)} to {write(mean + half, half)}"


def _end(value: float, half: float) -> str:
    """An end of an interval that leaves out 0; never rounded to it."""
    text = amount(value, half)
    return f"{value:.1g}" if float(text) == 0 else text


def _correction(c: Comparison) -> str:
    if c.comparisons == 1:
        return ""
    return f" after Holm's correction for {c.comparisons} comparisons"


def _direction(mean: float) -> str:
    return "higher" if mean > 0 else "lower"


def _beside(c: Comparison, metric: str) -> str:
    """Such as `adam's test loss was 0.12 lower than yogi's`."""
    mean = c.difference.mean
    if not mean:
        return f"{c.other}'s {metric} was the same as {c.base}'s"
    size = f"{abs(mean):.3g}"
    return f"{c.other}'s {metric} was {size} {_direction(mean)} than {c.base}'s"


def _constant_difference(c: Comparison, metric: str, mean: float) -> str:
    if not mean:
        return (
            f"No difference in {metric} between {c.other} and {c.base} was detected: with each of "
            f"{c.n} seeds both scored the same."
        )
    assert c.p_holm is not None
    said = f"{_beside(c, metric)} with each of {c.n} seeds, by the same amount"
    tested = f"{probability(c.p_holm)} by flips of signs{_correction(c)}"
    if c.verdict == "no difference detected":
        return f"{said}; so few do not show a difference ({tested})."
    return f"{c.other} is {c.verdict} than {c.base}: {said} ({tested})."


def _not_comparable(c: Comparison, metric: str) -> str:
    every = "its only run" if c.seeds == 1 else f"all its {c.seeds} runs"
    lost = [
        f"{name} lost {every if count == c.seeds else f'{count} of its {c.seeds} runs'}"
        for name, count in ((c.other, c.other_lost), (c.base, c.base_lost))
        if count
    ]
    if lost:
        said = f"{c.other} and {c.base} cannot be compared: {join_words(lost)}"
        if not c.n:
            return f"{said}."
        those = "the one seed" if c.n == 1 else f"the {c.n} seeds"
        return (
            f"{said}, and what is left is no fair sample. With {those} that both finished, "
            f"{_beside(c, metric)}{' on average' if c.n > 1 else ''}."
        )
    if not c.seeds:
        return f"{c.other} and {c.base} cannot be compared: there are no runs."
    return f"With one seed {_beside(c, metric)}; whether by chance cannot be told."
