"""Which race bears on a workload, and how the page speaks of it."""

from __future__ import annotations

from collections.abc import Sequence

from adamomentum_lab.report.page import RaceData
from adamomentum_lab.words import join_words
from adamomentum_paper.claims import rules
from adamomentum_paper.published import PAPER

REPORT = "results/races.html"
SCALES = ("full", "mini")  # the larger decides; smoke is for tests and bears on nothing
LONG = "ptb_lstm1_long"
# At mini, the data of these is not the paper's.
OTHER_DATA = ("imagenet_resnet18", "iwslt14_transformer")


def bearing(races: Sequence[RaceData], workload: str) -> RaceData | None:
    """The race that verdicts on a workload come from: `fair` and tuned, the largest."""
    able = [
        race
        for race in races
        if race["spec"]["workload"] == workload
        and race["spec"]["protocol"] == "fair"
        and race["spec"]["trials"]
        and race["spec"]["scale"] in SCALES
        and any(row["optimizer"] == rules.OURS for row in race["ranking"])
    ]
    return min(
        able,
        key=lambda race: (SCALES.index(race["spec"]["scale"]), -len(race["runs"]), race["name"]),
        default=None,
    )


def beyond(race: RaceData) -> bool:
    """Whether a race is on data that are not the paper's."""
    spec = race["spec"]
    other = spec["workload"] in OTHER_DATA and spec["scale"] != "full"
    return spec["workload"] not in (*PAPER, LONG) or other


def how(race: RaceData) -> str:
    """Scale, protocol and tuning of a race in words."""
    spec = race["spec"]
    words = f"`{spec['scale']}`, `{spec['protocol']}`, {race['workload']['epochs']} epochs"
    tuned = f"{spec['trials']} trials" if spec["trials"] else "not tuned"
    if spec["tune"]:  # not what the paper searched
        tuned += f" of {join_words([name.replace('_', ' ') for name in spec['tune']])}"
    words = f"{words}, {tuned}{' with halving' if spec['halving'] else ''}, {spec['seeds']} seeds"
    metric, paper = race["workload"]["metric"], PAPER.get(spec["workload"])
    if paper is None or paper.metric == metric:
        return words
    return f"{words}; {metric}, where the paper has {paper.metric}"


def link(race: RaceData, words: str = "") -> str:
    """To a race on the page of all."""
    return f"[{words or race['name']}]({REPORT}#race-{race['name']})"


def source(race: RaceData) -> str:
    """How a race was run, linked to it."""
    return link(race, how(race))
