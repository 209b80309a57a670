"""A race as a picture: how each optimizer learned, and what it reached."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from adamomentum_lab.analysis.curves import band, values
from rules import OURS, Race

WIDTH, HEIGHT = 860, 340
TOP, BOTTOM = 64, 290
CURVES = (52, 420)  # from left to right
SCORES = (600, 830)
# Those of the report page; AdaMomentum has the first.
LIGHT = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b07d00", "#2a9bd6", "#000000", "#7a5c3a")
DARK = ("#4db4f0", "#ff8a3d", "#2fd0a0", "#f0a3cc", "#f0c04a", "#9bd8f7", "#f2f2f2", "#c9a27a")
Axis = Callable[[float], float]


def picture(race: Race) -> str:
    """As SVG: validation over epochs, each run and the mean, and test with 95 % intervals."""
    problem = race["workload"]
    rows = race["ranking"]
    if len(rows) > len(LIGHT):
        raise ValueError(f"a picture has room for {len(LIGHT)} optimizers, not {len(rows)}.")
    names = sorted((row["optimizer"] for row in rows), key=lambda name: name != OURS)
    color = {name: f"c{i}" for i, name in enumerate(names)}
    spec = race["spec"]
    title = f"{spec['workload']}, {spec['scale']}: {spec['seeds']} seeds each"
    if spec["trials"]:
        title += f" after {spec['trials']} trials of tuning"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
            f"<title>{escape(race['headline'])}</title>",
            f"<style>{_style()}</style>",
            f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
            _text(CURVES[0], 26, title, "title"),
            *_curves(race, names, color),
            _text(CURVES[0], TOP - 12, f"validation {problem['metric']}, by epoch"),
            *_scores(rows, color),
            _text(SCORES[0], TOP - 12, f"test {problem['metric']}, mean and 95 % interval"),
            "</svg>\n",
        ]
    )


def _style() -> str:
    def colors(all_: Sequence[str]) -> str:
        return "".join(f".c{i}{{color:{one}}}" for i, one in enumerate(all_))

    return (
        "text{font:13px system-ui,sans-serif;fill:#444}.title{font-size:16px;font-weight:600;"
        "fill:#111}.end{text-anchor:end}.middle{text-anchor:middle}.name{fill:currentColor}"
        ".ours{font-weight:700}.paper{fill:#fff}.grid{stroke:#ddd}"
        "path{fill:none;stroke:currentColor}.run{opacity:.3}.mean{stroke-width:2.2}"
        ".bar{stroke:currentColor;stroke-width:2}circle{fill:currentColor}"
        + colors(LIGHT)
        + "@media (prefers-color-scheme:dark){text{fill:#bbb}.title{fill:#eee}.paper{fill:#111418}"
        f".grid{{stroke:#333}}.name{{fill:currentColor}}{colors(DARK)}}}"
    )


def _curves(race: Race, names: Sequence[str], color: dict[str, str]) -> list[str]:
    metric = race["workload"]["metric"]
    runs = {
        name: [
            values(run, "validation", metric)
            for run in race["runs"]
            if run["stage"] == "final" and run["spec"]["optimizer"] == name
        ]
        for name in names
    }
    known = [y for columns in runs.values() for column in columns for y in column if y is not None]
    epochs = race["workload"]["epochs"]
    low, high = _typical(known, race["workload"]["larger_is_better"])
    ticks = _ticks(low, high, 5)
    up = _axis(min(low, ticks[0]), max(high, ticks[-1]), BOTTOM, TOP)
    along = _axis(1, max(epochs, 2), *CURVES)
    parts = [
        part
        for tick in ticks
        for part in (
            f'<path class="grid" d="M{CURVES[0]} {up(tick):.1f}H{CURVES[1]}"/>',
            _text(CURVES[0] - 8, up(tick) + 4, f"{tick:g}", "end"),
        )
    ]
    parts += [
        _text(along(epoch), BOTTOM + 20, str(epoch), "middle")
        for epoch in sorted({1, epochs, *range(5, epochs, max(5, 5 * round(epochs / 25)))})
    ]
    for name in reversed(names):  # ours is above
        for column in runs[name]:
            parts.append(_line(column, along, up, f"run {color[name]}"))
        parts.append(_line(band(runs[name])["mean"], along, up, f"mean {color[name]}"))
    return parts


def _scores(rows: Sequence[dict[str, Any]], color: dict[str, str]) -> list[str]:
    ends = [
        row["score"]["mean"] + sign * (row["score"]["half"] or 0.0)
        for row in rows
        if row["score"]["mean"] is not None
        for sign in (-1, 1)
    ]
    ticks = _ticks(min(ends), max(ends), 4)
    along = _axis(min(*ends, ticks[0]), max(*ends, ticks[-1]), *SCORES)
    parts = [
        part
        for tick in ticks
        for part in (
            f'<path class="grid" d="M{along(tick):.1f} {TOP}V{BOTTOM}"/>',
            _text(along(tick), BOTTOM + 20, f"{tick:g}", "middle"),
        )
    ]
    gap = (BOTTOM - TOP) / len(rows)
    for i, row in enumerate(rows):
        name, score, y = row["optimizer"], row["score"], TOP + (i + 0.5) * gap
        ours = " ours" if name == OURS else ""
        parts.append(_text(SCORES[0] - 14, y + 4, name, f"end name {color[name]}{ours}"))
        if score["mean"] is None:
            parts.append(_text(SCORES[0], y + 4, "no score"))
            continue
        half = score["half"] or 0.0
        left, right = along(score["mean"] - half), along(score["mean"] + half)
        parts.append(f'<path class="bar {color[name]}" d="M{left:.1f} {y:.1f}H{right:.1f}"/>')
        parts.append(
            f'<circle class="{color[name]}" cx="{along(score["mean"]):.1f}" cy="{y:.1f}" r="5"/>'
        )
    return parts


def _typical(known: Sequence[float], larger_is_better: bool) -> tuple[float, float]:
    """The range to show: all of it, but of the worst no more than twice the better half's."""
    ordered = sorted(known, reverse=larger_is_better)  # the best first
    best, middle, worst = ordered[0], ordered[len(ordered) // 2], ordered[-1]
    limit = best + 3 * (middle - best)
    worst = max(worst, limit) if larger_is_better else min(worst, limit)
    return min(best, worst), max(best, worst)


def _ticks(low: float, high: float, wanted: int) -> list[float]:
    """Round numbers from below the lowest to above the highest."""
    rough = (high - low or abs(high) or 1.0) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    return [round(i * step, 12) for i in range(math.floor(low / step), math.ceil(high / step) + 1)]


def _axis(low: float, high: float, start: float, end: float) -> Axis:
    return lambda value: start + (value - low) / (high - low) * (end - start)


def _line(column: Sequence[float | None], along: Axis, up: Axis, cls: str) -> str:
    """Through the values that there are; what lies beyond the axis ends at its edge."""
    points = [
        f"{along(i):.1f} {min(max(up(y), TOP), BOTTOM):.1f}"
        for i, y in enumerate(column, 1)
        if y is not None
    ]
    return f'<path class="{cls}" d="M{"L".join(points)}"/>' if points else ""


def _text(x: float, y: float, text: str, cls: str = "") -> str:
    return f'<text class="{cls}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'
