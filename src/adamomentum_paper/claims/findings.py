"""The findings at the top of the results page, derived from the records."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

from adamomentum_lab.race.result import Result
from adamomentum_lab.words import count_noun, join_words
from adamomentum_paper.claims import records, rules
from adamomentum_paper.claims.races import LONG, bearing
from adamomentum_paper.claims.records import Record


def findings(
    races: Sequence[Result],
    theory: Mapping[str, Record],
    speed: Mapping[str, Record],
    state: Mapping[str, float],
) -> list[str]:
    """Return one line of Markdown for each finding; at most ten.

    Args:
        races: all races. Only tuned races under `fair` count, one for each workload.
        theory: the records of the theory, by name.
        speed: the records of step times, by name.
        state: bytes of state per parameter, by optimizer.
    """
    names = dict.fromkeys(race.race.workload for race in races)
    tuned = [race for name in names if (race := bearing(races, name))]
    lines = [_scope(tuned), _ranks(tuned)] if tuned else []
    lines += [
        line
        for others in (("adam",), ("adamw",), ("adabelief", "sgdm"))
        if (line := " ".join(filter(None, (_against(tuned, other) for other in others))))
    ]
    if line := _against(tuned, "adam-translated"):
        lines.append(f"{line} `adam-translated` is Adam with AdaMomentum's step length.")
    lines += filter(None, [_learning_rate(races), _step_length(theory), _theorems(theory)])
    return [*lines, _cost(speed, state)]


def _scope(races: Sequence[Result]) -> str:
    scales = join_words([f"`{name}`" for name in sorted({race.race.scale for race in races})])
    edges = [race for race in races if any(row.edge for row in race.rows)]
    return (
        f"**No winner is claimed.** The findings on training come from "
        f"{count_noun(len(races), 'tuned race')} at {scales} scale, with "
        f"{_range([race.race.seeds for race in races])} seeds. The paper's scale is `full`. Tuning "
        f"was coarse: {_range([race.race.trials for race in races])} trials per optimizer, and in "
        f"{len(edges)} races an optimizer ended at the edge of its lr grid."
    )


def _ranks(races: Sequence[Result]) -> str:
    rows = [(race, row) for race in races if (row := race.row(rules.OURS))]
    first = sum(row.rank == 1 for _, row in rows)
    ranks = [f"{row.rank} of {len(race.rows)} (`{race.race.workload}`)" for race, row in rows]
    return (
        f"**Ranks.** AdaMomentum has the best mean test score in {first} of {len(rows)} races. Its "
        f"ranks are {join_words(ranks)}."
    )


def _against(races: Sequence[Result], other: str) -> str:
    """Count the significant differences from another optimizer."""
    verdicts = {
        f"`{race.race.workload}`": found.kind
        for race in races
        for found in rules.beside_ours(race)
        if found.b == other
    }
    if not verdicts:
        return ""
    better = [name for name, kind in verdicts.items() if kind == "better"]
    worse = [name for name, kind in verdicts.items() if kind == "worse"]
    text = f"**Compared with {other}** ({count_noun(len(verdicts), 'race')}), AdaMomentum is "
    if not better and not worse:
        return f"{text}undecided on all."
    return (
        f"{text}better on {join_words(better) or 'none'}, worse on {join_words(worse) or 'none'} "
        "and undecided on the rest."
    )


def _learning_rate(races: Sequence[Result]) -> str:
    answers: dict[str, list[str]] = {}
    for race in races:
        if race.race.workload == LONG and not race.race.trials and (found := rules.lr_effect(race)):
            answers.setdefault(found[0], []).append(f"`{race.race.protocol}`")
    if not answers:
        return ""
    text = " ".join(f"{answer} (protocols: {join_words(it)})" for answer, it in answers.items())
    return (
        "**Is the lead over Adam on Penn Treebank just a larger learning rate?** With fixed "
        f"settings (`{LONG}`, not tuned): {text}"
    )


def _step_length(theory: Mapping[str, Record]) -> str:
    if "noise_ratio" not in theory:
        return ""
    found = {one["statement"]: one["found"] for one in theory["noise_ratio"]["findings"]}
    network = next(text for said, text in found.items() if "training of a network" in said)
    sizes = network.partition(": ")[2].partition(". ")[0]
    return (
        "**The same lr is not the same step length.** When a small network is trained, "
        f"AdaMomentum's median step over Adam's is {sizes}. The theory gives 4.36 for pure noise "
        "at b1 = 0.9, and 1 without noise."
    )


def _theorems(theory: Mapping[str, Record]) -> str:
    if not theory:
        return ""
    words = Counter(one["word"] for record in theory.values() for one in record["findings"])
    text = (
        f"**Theory.** Of {sum(words.values())} tested statements, {words['holds']} hold, "
        f"{words['holds only when']} hold under a condition, and {words['does not hold']} do not "
        "hold."
    )
    if "escape" in theory:
        escape = records.theory(theory["escape"], "AdaMomentum stays longer")
        if escape.verdict == "contradicted":
            first = escape.found.partition(": ")[2].partition(". ")[0].partition(";")[0]
            text += (
                " In particular, AdaMomentum does not stay longer than Adam in flat basins "
                f"(Proposition 1). {first}."
            )
    return text


def _cost(speed: Mapping[str, Record], state: Mapping[str, float]) -> str:
    text = (
        f"**Memory and speed.** AdaMomentum stores {state[rules.OURS]:g} bytes per float32 "
        f"parameter, Adam {state['adam']:g}."
    )
    if not speed:
        return text
    ratios = []
    for model in next(iter(speed.values()))["models"]:
        steps = [record["models"][model]["steps"] for record in speed.values()]
        each = (one["Adam, fused"]["seconds"] / one["AdaMomentum"]["seconds"] for one in steps)
        ratios.append(statistics.median(each))
    return (
        f"{text} On a CPU a step of torch's fused Adam takes {min(ratios):.2f} to "
        f"{max(ratios):.1f} times as long as AdaMomentum's, depending on the model."
    )


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low}" if low == high else f"{low} to {high}"
