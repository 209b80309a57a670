"""Verdicts in sentences: the same words in the terminal, on the page and in JSON."""

from __future__ import annotations

from adamomentum_lab.race.verdict import Ends, Reason, Verdict
from adamomentum_lab.words import amount, count_noun, join_words, number

UNTUNED = "at their defaults, untuned"
COVERS = (
    "The interval covers seeds and the placing of the learning rate, on this test set, with the "
    "other settings as they are."
)


def sentence(verdict: Verdict, metric: str) -> str:
    """What a verdict says about a metric such as "test accuracy", in one or two sentences."""
    a, b = verdict.a, verdict.b
    if verdict.kind == "not comparable":
        lost = join_words([reason.contender for reason in verdict.reasons]) or f"{a} and {b}"
        return f"{a} and {b} are not compared: runs of {lost} failed."
    interval = _interval(verdict)
    seeds = count_noun(verdict.seeds, "seed")
    if verdict.kind == "undecided":
        why = " ".join(_reason(reason, verdict) for reason in verdict.reasons)
        measured = _measured(verdict, metric)
        return f"{a} and {b}: undecided. {why}{measured}"
    if verdict.kind == "equivalent":
        at = "" if verdict.tuned else f" {UNTUNED}"
        return f"{a} and {b} are equivalent{at}: {metric} differs by {interval} ({seeds})."
    if not verdict.tuned:
        side = "better" if verdict.kind == "better" else "worse"
        return f"{a} scores {side} than {b} {UNTUNED}: {metric} differs by {interval} ({seeds})."
    return f"{a} is {verdict.kind} than {b}: {metric} differs by {interval} ({seeds})."


def _interval(verdict: Verdict) -> str:
    """Such as `-0.52 (-0.71 to -0.33)`, or `-0.52 (at most -0.33)`."""
    if verdict.difference is None:
        return _ends(verdict.interval, None)
    gap, ends = verdict.difference, verdict.interval
    spread = max((abs(gap - end) for end in ends if end is not None), default=None)
    return f"{_signed(gap, spread)} ({_ends(ends, spread)})"


def _ends(ends: Ends, spread: float | None) -> str:
    low, high = ends
    if low is None and high is None:
        return "no finite bound"
    if low is None:
        assert high is not None
        return f"at most {_signed(high, spread)}"
    if high is None:
        return f"at least {_signed(low, spread)}"
    return f"{_signed(low, spread)} to {_signed(high, spread)}"


def _signed(value: float, uncertainty: float | None) -> str:
    text = amount(value, uncertainty)
    return f"+{text}" if value > 0 else text


def _measured(verdict: Verdict, metric: str) -> str:
    """What was measured at the tuned settings, with the interval of the seeds alone."""
    if verdict.difference is None or None in verdict.seed_interval:
        return ""
    gap, ends = verdict.difference, verdict.seed_interval
    spread = max(abs(gap - end) for end in ends if end is not None)
    seeds = count_noun(verdict.seeds, "seed")
    alone = f"seeds alone: {_ends(ends, spread)}; {seeds}"
    return f" Measured: {_signed(gap, spread)} {metric} ({alone})."


def _reason(reason: Reason, verdict: Verdict) -> str:
    setting = {"lr": "lr", "decay": "weight decay"}.get(reason.setting, reason.setting)
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
        case "diverged":
            return f"{reason.contender} diverged on a final seed at its tuned settings."
        case "tie":
            return "The difference is below the resolution of the metric."
        case "looks":
            return "The allowed error rate of 5 % is used up for this question."
        case "lost runs":
            return f"Runs of {reason.contender} failed."
        case "seeds":
            if verdict.seeds < 2:
                return "One seed says nothing about chance."
            if reason.seeds is None:
                return "Seeds vary too much for a difference of this size."
            return f"Seeds vary too much: about {reason.seeds} would do."
