"""Which race bears on a workload, and how the page speaks of it."""

from __future__ import annotations

from collections.abc import Sequence

from adamomentum_lab.race.result import Result
from adamomentum_lab.words import join_words
from adamomentum_paper.claims import rules
from adamomentum_paper.published import PAPER

REPORT = "results/races.html"
SCALES = ("full", "mini")  # the larger decides; smoke is for tests and bears on nothing
LONG = "ptb_lstm1_long"
# At mini, the data of these is not the paper's.
OTHER_DATA = ("imagenet_resnet18", "iwslt14_transformer")


def bearing(races: Sequence[Result], workload: str) -> Result | None:
    """The race that verdicts on a workload come from: `fair` and tuned, the largest."""
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
    """Whether a race is on data that are not the paper's."""
    spec = race.race
    other = spec.workload in OTHER_DATA and spec.scale != "full"
    return spec.workload not in (*PAPER, LONG) or other


def how(race: Result) -> str:
    """Scale, protocol and tuning of a race in words."""
    spec = race.race
    words = f"`{spec.scale}`, `{spec.protocol}`, {race.workload.epochs} epochs"
    tuned = f"{spec.trials} trials" if spec.trials else "not tuned"
    if spec.tune:  # not what the paper searched
        tuned += f" of {join_words([name.replace('_', ' ') for name in spec.tune])}"
    words = f"{words}, {tuned}{' with halving' if spec.halving else ''}, {spec.seeds} seeds"
    metric, paper = race.workload.metric, PAPER.get(spec.workload)
    if paper is None or paper.metric == metric:
        return words
    return f"{words}; {metric}, where the paper has {paper.metric}"


def link(race: Result, words: str = "") -> str:
    """To a race on the page of all."""
    return f"[{words or race.name}]({REPORT}#race-{race.name})"


def source(race: Result) -> str:
    """How a race was run, linked to it."""
    return link(race, how(race))
