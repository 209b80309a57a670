"""Verdicts in sentences: the same words in the terminal, on the page and in JSON."""

from __future__ import annotations

from collections.abc import Sequence

from adamomentum_lab.race.looks import Look
from adamomentum_lab.race.verdict import Ends, Reason, Verdict
from adamomentum_lab.stats.verdicts import LEVEL
from adamomentum_lab.words import amount, count_noun, join_words, number, probability

UNTUNED = "at their defaults, untuned"
COVERS = (
    "The interval covers seeds and the placing of the learning rate, on this test set, with the "
    "other settings as they are."
)


def sentence(verdict: Verdict, metric: str) -> str:
    """What a verdict says about a metric such as "test accuracy", and what speaks against it."""
    return " ".join([_claim(verdict, metric), *caveats(verdict)])


def caveats(verdict: Verdict) -> list[str]:
    """What breaks the assumptions of a verdict, in sentences."""
    said = []
    for name in dict.fromkeys(name for name, _ in verdict.collapsed):
        seeds = [str(seed) for contender, seed in verdict.collapsed if contender == name]
        which = f"seed {seeds[0]} is" if len(seeds) == 1 else f"seeds {join_words(seeds)} are"
        said.append(f"{name}: {which} far off the others; no test on a few seeds is valid then.")
    for name, setting in verdict.broken:
        what = _setting(setting)
        said.append(
            f"{name}: scores over {what} are not convex, so a better {what} may lie in a valley "
            "that was not searched."
        )
    return said


def _claim(verdict: Verdict, metric: str) -> str:
    a, b = verdict.a, verdict.b
    if verdict.kind == "not comparable":
        lost = join_words([reason.contender for reason in verdict.reasons]) or f"{a} and {b}"
        return f"{a} and {b} are not compared: runs of {lost} failed."
    interval = difference(verdict)
    seeds = _units(verdict)
    if verdict.kind == "undecided":
        why = " ".join(explain(reason, verdict) for reason in verdict.reasons)
        measured = _measured(verdict, metric)
        return f"{a} and {b}: undecided. {why}{measured}"
    if verdict.kind == "equivalent":
        at = "" if verdict.tuned else f" {UNTUNED}"
        return f"{a} and {b} are equivalent{at}: {metric} differs by {interval} ({seeds})."
    if not verdict.tuned:
        side = "better" if verdict.kind == "better" else "worse"
        return f"{a} scores {side} than {b} {UNTUNED}: {metric} differs by {interval} ({seeds})."
    return f"{a} is {verdict.kind} than {b}: {metric} differs by {interval} ({seeds})."


COVERS_TUNING = (
    "The interval covers seeds and the luck of tuning, on this test set: the unit is the study."
)


def difference(verdict: Verdict) -> str:
    """The measured difference with its interval: `-0.52 (-0.71 to -0.33)`, or `-0.52 (at most
    -0.33)`; of an undecided pair the interval of the seeds alone."""
    ends = verdict.seed_interval if verdict.kind == "undecided" else verdict.interval
    if verdict.difference is None:
        return _ends(ends, None) if any(end is not None for end in ends) else ""
    spread = max((abs(verdict.difference - end) for end in ends if end is not None), default=None)
    bounds = f" ({_ends(ends, spread)})" if spread is not None else ""
    return f"{_signed(verdict.difference, spread)}{bounds}"


def _units(verdict: Verdict) -> str:
    if verdict.unit == "study":
        return "1 study" if verdict.seeds == 1 else f"{verdict.seeds} studies"
    flips = "" if verdict.flips is None else f"; sign flips: {probability(verdict.flips)}"
    return f"{count_noun(verdict.seeds, 'seed')}{flips}"


def _setting(name: str) -> str:
    return {"decay": "weight decay"}.get(name, name)


def looks_sentence(looks: Sequence[Look]) -> str:
    """What the looks of a race spent of the error rate that is allowed."""
    if not looks:
        return ""
    level = max(look.level for look in looks)
    spent = max(look.spent for look in looks)
    left = max(0.0, LEVEL - spent)
    said = (
        f"This look spent {level:.1%} of the {LEVEL:.0%} error rate that each pair is allowed; "
        f"{left:.1%} is left for more seeds or more trials. Looks are counted in each results "
        "folder."
    )
    if before := max(look.uncounted for look in looks):
        said += (
            f" {count_noun(before, 'earlier look')} at these optimizers on this workload, with "
            f"other code or data, {'is' if before == 1 else 'are'} not counted."
        )
    return said


def _ends(ends: Ends, spread: float | None) -> str:
    low, high = ends
    if low is None and high is None:
        return "no finite bound"
    if low is None:
        assert high is not None
        return f"at most {_end(high, spread)}"
    if high is None:
        return f"at least {_end(low, spread)}"
    return f"{_end(low, spread)} to {_end(high, spread)}"


def _end(value: float, spread: float | None) -> str:
    """The end of an interval. One that is not 0 is never rounded to 0: a verdict depends on it."""
    text = _signed(value, spread)
    return f"{value:+.1g}" if value and not float(text) else text


def _signed(value: float, uncertainty: float | None) -> str:
    text = amount(value, uncertainty)
    return f"+{text}" if value > 0 else text


def _measured(verdict: Verdict, metric: str) -> str:
    """What was measured at the tuned settings, with the interval of the seeds alone."""
    if verdict.difference is None or None in verdict.seed_interval:
        return ""
    gap, ends = verdict.difference, verdict.seed_interval
    spread = max(abs(gap - end) for end in ends if end is not None)
    if verdict.unit == "study":
        return f" Measured: {_signed(gap, spread)} {metric} ({_ends(ends, spread)})."
    seeds = _units(verdict)
    alone = f"seeds alone: {_ends(ends, spread)}; {seeds}"
    return f" Measured: {_signed(gap, spread)} {metric} ({alone})."


def explain(reason: Reason, verdict: Verdict) -> str:
    """Why a pair is undecided, in a sentence."""
    setting = _setting(reason.setting)
    match reason.why:
        case "gap":
            assert reason.low is not None
            assert reason.high is not None
            ends = f"{number(reason.low)} and {number(reason.high)}"
            return f"A better {setting} for {reason.contender} between {ends} could close the gap."
        case "edge":
            side, end = ("above", reason.low) if reason.high is None else ("below", reason.high)
            assert end is not None
            place = f"{side} {number(end)}"
            return f"A better {setting} for {reason.contender} {place} could close the gap."
        case "together":
            return f"Another combination of settings for {reason.contender} could close the gap."
        case "diverged":
            tuned = "tuned " if verdict.tuned else ""
            return f"{reason.contender} diverged on a final seed at its {tuned}settings."
        case "tie":
            return "The difference is below the resolution of the metric."
        case "looks":
            count = count_noun(verdict.seeds, verdict.unit)
            return f"The error rate that is allowed at {count} is used up for this question."
        case "lost runs":
            return f"Runs of {reason.contender} failed."
        case "seeds":
            if verdict.seeds < 2:
                return f"One {verdict.unit} says nothing about chance."
            if verdict.unit == "study":
                return "Studies vary too much."
            if reason.seeds is None:
                return "Seeds vary too much for a difference of this size."
            return f"Seeds vary too much: about {reason.seeds} would do."
