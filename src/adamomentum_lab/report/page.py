"""The report: one page of all races in a folder, which needs nothing but itself."""

from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import importlib.util
import io
import math
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import adamomentum
from adamomentum_lab import words
from adamomentum_lab.errors import LabError
from adamomentum_lab.files import dumps
from adamomentum_lab.plugins import provided
from adamomentum_lab.race.record import RunRecord
from adamomentum_lab.race.result import Result
from adamomentum_lab.race.speedups import Budget
from adamomentum_lab.race.studies import group_studies, judge_studies
from adamomentum_lab.report import savings, sentences
from adamomentum_lab.report.answers import answers, summary, tuning_of
from adamomentum_lab.report.forest import forest, savings_forest
from adamomentum_lab.report.html import render
from adamomentum_lab.report.together import together
from adamomentum_lab.report.verdicts import (
    COVERS,
    COVERS_TUNING,
    difference,
    looks_sentence,
    sentence,
)
from adamomentum_lab.rules import UNTUNED, explain, protocols
from adamomentum_lab.selection import Measure, reported_epoch
from adamomentum_lab.stats import curves
from adamomentum_lab.stats.aggregates import tuning_bands
from adamomentum_lab.stats.estimates import Estimate
from adamomentum_lab.stats.profiles import profiles

_HERE = Path(__file__).parent
_ENVIRONMENT = (
    "adamomentum", "commit", "torch", "python", "platform", "processors", "threads", "device",
)  # fmt: skip
_DIGITS = 6  # of numbers in the page; more than anyone reads, fewer than a float has
Data = dict[str, object]
"""For the scripts of the page, as JSON."""


def load(folder: Path) -> list[Result]:
    """The races of a folder, those left out that another one contains."""
    files = sorted(folder.glob("races/*/race.json"), key=lambda file: file.parent)
    races = [Result.read(file) for file in files]
    if not races:
        hint = "`adamomentum race` makes one, and --runs names the folder that has them"
        raise LabError(f"there is no finished race in {folder}; {hint}.")
    ids = [{run.id for run in (*race.runs, *race.record.budgets)} for race in races]

    def key(i: int) -> tuple[str, ...]:  # races of the same may contain each other
        race = races[i].race
        return race.workload, race.scale, race.protocol, race.code

    def contains(j: int, i: int) -> bool:
        more = ids[i] < ids[j] or (ids[i] == ids[j] and i < j)
        return more and key(i) == key(j)

    places = range(len(races))
    whole = [i for i in places if not any(contains(j, i) for j in places)]
    return [races[i] for i in sorted(whole, key=key)]


def render_races(races: Sequence[Result], folder: Path) -> str:
    """The whole page."""
    from jinja2 import TemplateError

    try:
        return _page(races, folder)
    except (LookupError, TypeError, ValueError, AttributeError, TemplateError) as error:
        for race in races if len(races) > 1 else ():
            render_races([race], folder)  # which of them it is
        if len(races) > 1:
            raise
        file = folder / "races" / races[0].name / "race.json"
        anew = "the command of its race writes it anew, and finished runs are not repeated"
        raise LabError(f"{file} was written by another version, or changed; {anew}.") from error


def _page(races: Sequence[Result], folder: Path) -> str:
    files = [_HERE / f"page.{kind}" for kind in ("html", "css", "js")]
    html, css, script = (file.read_text(encoding="utf-8") for file in files)
    scripts = [_plotly(), script]
    digests = [hashlib.sha256(script.encode()).digest() for script in scripts]
    known = {run.id for race in races for run in (*race.runs, *race.record.budgets)}
    profile = _profile(races)
    groups = {id(one): group for group in group_studies(races) for one in group}
    data = {"races": [_data(race) for race in races], "profile": profile}
    return render(
        html,
        {"interval": _interval, "setting": words.number, "difference": difference},
        css=css,
        # Only these scripts run, whatever the page's data may contain.
        policy=" ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests),
        scripts=scripts,
        data=dumps(data).replace("<", "\\u003c"),  # it stands inside a script element
        races=[View(race, folder, groups.get(id(race), ())) for race in races],
        profile=profile,
        together=together(races) if len(races) > 1 else None,
        others=_count_other_runs(folder, known),
        runs=len(known),
        version=adamomentum.__version__,
        made=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    )


