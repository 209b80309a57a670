"""Comparisons in sentences that cannot be misread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adamomentum_lab.words import amount, join_words, probability

if TYPE_CHECKING:
    from adamomentum_lab.stats.comparisons import Comparison


def of_comparison(c: Comparison, metric: str, seeds: int, base_lost: int, other_lost: int) -> str:
    """What a comparison says, in one or two sentences."""
    if c.verdict == "not comparable":
        return _not_comparable(c, metric, seeds, base_lost, other_lost)
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
    """Such as `adam's test loss was 0.12 lower than adamomentum's`."""
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


def _not_comparable(c: Comparison, metric: str, seeds: int, base: int, other: int) -> str:
    every = "its only run" if seeds == 1 else f"all its {seeds} runs"
    lost = [
        f"{name} lost {every if count == seeds else f'{count} of its {seeds} runs'}"
        for name, count in ((c.other, other), (c.base, base))
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
    if not seeds:
        return f"{c.other} and {c.base} cannot be compared: there are no runs."
    return f"With one seed {_beside(c, metric)}; whether by chance cannot be told."
