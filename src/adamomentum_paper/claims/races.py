"""Choice of the race that decides on a workload, and its description on the page."""

from __future__ import annotations

from collections.abc import Sequence

from adamomentum_lab.race.result import Result
from adamomentum_lab.words import join_words
from adamomentum_paper.claims import rules
from adamomentum_paper.published import PAPER

REPORT = "results/races.html"
SCALES = ("full", "mini")  # the larger one decides; smoke is for tests only
LONG = "ptb_lstm1_long"
# At mini these use other data than the paper.
OTHER_DATA = ("imagenet_resnet18", "iwslt14_transformer")


def bearing(races: Sequence[Result], workload: str) -> Result | None:
    """Return the race that decides on a workload: tuned, under `fair`, the largest."""
    able = [
        race
        for race in races
        if race.race.workload == workload
        and race.race.protocol == "fair"
        and race.race.trials
        and race.race.scale in SCALES
        and rules.OURS in race.race.optimizers
    ]
    return min(
        able,
        key=lambda race: (SCALES.index(race.race.scale), -len(race.runs), race.name),
        default=None,
    )


def beyond(race: Result) -> bool:
    """Return whether a race uses other data than the paper."""
    spec = race.race
    other = spec.workload in OTHER_DATA and spec.scale != "full"
    return spec.workload not in (*PAPER, LONG) or other


def how(race: Result) -> str:
    """Describe the scale, protocol and tuning of a race."""
    spec = race.race
    words = f"`{spec.scale}`, `{spec.protocol}`, {race.workload.epochs} epochs"
    tuned = f"{spec.trials} trials" if spec.trials else "not tuned"
    if spec.tune:  # the paper searched other settings
        tuned += f" of {join_words([name.replace('_', ' ') for name in spec.tune])}"
    words = f"{words}, {tuned}{' with halving' if spec.halving else ''}, {spec.seeds} seeds"
    metric, paper = race.workload.metric, PAPER.get(spec.workload)
    if paper is None or paper.metric == metric:
        return words
    return f"{words}; {metric} instead of the paper's {paper.metric}"


def link(race: Result, words: str = "") -> str:
    """Return a link to a race on the page of all races."""
    return f"[{words or race.name}]({REPORT}#race-{race.name})"


def source(race: Result) -> str:
    """Return the description of a race as a link to it."""
    return link(race, how(race))