def _plotly() -> str:
    """The script of Plotly, without the import of its package, which takes longer than the page."""
    spec = importlib.util.find_spec("plotly")
    assert spec is not None
    folder = Path(spec.origin or "").parent
    return (folder / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


def _interval(estimate: Estimate, sign: bool = False) -> str:
    """Such as 97.32 ± 0.21."""
    assert estimate.mean is not None
    plus = "+" if sign and estimate.mean > 0 else ""
    # Without an uncertainty, as many digits as tell two ranks apart.
    return plus + words.plus_minus(estimate.mean, estimate.half, ".5g")


@dataclass(frozen=True)
class Pictures:
    """Sheets of one run: how it began, how far it came, how it ended."""

    optimizer: str
    seed: int
    pictures: list[tuple[str, str]]
    """When each was made, and the picture."""


class View:
    """What the page says of a race."""

    def __init__(self, result: Result, folder: Path, studies: Sequence[Result] = ()) -> None:
        record, race = result.record, result.race
        self.name, self.spec, self.problem = result.name, race, result.workload
        self.ranking, self.caveats, self.command = result.rows, record.caveats, result.command
        self.baseline, self.rungs = race.baseline, record.search.rungs
        self.anchor = f"race-{result.name}"
        self.headline = sentences.of_result(result)
        self.searched = sentences.of_search(result)
        self.summary, self.answers = summary(result), answers(result)
        self.forest, self.savings = forest(result), savings_forest(result)
        self.budgets, self.budget_words = result.budgets, savings.of_budgets(result)
        self.steps, self.step_words = result.steps, savings.of_steps(result)
        self.target_words = savings.of_target(result)
        self.tunings = {name: tuning_of(name, result) for name in race.optimizers}
        self._result = result
        metric = f"test {result.workload.metric}"
        self.sentences = [*sentences.of_pairs(result).values()]
        self.together = sentences.of_studies(studies) if studies else ""
        self.studies = [sentence(one, metric) for one in judge_studies(studies)] if studies else []
        covers = COVERS if race.trials and race.studies == 1 else ""
        self.covers = f"{COVERS_TUNING if studies else covers} {looks_sentence(record.looks)}"
        self.more = sentences.continuation(result)
        self.effects = [
            (one.what, sentence(one.verdict, metric), one.caveat) for one in result.effects
        ]
        # A user's file may have the name of a workload of the paper.
        known = [] if result.is_of_users_file else provided("published")
        self.paper = next((its[race.workload] for its in known if race.workload in its), None)
        self.published = self.paper.values if self.paper else {}
        rules, flaws = protocols().get(race.protocol), result.workload.flaws
        if rules is not None and rules.tune and not race.trials:
            rules, flaws = UNTUNED, UNTUNED.flaws
        self.words = rules.words if rules else ""
        named = [*(rules.flaws if rules and flaws is None else flaws or ())]
        if race.own_decay and rules is not None and rules.decay == "matched":
            named.append("forms of decay")
        self.flaws = explain(named)
        points = [p for row in result.rows if row.sensitivity for p in row.sensitivity.points]
        self.tuned = any(point.best is not None for point in points)
        settings = {key for row in result.rows for key in row.settings}
        self.columns = sorted(settings, key=words.setting_order)
        self.environment = _environment(record.runs)
        self.pictures = _pictures(result, folder)
        self.seconds = sum(run.machine.seconds or 0.0 for run in record.runs)

    def score(self, budget: Budget) -> Estimate:
        """Of the baseline at a length of training."""
        scores = [self._result.score(run) for run in budget.runs]
        return Estimate.of([math.nan if score is None else score for score in scores])


def _data(result: Result) -> Data:
    """What the page draws of a race."""
    problem, finals = result.workload, result.finals
    names = [row.optimizer for row in result.rows]

    def bands(split: str, metric: str) -> Data:
        carried = split == "test" and problem.selection == "validation"
        return {
            name: curves.band(
                [curves.values(run.epochs, split, metric, carried) for run in finals[name]]
            )
            for name in names
        }

    tuned = result.tuned.values()
    raced = {own.runs[own.chosen].id for own in tuned if own.chosen is not None}
    runs = [run for run in result.runs if run.stage == "final"]
    found = {
        "metric": problem.metric,
        "larger": problem.larger_is_better,
        "optimizers": names,
        "order": list(result.race.optimizers),
        "baseline": result.race.baseline,
        "curves": [
            {"split": split, "metric": metric, "bands": bands(split, metric)}
            for split, metric in curves.split_metrics(run.epochs for run in runs)
        ],
        "budgets": [
            {"factor": one.factor, "lr": one.lr, "scores": [result.score(run) for run in one.runs]}
            for one in result.budgets
        ],
        "best": {
            row.optimizer: row.sensitivity.expected_best for row in result.rows if row.sensitivity
        },
    }
    if result.race.search == "random" and not result.race.halving:
        found["trial_bands"] = {name: _trial_bands(name, result) for name in result.tuned}
    shown = [_run(run, problem, run.id in raced) for run in result.runs]
    at_lengths = [_run(run, problem, False) for run in result.record.budgets]
    return {**_short(found), "runs": [*shown, *({**run, "stage": "length"} for run in at_lengths)]}


def _trial_bands(name: str, result: Result) -> Data:
    """The ends of the band of a tuning curve; a lost trial is worse than any other."""
    sign = 1.0 if result.workload.larger_is_better else -1.0
    scores = [result.score(run, "validation") for run in result.tuned[name].runs]
    bands = tuning_bands([-math.inf if score is None else sign * score for score in scores])
    ends = [sorted((sign * band.low, sign * band.high)) for band in bands]
    return {"low": [low for low, _ in ends], "high": [high for _, high in ends]}


def _run(run: RunRecord, by: Measure, chosen: bool) -> Data:
    """A run as the page shows it. Of a trial, test is not shown: it decided nothing."""
    final = reported_epoch(run, by)
    hidden = "test" if run.stage == "tuning" else ""
    scores = {split: final.get(split, {}).get(by.metric) for split in ("validation", "test")}
    epochs = run.epochs if len(run.epochs) == run.trained else ()  # a small record has one
    shown = [one for one in curves.split_metrics([epochs]) if one[0] != hidden]
    columns = [[*one, curves.values(epochs, *one)] for one in shown]
    return {
        "id": run.id,
        "stage": run.stage,
        "chosen": chosen,
        "optimizer": run.spec.optimizer,
        "seed": run.spec.seed,
        "status": run.status,
        "settings": run.settings,
        "epoch": final.get("epoch"),
        **_short(scores | {hidden: None} if hidden else scores),
        "error": run.error,
        "columns": _short(columns),
    }


def _short(value: Any) -> Any:
    """Numbers with as many digits as the page needs."""
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_short(item) for item in value]
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.{_DIGITS}g}")
    return None if isinstance(value, float) else value


