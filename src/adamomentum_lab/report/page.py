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
from adamomentum_lab.protocols import OURS, UNTUNED, protocols
from adamomentum_lab.report.html import render
from adamomentum_lab.stats import curves
from adamomentum_lab.stats.profiles import profiles

_HERE = Path(__file__).parent
_DIGITS = 6  # of numbers in the page; more than anyone reads, fewer than a float has
Race = dict[str, Any]


def load(folder: Path) -> list[Race]:
    """The races of a folder, those left out that another one contains."""
    races = [
        _read(file) for file in sorted(folder.glob("races/*/race.json"), key=lambda f: f.parent)
    ]
    if not races:
        raise LabError(
            f"there is no finished race in {folder}; `adamomentum race` makes one, and --runs "
            "names the folder that has them."
        )

    def key(race: Race) -> tuple[str, ...]:
        spec = race["spec"]
        return (spec["workload"], spec["scale"], spec["protocol"], spec["code"])

    ids = [{run["id"] for run in race["runs"]} for race in races]
    kept = [
        race
        for i, race in enumerate(races)
        if not any(
            key(race) == key(other) and (ids[i] < ids[j] or (ids[i] == ids[j] and i < j))
            for j, other in enumerate(races)
        )
    ]
    return sorted(kept, key=key)


def _read(file: Path) -> Race:
    try:
        race: Race = json.loads(file.read_text(encoding="utf-8"))
        whole = race.keys() >= {"spec", "workload", "ranking", "runs", "machine"}
        whole = whole and all(
            isinstance(race["spec"].get(key), str)
            for key in ("workload", "scale", "protocol", "code")
        )
        whole = whole and all(isinstance(run["id"], str) for run in race["runs"])
    except (KeyError, TypeError):
        whole = False
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise LabError(
            f"{file} cannot be read ({error}); the command of its race writes it anew."
        ) from error
    if not whole:
        raise _foreign(file)
    race["name"] = file.parent.name
    return race


def _foreign(file: Path) -> LabError:
    return LabError(
        f"{file} was written by another version, or changed; the command of its race writes it "
        "anew, and finished runs are not repeated."
    )


def render_races(races: Sequence[Race], folder: Path) -> str:
    """The whole page."""
    from jinja2 import TemplateError

    try:
        return _page(races, folder)
    except (LookupError, TypeError, ValueError, AttributeError, TemplateError) as error:
        for race in races if len(races) > 1 else ():
            render_races([race], folder)  # which of them it is
        if len(races) > 1:
            raise
        raise _foreign(folder / "races" / races[0]["name"] / "race.json") from error


def _page(races: Sequence[Race], folder: Path) -> str:
    views = [_view(race, folder) for race in races]
    known = {run["id"] for race in races for run in race["runs"]}
    scripts = [_plotly(), (_HERE / "page.js").read_text(encoding="utf-8")]
    data = {"races": [view.pop("data") for view in views], "profile": _profile(races)}
    return render(
        (_HERE / "page.html").read_text(encoding="utf-8"),
        {"interval": _interval, "setting": words.number, "probability": _probability},
        css=(_HERE / "page.css").read_text(encoding="utf-8"),
        # Only these scripts run, whatever the page's data may contain.
        policy=" ".join(f"'sha256-{_digest(script)}'" for script in scripts),
        scripts=scripts,
        data=_for_script(data),
        races=views,
        profile=data["profile"],
        others=_others(folder, known),
        runs=len(known),
        version=adamomentum.__version__,
        made=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        ours=OURS,
    )


def _plotly() -> str:
    """The script of Plotly, without the import of its package, which takes longer than the page."""
    spec = importlib.util.find_spec("plotly")
    assert spec is not None
    assert spec.origin is not None
    file = Path(spec.origin).parent / "package_data" / "plotly.min.js"
    return file.read_text(encoding="utf-8")


