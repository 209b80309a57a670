"""Tables in the paper's form, ours beside theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from adamomentum_lab.catalog import find_workload
from adamomentum_lab.race.plan import base_settings
from adamomentum_lab.rules import Scale, at_scale
from adamomentum_lab.words import count_noun, number
from adamomentum_paper.items.catalog import FORMULAS, PUBLISHED_SETTINGS, Item
from adamomentum_paper.items.cells import Cell, Spread
from adamomentum_paper.published import PAPER

BEST, SECOND = "red", "blue"  # the paper's colours

Cells = Mapping[tuple[str, str], Cell]


def scores(item: Item, cells: Cells) -> dict[str, Any]:
    """Return the numbers of a table of scores, for JSON and for `draw`."""
    rows = []
    for name, label in item.rows.items():
        published = PAPER[name]
        columns = {}
        for optimizer in item.columns:
            cell, theirs = cells[name, optimizer], published.values.get(optimizer)
            columns[optimizer] = {
                "paper": theirs and {"mean": theirs[0], "deviation": theirs[1]},
                "here": _as_json(Spread.of(cell.values)),
                "last": _as_json(Spread.of(cell.last)),
                "seeds": len(cell.runs),
                "planned": cell.planned,
                "lost": cell.lost,
                "under_way": cell.under_way,
                "older": cell.older,
                "devices": cell.devices,
            }
        first = cells[name, next(iter(item.columns))]
        rows.append(
            {
                "workload": name,
                "label": label,
                "metric": {"paper": published.metric, "here": first.by.metric},
                "larger_is_better": first.by.larger_is_better,
                "selection": first.by.selection,
                "columns": columns,
            }
        )
    return {"name": item.name, "title": item.title, "rows": rows}


def _as_json(spread: Spread | None) -> dict[str, float | None] | None:
    if spread is None:
        return None
    return {"mean": spread.mean, "deviation": spread.deviation}


def _with_columns(item: Item) -> Table:
    """Return an empty table: two columns for what a row is, and one for each optimizer."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("")
    table.add_column("")
    for label in item.columns.values():
        table.add_column(label, justify="right", no_wrap=True)
    return table


def draw(item: Item, found: dict[str, Any]) -> Table:
    """Return a table of scores: for each row the paper's numbers, ours, and ours at the end."""
    table = _with_columns(item)
    for row in found["rows"]:
        label = row["label"]
        for kind in ("paper", "here", "last"):
            values = [column[kind] for column in row["columns"].values()]
            if kind == "last" and not any(values):
                continue
            styles = _styles(values, row["larger_is_better"])
            shown = [_cell(value, style) for value, style in zip(values, styles, strict=True)]
            table.add_row(label, kind, *shown)
            label = ""
    return table


def _cell(value: dict[str, float | None] | None, style: str) -> Text:
    if value is None:
        return Text("-\n")
    mean, deviation = value["mean"], value["deviation"]
    text = f"{mean:.4g}" if mean is not None and abs(mean) < 10 else f"{mean:.2f}"
    return Text(f"{text}\n" + ("" if deviation is None else f"±{deviation:.2f}"), style=style)


def _styles(values: list[dict[str, float | None] | None], larger: bool) -> list[str]:
    means = sorted({value["mean"] for value in values if value}, reverse=larger)  # type: ignore[type-var]
    marks = dict(zip(means, (BEST, SECOND), strict=False))
    return [marks.get(value["mean"], "") if value else "" for value in values]


def notes(item: Item, found: dict[str, Any], scale: Scale, protocol: str) -> list[str]:
    """Return sentences about a table: what differs from the paper, and what is missing."""
    caveats: dict[str, list[str]] = {}  # with the rows that they are of
    for row in found["rows"]:
        label, metric, columns = row["label"], row["metric"], row["columns"].values()
        workload = find_workload(row["workload"]).load()(scale, protocol)
        mine = [*workload.caveats]
        if scale != "full":
            mine.append(f"scale {scale}, {count_noun(at_scale(workload.epochs, scale), 'epoch')}")
        if metric["paper"] != metric["here"]:
            mine.append(f"here {metric['here']}, in the paper {metric['paper']}")
        if any(column["older"] for column in columns):
            mine.append("the code of the workload has changed since these runs")
        for name, own in row["columns"].items():
            if own["devices"]:
                mine.append(f"{item.columns[name]} on {own['devices']}")
        planned = next(iter(columns))["planned"]
        scored = {name: own["seeds"] - own["lost"] for name, own in row["columns"].items()}
        few = {name: n for name, n in scored.items() if n < planned}
        if not any(scored.values()):
            mine.append("no finished runs yet")
        elif few:
            words = ", ".join(f"{item.columns[name]} {n}" for name, n in few.items())
            mine.append(f"of {planned} seeds, these have a score: {words}")
        lost = {name: own["lost"] for name, own in row["columns"].items() if own["lost"]}
        if lost:
            words = ", ".join(f"{item.columns[name]} {n}" for name, n in lost.items())
            mine.append(f"runs that diverged or failed: {words}")
        for caveat in mine:
            caveats.setdefault(caveat, []).append(label)
    said = ["± is the population standard deviation over seeds, as in the paper."]
    if any(row["selection"] == "test" for row in found["rows"]):
        said.append("`here` is the best evaluation on test, `last` the last one.")
    return said + [f"{', '.join(labels)}: {words}." for words, labels in caveats.items()]


def settings(item: Item, protocol: str) -> dict[str, Any]:
    """Return the settings of a protocol beside those that the paper prints."""
    cls = find_workload(next(iter(item.rows))).load()
    rows = []
    for name, published in PUBLISHED_SETTINGS[item.name].items():
        here = []
        for optimizer in item.columns:
            own = base_settings(optimizer, cls, protocol)
            betas = own.get("betas")
            pair = betas if isinstance(betas, tuple) else (None, None)
            values = {"b1": pair[0], "b2": pair[1]}
            here.append(values[name] if name in values else own.get(name))
        rows.append({"setting": name, "paper": [*published], "here": here})
    return {"name": item.name, "title": item.title, "columns": [*item.columns], "rows": rows}


def draw_settings(item: Item, found: dict[str, Any]) -> Table:
    """Return a table of settings. A value that differs from the paper's is in red."""
    table = _with_columns(item)
    for row in found["rows"]:
        table.add_row(row["setting"], "paper", *map(number, row["paper"]))
        pairs = zip(row["paper"], row["here"], strict=True)
        table.add_row(
            "", "here", *(Text(number(b), style="" if a == b else BEST) for a, b in pairs)
        )
    return table


def draw_formulas() -> Table:
    """Return Table 1."""
    head, *rows = FORMULAS
    table = Table(*head, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    return table