def _environment(runs: Iterable[RunRecord]) -> dict[str, list[str]]:
    """What the runs were made with; more than one value where they differ."""
    found: dict[str, list[str]] = {}
    for run in runs:
        for key in _ENVIRONMENT:
            value = run.machine.environment.get(key)
            if value is not None and str(value) not in found.setdefault(key, []):
                found[key].append(str(value))
    return found


def _pictures(result: Result, folder: Path) -> list[Pictures]:
    """Sheets of the first seed of each optimizer that has some."""
    shown: dict[str, Pictures] = {}
    for run in (run for run in result.runs if run.stage == "final"):
        name, place = run.spec.optimizer, folder / run.id
        if name in shown or not place.is_dir():
            continue
        sheets = sorted(place.glob("sheet-[0-9]*[0-9].png"))
        ends = {0, len(sheets) // 2, len(sheets) - 1}
        chosen = [sheets[i] for i in sorted(ends) if sheets] + [*place.glob("interpolation.png")]
        made = [(_stage(file.stem), source) for file in chosen if (source := _embed(file))]
        if made:
            shown[name] = Pictures(name, run.spec.seed, made)
    return list(shown.values())


def _stage(stem: str) -> str:
    """When or how a picture was made, in words."""
    number = stem.removeprefix("sheet-")
    if not number.isdecimal():
        return "from one noise to another"
    return f"after epoch {int(number)}" if int(number) else "before training"


def _embed(file: Path) -> str | None:
    """A picture as part of the page, a quarter of the size of its file; None if it is damaged."""
    from PIL import Image

    out = io.BytesIO()
    try:
        with Image.open(file) as picture:
            picture.convert("RGB").save(out, "WEBP", quality=80)
    except (OSError, ValueError):
        return None
    return "data:image/webp;base64," + base64.b64encode(out.getvalue()).decode()


def _profile(races: Sequence[Result]) -> Data | None:
    """Performance profiles over the workloads of one protocol and scale, if there are several.

    The measure is epochs to the workload's target, the mean over seeds; who misses it with one of
    them never reaches it. (Epochs and updates have the same ratios.)
    """
    groups: dict[tuple[str, str], dict[str, Result]] = {}
    counts: Counter[tuple[str, str]] = Counter()
    # Of several races of a workload the last stays: most trials, then most seeds.
    for result in sorted(races, key=lambda result: (result.race.trials, result.race.seeds)):
        if result.workload.target is not None:
            race = result.race
            counts[race.protocol, race.scale] += 1
            groups.setdefault((race.protocol, race.scale), {})[race.workload] = result
    group, found = max(groups.items(), key=lambda item: len(item[1]), default=(("", ""), {}))
    if len(found) < 2:
        return None
    measures = {
        workload: {
            row.optimizer: row.epochs_to_target.mean
            if row.epochs_to_target and row.reached == len(row.values)
            else None
            for row in result.rows
        }
        for workload, result in sorted(found.items())
    }
    return {
        "protocol": group[0],
        "scale": group[1],
        "workloads": sorted(found),
        "several": len(found) < counts[group],
        **_short(asdict(profiles(measures))),
    }


def _count_other_runs(folder: Path, known: set[str]) -> list[dict[str, object]]:
    """Runs of the folder that belong to none of its races, counted."""
    file = folder / "runs.sqlite"
    if not file.is_file():
        return []
    keys = ("workload", "scale", "protocol", "optimizer", "status")
    try:
        # Where nothing may be written, SQLite cannot make the files beside it that it wants.
        mode = "mode=ro" if os.access(folder, os.W_OK) else "immutable=1"
        with contextlib.closing(sqlite3.connect(f"file:{quote(str(file))}?{mode}", uri=True)) as db:
            rows = db.execute(f"SELECT id, {', '.join(keys)} FROM runs").fetchall()
    except sqlite3.Error as error:
        raise LabError(f"cannot read {file} ({error}).") from error
    counts = Counter(tuple(what) for name, *what in rows if name not in known)
    return [dict(zip(keys, what, strict=True), runs=n) for what, n in sorted(counts.items())]