def _interval(estimate: dict[str, Any], sign: bool = False) -> str:
    """Such as 97.32 ± 0.21."""
    mean, half = estimate["mean"], estimate["half"]
    plus = "+" if sign and mean > 0 else ""
    # Without an uncertainty, as many digits as tell two ranks apart.
    text = f"{plus}{words.amount(mean, half) if half else f'{mean:.5g}'}"
    return text if half is None else f"{text} ± {words.amount(half, half)}"


def _probability(p: float) -> str:
    """As the sentences have it: never rounded across the level."""
    return words.probability(p).removeprefix("p ").removeprefix("= ")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _for_script(data: Any) -> str:
    """JSON that may stand inside a script element."""
    return dumps(data).replace("<", "\\u003c")


def _view(race: Race, folder: Path) -> dict[str, Any]:
    """What the page says of a race, and under `data` what it draws."""
    spec, problem = race["spec"], race["workload"]
    name = spec["workload"]
    paper = next((known[name] for known in provided("published") if name in known), None)
    protocol = protocols().get(spec["protocol"])
    if protocol is not None and protocol.tune and not spec["trials"]:
        protocol = UNTUNED
    final = [run for run in race["runs"] if run["stage"] == "final"]
    for row in race["ranking"]:
        row["unscored"] = row["values"].count(None) - row["diverged"] - row["failed"]
        row["published"] = paper.values.get(row["optimizer"]) if paper else None
    settings = {name: None for row in race["ranking"] for name in row["settings"]}
    return {
        **race,
        "problem": problem,
        "caveats": race.get("caveats", ()),
        "effects": race.get("effects", ()),
        "compared": any(row["comparison"] for row in race["ranking"]),
        "anchor": f"race-{race['name']}",
        "paper": paper,
        "words": protocol.words if protocol else "",
        "flaws": protocol.flaws_of(spec["workload"]) if protocol else (),
        "tuned": any(
            point["best"] is not None
            for row in race["ranking"]
            for point in (row["sensitivity"] or {"points": ()})["points"]
        ),
        "columns": sorted(settings, key=words.setting_order),
        "environment": _environment(race["runs"]),
        "pictures": _pictures(final, folder),
        "seconds": sum(run["machine"].get("seconds") or 0.0 for run in race["runs"]),
        "data": _data(race, final),
    }


def _data(race: Race, final: Sequence[dict[str, Any]]) -> dict[str, Any]:
    names = [row["optimizer"] for row in race["ranking"]]
    problem = race["workload"]
    mine = {name: [run for run in final if run["spec"]["optimizer"] == name] for name in names}
    carried = problem["selection"] == "validation"
    raced = {
        own["trials"][own["chosen"] - 1]["run"]
        for own in race.get("tuning", {"contenders": {}})["contenders"].values()
    }
    return {
        "metric": problem["metric"],
        "larger": problem["larger_is_better"],
        "optimizers": names,
        "order": race["spec"]["optimizers"],
        "curves": [
            {
                "split": split,
                "metric": metric,
                "bands": {
                    name: _short(
                        curves.band(
                            [
                                curves.values(run, split, metric, carried and split == "test")
                                for run in runs
                            ]
                        )
                    )
                    for name, runs in mine.items()
                },
            }
            for split, metric in curves.measured(final)
        ],
        "clock": {name: _short(curves.clock(runs)) for name, runs in mine.items()},
        "best": {
            row["optimizer"]: _short(row["sensitivity"]["expected_best"])
            for row in race["ranking"]
            if row["sensitivity"]
        },
        "runs": [_run(run, problem["metric"], run["id"] in raced) for run in race["runs"]],
    }


