"""A race as a picture: how each optimizer learned, and what it reached."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from itertools import pairwise

from adamomentum_lab.race.judge import Row
from adamomentum_lab.race.result import Result
from adamomentum_lab.report.sentences import of_result
from adamomentum_lab.stats.curves import Values, band, values
from adamomentum_lab.stats.estimates import Estimate
from adamomentum_lab.words import count_noun, number
from adamomentum_paper.claims.rules import OURS

WIDTH, HEIGHT = 860, 340
TOP, BOTTOM = 64, 290
CURVES = (60, 400)  # from left to right
SCORES = (590, 820)
# Those of the report page; AdaMomentum has the first.
LIGHT = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b07d00", "#2a9bd6", "#000000", "#7a5c3a")
DARK = ("#4db4f0", "#ff8a3d", "#2fd0a0", "#f0a3cc", "#f0c04a", "#9bd8f7", "#f2f2f2", "#c9a27a")
LINE = 20  # the height of a label
Axis = Callable[[float], float]


def picture(race: Result) -> str:
    """As SVG: validation over epochs, each run and the mean, and test with 95 % intervals."""
    problem, rows, spec = race.workload, race.rows, race.race
    if len(rows) > len(LIGHT):
        raise ValueError(f"a picture has room for {len(LIGHT)} optimizers, not {len(rows)}.")
    names = sorted((row.optimizer for row in rows), key=lambda name: name != OURS)
    color = {name: f"c{i}" for i, name in enumerate(names)}
    title = f"{spec.workload}, {spec.scale}: {count_noun(spec.seeds, 'seed')} each"
    if spec.trials:
        title += f" after {count_noun(spec.trials, 'trial')} of tuning"
        title += " with halving" if spec.halving else ""
    interval = any(row.score.half is not None for row in rows)
    shown = f"test {problem.metric}" + (", mean and 95 % interval" if interval else "")
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
            f"<title>{escape(of_result(race))}</title>",
            f"<style>{_style()}</style>",
            f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
            _text(CURVES[0], 26, title, "title"),
            *_curves(race, names, color),
            _text(CURVES[0], TOP - 12, f"validation {problem.metric}, by epoch"),
            *_scores(rows, color, problem.larger_is_better),
            _text(SCORES[0], TOP - 12, shown),
            "</svg>\n",
        ]
    )


def _style() -> str:
    light = "".join(f".c{i}{{color:{color}}}" for i, color in enumerate(LIGHT))
    dark = "".join(f".c{i}{{color:{color}}}" for i, color in enumerate(DARK))
    return (
        "text{font:13px system-ui,sans-serif;fill:#444}.title{font-size:16px;font-weight:600;"
        "fill:#111}.end{text-anchor:end}.middle{text-anchor:middle}.name{fill:currentColor}"
        ".ours{font-weight:700}.small{font-size:11px}.paper{fill:#fff}.grid{stroke:#ddd}"
        "path{fill:none;stroke:currentColor;stroke-linecap:round}.run{opacity:.3}.mean{stroke-width:2.2}"
        f".bar,.beyond{{stroke-width:2}}circle{{fill:currentColor}}{light}"
        "@media (prefers-color-scheme:dark){text{fill:#bbb}.title{fill:#eee}.paper{fill:#111418}"
        f".grid{{stroke:#333}}.name{{fill:currentColor}}{dark}}}"
    )


def _curves(race: Result, names: Sequence[str], color: dict[str, str]) -> list[str]:
    problem = race.workload
    runs: dict[str, list[Values]] = {
        name: [values(run.epochs, "validation", problem.metric) for run in race.finals[name]]
        for name in names
    }
    known = [y for columns in runs.values() for column in columns for y in column if y is not None]
    if not known:
        return [_text(CURVES[0], (TOP + BOTTOM) / 2, "no score of any epoch")]
    epochs = problem.epochs
    log = _decades(known, problem.larger_is_better)
    ticks, up = _scale(known, log, (BOTTOM, TOP), 5, lambda _: LINE)
    along = _axis(1, max(epochs, 2), *CURVES)
    parts = []
    for tick in ticks:
        parts.append(_path("grid", f"M{CURVES[0]} {up(tick):.1f}H{CURVES[1]}"))
        parts.append(_text(CURVES[0] - 8, up(tick) + 4, number(tick), "end"))
    step = max(5, 5 * round(epochs / 25))
    parts += [
        _text(along(epoch), BOTTOM + 20, str(epoch), "middle")
        for epoch in sorted({1, epochs, *range(step, epochs - step // 2, step)})
    ]
    for name in reversed(names):  # ours is above
        for column in runs[name]:
            parts.append(_line(column, along, up, f"run {color[name]}"))
        parts.append(_line(band(runs[name])["mean"], along, up, f"mean {color[name]}"))
    return parts


def _scores(rows: Sequence[Row], color: dict[str, str], larger_is_better: bool) -> list[str]:
    heights = [TOP + (i + 0.5) * (BOTTOM - TOP) / len(rows) for i in range(len(rows))]
    scored = [row.score for row in rows if row.score.mean is not None]
    if not scored:
        pairs = zip(rows, heights, strict=True)
        return [part for row, y in pairs for part in _name(row, color, y)]
    log = _decades([score.mean or 0.0 for score in scored], larger_is_better)
    ends = [end for score in scored for end in _ends(score) if end > 0 or not log]
    ticks, along = _scale(ends, log, SCORES, 4, lambda tick: 7.5 * len(number(tick)) + 8)
    parts = []
    for tick in ticks:
        parts.append(_path("grid", f"M{along(tick):.1f} {TOP}V{BOTTOM}"))
        parts.append(_text(along(tick), BOTTOM + 20, number(tick), "middle"))
    for row, y in zip(rows, heights, strict=True):
        score, cls = row.score, color[row.optimizer]
        parts += _name(row, color, y)
        if score.mean is None:
            continue
        low, high = _ends(score)
        left, right = along(low), along(high)
        parts.append(_path(f"bar {cls}", f"M{left:.1f} {y:.1f}H{right:.1f}"))
        if log and low <= 0:  # an arrow: it goes on to where there is no logarithm
            points = f"M{left + 6:.1f} {y - 5:.1f}L{left:.1f} {y:.1f}L{left + 6:.1f} {y + 5:.1f}"
            parts.append(_path(f"beyond {cls}", points))
        middle = along(score.mean)
        parts.append(f'<circle class="{cls}" cx="{middle:.1f}" cy="{y:.1f}" r="5"/>')
    return parts


def _ends(score: Estimate) -> tuple[float, ...]:
    """Of the interval, and the mean where there is none."""
    return tuple((score.mean or 0.0) + sign * (score.half or 0.0) for sign in (-1, 1))


def _name(row: Row, color: dict[str, str], y: float) -> list[str]:
    """Who it is, and below how many runs it lost."""
    name, lost, runs = row.optimizer, row.lost, len(row.values)
    note = f"{lost} of {runs} lost" if lost else "1 run" if runs == 1 else ""
    cls = f"end name {color[name]}{' ours' if name == OURS else ''}"
    parts = [_text(SCORES[0] - 14, y - 2 if note else y + 4, name, cls)]
    if note:
        parts.append(_text(SCORES[0] - 14, y + 10, note, "end small"))
    if row.score.mean is None:
        parts.append(_text(SCORES[0], y + 4, "no score"))
    return parts


def _decades(known: Sequence[float], larger_is_better: bool) -> bool:
    """Whether values are better shown by their logarithms."""
    return not larger_is_better and min(known) > 0 and max(known) > 10 * min(known)


def _scale(
    known: Sequence[float],
    log: bool,
    place: tuple[float, float],
    wanted: int,
    room: Callable[[float], float],
) -> tuple[list[float], Axis]:
    """An axis for all these values, with as many round numbers as it has room for."""
    low, high = min(known), max(known)
    choices = [_ticks(low, high, n) for n in range(wanted, 0, -1)]
    if log:
        choices = _log_ticks(low, high)
        low, high = choices[0][0], choices[0][-1]
    for ticks in choices:
        axis = _axis(min(low, ticks[0]), max(high, ticks[-1]), *place, log)
        if all(abs(axis(b) - axis(a)) >= (room(a) + room(b)) / 2 for a, b in pairwise(ticks)):
            break
    return ticks, axis


def _ticks(low: float, high: float, wanted: int) -> list[float]:
    """Round numbers from below the lowest to above the highest."""
    if high - low <= 1e-4 * max(abs(low), abs(high)):  # as good as one
        around = abs(high) / 200 or 1.0
        low, high = low - around, high + around
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    steps = range(math.floor(low / step), math.ceil(high / step) + 1)
    return [float(f"{i * step:.9g}") for i in steps]


def _log_ticks(low: float, high: float) -> list[list[float]]:
    """1, 2 and 5 of each decade from below the lowest to above the highest, and ever fewer."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = [float(f"{factor}e{power}") for power in powers for factor in (1, 2, 5)]
    first = max(tick for tick in every if tick <= low)
    last = min(tick for tick in every if tick >= high)
    shown = [tick for tick in every if first <= tick <= last]
    decades = [
        [tick for power in powers if power % step == 0 and (tick := float(f"1e{power}")) in shown]
        for step in range(1, len(powers) + 1)
    ]
    return [shown, *(ticks for ticks in decades if len(ticks) > 1), shown[::2]]


def _axis(low: float, high: float, start: float, end: float, log: bool = False) -> Axis:
    if log:
        linear = _axis(math.log10(low), math.log10(high), start, end)
        return lambda value: linear(math.log10(max(value, low)))
    return lambda value: start + (value - low) / (high - low) * (end - start)


def _line(column: Sequence[float | None], along: Axis, up: Axis, cls: str) -> str:
    """Through the values that there are; a dot where there is one."""
    points = [f"{along(i):.1f} {up(y):.1f}" for i, y in enumerate(column, 1) if y is not None]
    if len(points) == 1:
        return f'<path class="{cls}" style="stroke-width:6" d="M{points[0]}h0"/>'
    return _path(cls, "M" + "L".join(points)) if points else ""


def _path(cls: str, points: str) -> str:
    return f'<path class="{cls}" d="{points}"/>'


def _text(x: float, y: float, text: str, cls: str = "") -> str:
    return f'<text class="{cls}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'
