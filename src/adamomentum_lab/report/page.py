"""The report: one page of all races in a folder, which needs nothing but itself."""

from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import importlib.util
import io
import json
import math
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

import adamomentum
from adamomentum_lab import words
from adamomentum_lab.errors import LabError
from adamomentum_lab.files import dumps
from adamomentum_lab.plugins import provided
from adamomentum_lab.report.html import render
from adamomentum_lab.rules import OURS, UNTUNED, explain, protocols
from adamomentum_lab.stats import curves
from adamomentum_lab.stats.profiles import profiles

_HERE = Path(__file__).parent
_ENVIRONMENT = (
    "adamomentum", "commit", "torch", "python", "platform", "processors", "threads", "device",
)  # fmt: skip
_KEY = ("workload", "scale", "protocol", "code")  # races of the same may contain each other
_DIGITS = 6  # of numbers in the page; more than anyone reads, fewer than a float has
RaceData = dict[str, Any]
"""A race as its race.json was read."""


def load(folder: Path) -> list[RaceData]:
    """The races of a folder, those left out that another one contains."""
    files = sorted(folder.glob("races/*/race.json"), key=lambda file: file.parent)
    races = [_read(file) for file in files]
    if not races:
        hint = "`adamomentum race` makes one, and --runs names the folder that has them"
        raise LabError(f"there is no finished race in {folder}; {hint}.")

    def key(race: RaceData) -> tuple[str, ...]:
        return tuple(race["spec"][name] for name in _KEY)

    ids = [{run["id"] for run in race["runs"]} for race in races]

    def contains(j: int, i: int) -> bool:
        more = ids[i] < ids[j] or (ids[i] == ids[j] and i < j)
        return more and key(races[i]) == key(races[j])

    places = range(len(races))
    whole = [races[i] for i in places if not any(contains(j, i) for j in places)]
    return sorted(whole, key=key)


def _read(file: Path) -> RaceData:
    try:
        race: RaceData = json.loads(file.read_text(encoding="utf-8"))
        whole = race.keys() >= {"spec", "workload", "ranking", "runs", "machine"} and all(
            isinstance(name, str)
            for name in (*map(race["spec"].get, _KEY), *(run["id"] for run in race["runs"]))
        )
    except (KeyError, TypeError):
        whole = False
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        why = f"{file} cannot be read ({error})"
        raise LabError(f"{why}; the command of its race writes it anew.") from error
    if not whole:
        raise _foreign_error(file)
    race["name"] = file.parent.name
    return race


def _foreign_error(file: Path) -> LabError:
    anew = "the command of its race writes it anew, and finished runs are not repeated"
    return LabError(f"{file} was written by another version, or changed; {anew}.")


def render_races(races: Sequence[RaceData], folder: Path) -> str:
    """The whole page."""
    from jinja2 import TemplateError

    try:
        return _page(races, folder)
    except (LookupError, TypeError, ValueError, AttributeError, TemplateError) as error:
        for race in races if len(races) > 1 else ():
            render_races([race], folder)  # which of them it is
        if len(races) > 1:
            raise
        raise _foreign_error(folder / "races" / races[0]["name"] / "race.json") from error


def _page(races: Sequence[RaceData], folder: Path) -> str:
    views = [_view(race, folder) for race in races]
    known = {run["id"] for race in races for run in race["runs"]}
    files = [_HERE / f"page.{kind}" for kind in ("html", "css", "js")]
    html, css, script = (file.read_text(encoding="utf-8") for file in files)
    scripts = [_plotly(), script]
    digests = [hashlib.sha256(script.encode()).digest() for script in scripts]
    data = {"races": [view.pop("data") for view in views], "profile": _profile(races)}
    return render(
        html,
        {"interval": _interval, "setting": words.number, "probability": _probability},
        css=css,
        # Only these scripts run, whatever the page's data may contain.
        policy=" ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests),
        scripts=scripts,
        data=dumps(data).replace("<", "\\u003c"),  # it stands inside a script element
        races=views,
        profile=data["profile"],
        others=_count_other_runs(folder, known),
        runs=len(known),
        version=adamomentum.__version__,
        made=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        ours=OURS,
    )