def _run(run: dict[str, Any], metric: str, chosen: bool) -> dict[str, Any]:
    """A run as the page shows it. Of a trial, test is not shown: it decided nothing."""
    trial = run["stage"] == "tuning"
    final = run.get("final") or {}
    columns = [
        [split, name, _short(curves.values(run, split, name))]
        for split, name in curves.measured([run])
        if not (trial and split == "test")
    ]
    spec = run["spec"]
    return {
        "id": run["id"],
        "stage": run["stage"],
        "chosen": chosen,
        "optimizer": spec["optimizer"],
        "seed": spec["seed"],
        "status": run["status"],
        "settings": spec["settings"],
        "epoch": final.get("epoch"),
        "validation": _short(final.get("validation", {}).get(metric)),
        "test": None if trial else _short(final.get("test", {}).get(metric)),
        "ms": _short(run["machine"].get("ms_per_update")),
        "error": run.get("error"),
        "columns": columns,
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
    shown = ("adamomentum", "commit", "torch", "python", "platform", "processors", "threads")
    found: dict[str, dict[str, None]] = {}
    for run in runs:
        for key in (*shown, "device"):
            if (value := run["machine"].get(key)) is not None:
                found.setdefault(key, {})[str(value)] = None
    return {key: list(values) for key, values in found.items()}


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
        made = [(_stage(file.stem), source) for file in chosen if (source := _embedded(file))]
        if made:
            shown[name] = {"optimizer": name, "seed": run["spec"]["seed"], "pictures": made}
    return list(shown.values())


def _stage(stem: str) -> str:
    """When or how a picture was made, in words."""
    number = stem.removeprefix("sheet-")
    if not number.isdecimal():
        return "from one noise to another"
    return f"after epoch {int(number)}" if int(number) else "before training"


def _embedded(file: Path) -> str | None:
    """A picture as part of the page, a quarter of the size of its file; None if it is damaged."""
    from PIL import Image

    out = io.BytesIO()
    try:
        with Image.open(file) as picture:
            picture.convert("RGB").save(out, "WEBP", quality=80)
    except (OSError, ValueError):
        return None
    return "data:image/webp;base64," + base64.b64encode(out.getvalue()).decode()


def _profile(races: Sequence[Race]) -> dict[str, Any] | None:
    """Performance profiles over the workloads of one protocol and scale, if there are several.

    The measure is epochs to the workload's target, the mean over seeds; who misses it with one of
    them never reaches it. (Epochs and updates have the same ratios.)
    """
    groups: dict[tuple[str, str], dict[str, Race]] = {}
    # Of several races of a workload the last stays: most trials, then most seeds.
    for race in sorted(races, key=lambda race: (race["spec"]["trials"], race["spec"]["seeds"])):
        if race["workload"]["target"] is not None:
            spec = race["spec"]
            groups.setdefault((spec["protocol"], spec["scale"]), {})[spec["workload"]] = race
    (protocol, scale), found = max(
        groups.items(), key=lambda item: len(item[1]), default=(("", ""), {})
    )
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
        "protocol": protocol,
        "scale": scale,
        "workloads": sorted(found),
        "several": len(found)
        < sum(
            (race["spec"]["protocol"], race["spec"]["scale"]) == (protocol, scale)
            and race["workload"]["target"] is not None
            for race in races
        ),
        **_short(asdict(profiles(measures))),
    }


def _others(folder: Path, known: set[str]) -> list[dict[str, Any]]:
    """Runs of the folder that belong to none of its races, counted."""
    file = folder / "runs.sqlite"
    if not file.is_file():
        return []
    try:
        # Where nothing may be written, SQLite cannot make the files beside it that it wants.
        mode = "mode=ro" if os.access(folder, os.W_OK) else "immutable=1"
        with contextlib.closing(sqlite3.connect(f"file:{quote(str(file))}?{mode}", uri=True)) as db:
            rows = db.execute(
                "SELECT id, workload, scale, protocol, optimizer, status FROM runs"
            ).fetchall()
    except sqlite3.Error as error:
        raise LabError(f"cannot read {file} ({error}).") from error
    counts: dict[tuple[str, ...], int] = {}
    for name, *what in rows:
        if name not in known:
            counts[tuple(what)] = counts.get(tuple(what), 0) + 1
    keys = ("workload", "scale", "protocol", "optimizer", "status")
    return [
        {**dict(zip(keys, what, strict=True)), "runs": count}
        for what, count in sorted(counts.items())
    ]
