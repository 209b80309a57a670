"""What a race says, in sentences that cannot be misread."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import NormalDist

from adamomentum_lab.race.bracket import SearchSpace
from adamomentum_lab.race.judge import Row, share_rank
from adamomentum_lab.race.looks import Levels
from adamomentum_lab.race.plan import Plan, Race
from adamomentum_lab.race.record import RunRecord
from adamomentum_lab.race.result import Result
from adamomentum_lab.race.sampling import Sampling
from adamomentum_lab.race.search import Rung
from adamomentum_lab.race.studies import judge_studies
from adamomentum_lab.race.verdict import Verdict
from adamomentum_lab.report.savings import of_speedups
from adamomentum_lab.report.verdicts import UNTUNED, sentence
from adamomentum_lab.selection import Measure
from adamomentum_lab.space import LOGARITHMIC, Space, Value, ends
from adamomentum_lab.stats.power import sight, spread_limit
from adamomentum_lab.stats.verdicts import level_left
from adamomentum_lab.words import amount, count_noun, join_words, number, plus_minus


def of_result(result: Result) -> str:
    """The headline: who has the best mean, and what is known about the pairs."""
    rows, by = result.rows, result.workload
    scored = [row for row in rows if row.score.mean is not None]
    if not scored:
        return "Nobody won: no run ended with a score."
    first, *rest = rows
    best = [first, *(row for row in rest if share_rank(row, first))]
    said = [_best_sentence(best, f"test {by.metric}")]
    if first.lost:
        who = "They each" if len(best) > 1 else "It"
        runs = count_noun(len(first.values), "run")
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
    said += of_verdicts(result.verdicts, result.race)
    before = "" if result.race.trials else f"{UNTUNED[:1].upper()}{UNTUNED[1:]}: "
    return before + " ".join([*said, *of_speedups(result), *_not_tuned(result)])


def _best_sentence(best: Sequence[Row], metric: str) -> str:
    score = best[0].score
    assert score.mean is not None
    what = metric if score.n == 1 else f"mean {metric}"
    if len(best) > 1:
        return f"{_names(best)} share the best {what}, {score.mean:.4g}."
    value = plus_minus(score.mean, score.half or None, ".4g")
    return f"{best[0].optimizer} has the best {what}, {value}."


def of_verdicts(verdicts: Sequence[Verdict], race: Race) -> list[str]:
    """What is known about all pairs, in a sentence for each kind of verdict."""
    if race.baseline is None:
        return _of_all_pairs(verdicts, race)
    said = []
    for kind in ("better", "worse", "equivalent", "undecided", "not comparable"):
        names = [verdict.a for verdict in verdicts if verdict.kind == kind]
        if not names:
            continue
        who, one = join_words(names), len(names) == 1
        if kind in ("undecided", "not comparable"):
            said.append(f"{kind.capitalize()} beside {race.baseline}: {who}.")
        elif kind == "equivalent":
            said.append(f"{who} {'is' if one else 'are'} equivalent to {race.baseline}.")
        elif race.trials:
            said.append(f"{who} {'is' if one else 'are'} {kind} than {race.baseline}.")
        else:
            said.append(f"{who} {'scores' if one else 'score'} {kind} than {race.baseline}.")
    return said


def _of_all_pairs(verdicts: Sequence[Verdict], race: Race) -> list[str]:
    verb = "is" if race.trials else "scores"
    said = []
    for verdict in verdicts:
        if verdict.kind == "equivalent":
            said.append(f"{verdict.a} and {verdict.b} are equivalent.")
        elif verdict.kind in ("better", "worse"):
            said.append(f"{verdict.a} {verb} {verdict.kind} than {verdict.b}.")
    for kind in ("undecided", "not comparable"):
        if count := sum(verdict.kind == kind for verdict in verdicts):
            of = f"{count} of {count_noun(len(verdicts), 'pair')}"
            said.append(f"{of} {'is' if count == 1 else 'are'} {kind}.")
    return said


def of_studies(results: Sequence[Result]) -> str:
    """The headline of several studies: what is known with the study as the unit of chance."""
    race = results[0].race
    before = "" if race.trials else f"{UNTUNED[:1].upper()}{UNTUNED[1:]}: "
    said = of_verdicts(judge_studies(results), race)
    return before + " ".join([f"{len(results)} studies.", *said, *_not_tuned(results[0])])


def _not_tuned(result: Result) -> list[str]:
    """That weight decay was not tuned, if that may matter."""
    race = result.race
    axes = (axis.name for own in result.contenders.values() for axis in own.space.axes)
    if race.search != "bracket" or not race.trials or {"decay", "weight_decay"} & {*axes}:
        return []
    return ["Weight decay was not tuned."]


def of_pairs(result: Result) -> dict[Verdict, str]:
    """Each verdict in a sentence or two, those on the best contenders first."""
    metric = f"test {result.workload.metric}"
    order = {row.optimizer: row.rank for row in result.rows}
    sampling = {(one.a, one.b): one for one in result.record.sampling}
    return {
        verdict: " ".join(
            [sentence(verdict, metric), *_sampling(sampling.get((verdict.a, verdict.b)))]
        )
        for verdict in sorted(result.verdicts, key=lambda verdict: order[verdict.a])
    }


def _sampling(found: Sampling | None) -> list[str]:
    if found is None:
        return []
    half = NormalDist().inv_cdf(0.975) * found.error
    size = f"{found.examples} examples"
    return [f"The size of the test set ({size}) adds an uncertainty of ±{amount(half, half)}."]


def of_faults(faults: Sequence[RunRecord]) -> str:
    """That a race is incomplete, why, and what to do."""
    runs = f"{count_noun(len(faults), 'run')} {'has' if len(faults) == 1 else 'have'} no result"
    why = (faults[0].error or "the reason is not known").rstrip(".")
    return (
        f"the race is incomplete: {runs} (the first: {why}). Run the same command again; it "
        "repeats only those."
    )


def of_sight(race: Race, levels: Levels) -> list[str]:
    """What the race can see before it starts: a sentence for each look at the pair that has least
    left to spend."""
    if not levels:
        return []
    said = []
    for seeds in next(iter(levels.values())):
        level = min(own[seeds] for own in levels.values()) / len(levels)
        found = sight(seeds, level)
        unit = "seeds" if race.studies == 1 else "studies"
        if found is None:
            why = "at least two are needed" if seeds < 2 else "the error rate is used up"
            said.append(f"{seeds} {unit} cannot decide anything: {why}.")
            continue
        said.append(
            f"With {seeds} {unit} and {count_noun(len(levels), 'comparison')}, a race has 80 % "
            f"power to detect a difference of {found.difference:.2g} spreads, or to show "
            f"equivalence within a margin of {found.margin:.2g} spreads."
        )
    return [*said, "A spread is the standard deviation of a difference from seed to seed."]


def of_sight_in_metric(result: Result) -> str:
    """The smallest difference that the race could see, in the unit of the metric."""
    found: list[float] = []
    for verdict in result.verdicts:
        if verdict.kind == "not comparable":
            continue
        a, b = (result.contenders[name] for name in (verdict.a, verdict.b))
        pairs = zip(a.scores(a.tuned, verdict.seeds), b.scores(b.tuned, verdict.seeds), strict=True)
        spread = spread_limit([x - y for x, y in pairs])
        seen = sight(verdict.seeds, verdict.level / verdict.pairs)
        if spread is not None and seen is not None:
            spread = max(spread, result.resolution / math.sqrt(6))  # as the verdict takes it
            found.append(max(seen.difference * spread, result.resolution))
    if not found:
        return ""
    what = " to ".join(dict.fromkeys(amount(end, end) for end in (min(found), max(found))))
    return (
        f"By the spread over these seeds (its upper 80 % limit), differences of {what} are found "
        "with 80 % power."
    )


def continuation(result: Result, runs: Path | None = None) -> str | None:
    """The command that may decide what this race left open; None if nothing would help.

    `runs` is the folder of its results, if that is known: it holds the runs to go on from.
    """
    option = further_option(result)
    if option is None or not result.command:
        return None
    words = _with_option(shlex.split(result.command), *option)
    if runs is not None and str(runs) != "runs":
        words += ["--runs", str(runs)]
    return shlex.join(words)


def further_option(result: Result) -> tuple[str, int] | None:
    """The option, and its value, with which the same race may decide what is open.

    More seeds if chance is the reason, more settings beside the tuned ones if tuning is.
    """
    race = result.race
    reasons = [r for v in result.verdicts if v.kind == "undecided" for r in v.reasons]
    kinds = {reason.why for reason in reasons}
    if "seeds" in kinds and race.looks != "all":
        wanted = [reason.seeds for reason in reasons if reason.why == "seeds" and reason.seeds]
        more = min(wanted, default=0)
        if more > race.seeds:
            return "--seeds", next((n for n in (10, 20) if n >= more), more)
    if "looks" in kinds:
        spent = max((look.spent for look in result.record.looks), default=0.0)
        later = (n for n in (10, 20) if n > race.seeds and level_left(n, spent) > 0)
        if found := next(later, 0):
            return "--seeds", found
    if race.trials and kinds & {"gap", "edge", "together"}:
        return "--certify", 2 * max(race.certify, 4)
    return None


def _with_option(words: Sequence[str], name: str, value: object) -> list[str]:
    """A command with another value of an option."""
    if name not in words:
        return [*words, name, str(value)]
    i = words.index(name) + 1
    return [*words[:i], str(value), *words[i + 1 :]]


def _beats(row: Row, than: Row, by: Measure) -> bool:
    a, b = row.score.mean, than.score.mean
    return a is not None and b is not None and (a > b if by.larger_is_better else a < b)


def _names(rows: Iterable[Row], word: str = "and") -> str:
    return join_words([row.optimizer for row in rows], word)


def of_search(result: Result) -> list[str]:
    """What was searched and how."""
    search = result.record.search
    tried = {name: len(own.runs) for name, own in result.tuned.items()}
    spaces = {name: own.space for name, own in result.contenders.items()}
    return _search_lines(result.race, spaces, search.spaces, search.rungs, tried)


def of_plan(plan: Plan) -> list[str]:
    """What is searched and how, before the race."""
    tried = {name: len(settings) for name, settings in plan.trials.items()}
    lines = _search_lines(plan.race, plan.search_spaces, plan.spaces, plan.rungs, tried)
    base = plan.race.baseline
    if base is not None and (parts := plan.at_budgets(base)):
        runs = sum(count for count, _ in parts)
        epochs = sum(count * length for count, length in parts)
        where = join_words([count_noun(length, "epoch") for _, length in parts])
        more = " More lengths may follow." if plan.race.more_budgets else ""
        lines.append(f"{base} also trains for {where}: {runs} runs, {epochs} epochs.{more}")
    return lines


def _search_lines(
    race: Race,
    spaces: Mapping[str, SearchSpace],
    listed: Mapping[str, Space],
    rungs: Sequence[Rung],
    tried: Mapping[str, int],
) -> list[str]:
    if not race.trials:
        return []
    if race.search == "bracket":
        return _bracket_lines(race, spaces)
    alike: dict[str, list[str]] = {}
    for optimizer, space in listed.items():
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


def _bracket_lines(race: Race, spaces: Mapping[str, SearchSpace]) -> list[str]:
    """What a bracketing search searches. Contenders with the same space share a line."""
    alike: dict[str, list[str]] = {}
    for name, space in spaces.items():
        parts = [_axis_words(axis.name, [axis.value(p) for p in axis.first]) for axis in space.axes]
        parts += [
            f"{choice.name.replace('_', ' ')} of {', '.join(map(number, choice.values))}"
            for choice in space.choices
        ]
        alike.setdefault(join_words(parts), []).append(name)
    return [
        f"{', '.join(names)}: {words or 'nothing'} searched by bracketing, with at most "
        f"{race.trials} trials."
        if words
        else f"{', '.join(names)}: nothing is searched."
        for words, names in alike.items()
    ]


def _axis_words(name: str, first: Sequence[float]) -> str:
    label = {"decay": "lr * weight decay"}.get(name, name.replace("_", " "))
    return f"{label} from {' and '.join(map(number, first))}"


def _range(name: str, values: Sequence[Value]) -> str:
    if name in LOGARITHMIC:
        return "..".join(map(number, ends(values)))
    if all(isinstance(value, float) for value in values):
        return " to ".join(map(number, ends(values)))
    return " ".join(map(number, values))