def _plotly() -> str:
    """The script of Plotly, without the import of its package, which takes longer than the page."""
    spec = importlib.util.find_spec("plotly")
    assert spec is not None
    folder = Path(spec.origin or "").parent
    return (folder / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


def _interval(estimate: dict[str, Any], sign: bool = False) -> str:
    """Such as 97.32 ± 0.21."""
    plus = "+" if sign and estimate["mean"] > 0 else ""
    # Without an uncertainty, as many digits as tell two ranks apart.
    return plus + words.plus_minus(estimate["mean"], estimate["half"], ".5g")


def _probability(p: float) -> str:
    """As the sentences have it: never rounded across the level."""
    return words.probability(p).removeprefix("p ").removeprefix("= ")


def _view(race: RaceData, folder: Path) -> dict[str, Any]:
    """What the page says of a race, and under `data` what it draws."""
    spec, ranking = race["spec"], race["ranking"]
    name = spec["workload"]
    paper = next((known[name] for known in provided("published") if name in known), None)
    rules = protocols().get(spec["protocol"])
    flaws = race["workload"].get("flaws", rules.flaws if rules else ())
    if rules is not None and rules.tune and not spec["trials"]:
        rules, flaws = UNTUNED, UNTUNED.flaws
    final = [run for run in race["runs"] if run["stage"] == "final"]
    for row in ranking:
        row["unscored"] = row["values"].count(None) - row["diverged"] - row["failed"]
        row["published"] = paper.values.get(row["optimizer"]) if paper else None
    sensitivities = [row["sensitivity"] for row in ranking if row["sensitivity"]]
    return {
        "caveats": (),
        "effects": (),
        **race,
        "problem": race["workload"],
        "compared": any(row["comparison"] for row in ranking),
        "anchor": f"race-{race['name']}",
        "paper": paper,
        "words": rules.words if rules else "",
        "flaws": explain(flaws),
        "tuned": any(point["best"] is not None for one in sensitivities for point in one["points"]),
        "columns": sorted(
            {key for row in ranking for key in row["settings"]}, key=words.setting_order
        ),
        "environment": _environment(race["runs"]),
        "pictures": _pictures(final, folder),
        "seconds": sum(run["machine"].get("seconds") or 0.0 for run in race["runs"]),
        "data": _data(race, final),
    }


def _data(race: RaceData, final: Sequence[dict[str, Any]]) -> dict[str, Any]:
    ranking, problem = race["ranking"], race["workload"]
    names = [row["optimizer"] for row in ranking]
    mine = {name: [run for run in final if run["spec"]["optimizer"] == name] for name in names}

    def bands(split: str, metric: str) -> dict[str, Any]:
        carried = split == "test" and problem["selection"] == "validation"
        return {
            name: curves.band([curves.values(run, split, metric, carried) for run in runs])
            for name, runs in mine.items()
        }

    tuning = race.get("tuning", {"contenders": {}})["contenders"].values()
    raced = {own["trials"][own["chosen"] - 1]["run"] for own in tuning}
    tried = [row for row in ranking if row["sensitivity"]]
    found = {
        "metric": problem["metric"],
        "larger": problem["larger_is_better"],
        "optimizers": names,
        "order": race["spec"]["optimizers"],
        "curves": [
            {"split": split, "metric": metric, "bands": bands(split, metric)}
            for split, metric in curves.split_metrics(final)
        ],
        "clock": {name: curves.clock(runs) for name, runs in mine.items()},
        "best": {row["optimizer"]: row["sensitivity"]["expected_best"] for row in tried},
    }
    runs = [_run(run, problem["metric"], run["id"] in raced) for run in race["runs"]]
    return {**_short(found), "runs": runs}


def _run(run: dict[str, Any], metric: str, chosen: bool) -> dict[str, Any]:
    """A run as the page shows it. Of a trial, test is not shown: it decided nothing."""
    spec, final = run["spec"], run.get("final") or {}
    hidden = "test" if run["stage"] == "tuning" else ""
    scores = {split: final.get(split, {}).get(metric) for split in ("validation", "test")}
    shown = [one for one in curves.split_metrics([run]) if one[0] != hidden]
    columns = [[*one, curves.values(run, *one)] for one in shown]
    return {
        "id": run["id"],
        "stage": run["stage"],
        "chosen": chosen,
        "optimizer": spec["optimizer"],
        "seed": spec["seed"],
        "status": run["status"],
        "settings": spec["settings"],
        "epoch": final.get("epoch"),
        **_short(scores | {hidden: None} if hidden else scores),
        "ms": _short(run["machine"].get("ms_per_update")),
        "error": run.get("error"),
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


def _environment(runs: Iterable[dict[str, Any]]) -> dict[str, list[str]]:
    """What the runs were made with; more than one value where they differ."""
    found: dict[str, list[str]] = {}
    for run in runs:
        for key in _ENVIRONMENT:
            value = run["machine"].get(key)
            if value is not None and str(value) not in found.setdefault(key, []):
                found[key].append(str(value))
    return found


def _pictures(final: Sequence[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Sheets of the first seed of each optimizer: how it began, how far it came, how it ended."""
    shown: dict[str, dict[str, Any]] = {}
    for run in final:
        name, place = run["spec"]["optimizer"], folder / run["id"]
        if name in shown or not place.is_dir():
            continue
        sheets = sorted(place.glob("sheet-[0-9]*[0-9].png"))
        ends = {0, len(sheets) // 2, len(sheets) - 1}
        chosen = [sheets[i] for i in sorted(ends) if sheets] + [*place.glob("interpolation.png")]
        made = [(_stage(file.stem), source) for file in chosen if (source := _embed(file))]
        if made:
            shown[name] = {"optimizer": name, "seed": run["spec"]["seed"], "pictures": made}
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


def _profile(races: Sequence[RaceData]) -> dict[str, Any] | None:
    """Performance profiles over the workloads of one protocol and scale, if there are several.

    The measure is epochs to the workload's target, the mean over seeds; who misses it with one of
    them never reaches it. (Epochs and updates have the same ratios.)
    """
    groups: dict[tuple[str, str], dict[str, RaceData]] = {}
    counts: Counter[tuple[str, str]] = Counter()
    # Of several races of a workload the last stays: most trials, then most seeds.
    for race in sorted(races, key=lambda race: (race["spec"]["trials"], race["spec"]["seeds"])):
        if race["workload"]["target"] is not None:
            spec = race["spec"]
            counts[spec["protocol"], spec["scale"]] += 1
            groups.setdefault((spec["protocol"], spec["scale"]), {})[spec["workload"]] = race
    group, found = max(groups.items(), key=lambda item: len(item[1]), default=(("", ""), {}))
    if len(found) < 2:
        return None
    measures = {
        workload: {
            row["optimizer"]: row["epochs_to_target"]["mean"]
            if row["reached"] == len(row["values"])
            else None
            for row in race["ranking"]
        }
        for workload, race in sorted(found.items())
    }
    return {
        "protocol": group[0],
        "scale": group[1],
        "workloads": sorted(found),
        "several": len(found) < counts[group],
        **_short(asdict(profiles(measures))),
    }


def _count_other_runs(folder: Path, known: set[str]) -> list[dict[str, Any]]:
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
