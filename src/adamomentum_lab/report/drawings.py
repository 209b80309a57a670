"""The figures of the page for papers, as SVG and PDF."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from adamomentum_lab.race.result import Result
from adamomentum_lab.report.forest import Forest, forest, savings_forest
from adamomentum_lab.stats import curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's, which the colour-blind tell apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b07d00", "#56b4e9", "#000000", "#7a5c3a")
SIDES = {"better": "#0072b2", "worse": "#d55e00", "same": "#009e73", "open": "#6b7280"}


def draw(name: str, result: Result) -> dict[str, bytes]:
    """A figure by the endings of its files; empty if there is nothing to draw."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 0.45 * len(result.rows) + 1.2 if "est" in name else 4.0))
    with rc_context({"svg.hashsalt": "adamomentum", "svg.fonttype": "none", "pdf.fonttype": 42}):
        axes = figure.subplots()
        if not DRAWINGS[name](axes, result):
            return {}
        found = {}
        for kind, data in (("svg", {"Date": None}), ("pdf", {"CreationDate": None})):
            out = io.BytesIO()
            figure.savefig(out, format=kind, bbox_inches="tight", metadata=data)
            found[kind] = out.getvalue()
    return found


def _forest(axes: Axes, result: Result) -> bool:
    metric = f"test {result.workload.metric}"
    return _draw_forest(axes, forest(result), f"{metric}, difference to {result.race.baseline}")


def _savings(axes: Axes, result: Result) -> bool:
    plot = savings_forest(result)
    return _draw_forest(axes, plot, f"updates for the same score, of {result.race.baseline}'s")


def _draw_forest(axes: Axes, plot: Forest | None, label: str) -> bool:
    if plot is None:
        return False
    if plot.margin:
        axes.axvspan(*plot.margin, color="0.9", lw=0)
    axes.axvline(plot.zero, color="0.3", lw=1)
    for i, row in enumerate(reversed(plot.rows)):
        colour = SIDES[row.side]
        if row.left is not None and row.right is not None:
            axes.plot([row.left, row.right], [i, i], color=colour, lw=2)
        if row.dot is not None:
            face = "white" if row.side == "open" else colour
            shape = "s" if row.side == "worse" else "o"
            axes.plot([row.dot], [i], shape, color=colour, mfc=face, ms=7)
        axes.text(102, i, f"{row.words}, {row.kind}", va="center", fontsize=8)
    axes.set_yticks(range(len(plot.rows)), [row.name for row in reversed(plot.rows)])
    axes.set_xticks([place for place, _ in plot.ticks], [text for _, text in plot.ticks])
    axes.set_xlim(0, 100)
    axes.set_ylim(-0.6, len(plot.rows) - 0.4)
    axes.set_xlabel(label)
    axes.spines[["top", "right", "left"]].set_visible(False)
    return True


def _style(result: Result, name: str) -> dict[str, Any]:
    place = result.race.optimizers.index(name)
    styles = ("-", "--", ":", "-.")
    style = styles[place // len(COLOURS) % len(styles)]
    return {"color": COLOURS[place % len(COLOURS)], "ls": style}


def _curves(axes: Axes, result: Result) -> bool:
    metric = result.workload.metric
    for name, runs in result.finals.items():
        columns = [curves.values(run.epochs, "validation", metric) for run in runs]
        band = curves.band(columns)
        points = [(i, y) for i, y in enumerate(band["mean"], 1) if y is not None]
        if not points:
            continue
        style = _style(result, name)
        axes.plot([i for i, _ in points], [y for _, y in points], label=name, **style)
        ends = zip(band["low"], band["high"], strict=True)
        bands = [(i, a, b) for i, (a, b) in enumerate(ends, 1) if a is not None and b is not None]
        lows, highs = [low for _, low, _ in bands], [high for _, _, high in bands]
        x = [i for i, _, _ in bands]
        axes.fill_between(x, lows, highs, color=style["color"], alpha=0.13, lw=0)
    return _finish(axes, "epoch", f"validation {metric}")


def _tuning(axes: Axes, result: Result) -> bool:
    for name, own in result.tuned.items():
        points = [(run.settings.get("lr"), result.score(run, "validation")) for run in own.runs]
        shown = sorted((x, y) for x, y in points if isinstance(x, (int, float)) and y is not None)
        if shown:
            axes.plot(
                *zip(*shown, strict=True), marker="o", ms=4, label=name, **_style(result, name)
            )
    axes.set_xscale("log")
    return _finish(axes, "lr", f"validation {result.workload.metric}, one seed")


def _lengths(axes: Axes, result: Result) -> bool:
    base = result.race.baseline
    if base is None or not result.budgets:
        return False
    shown = []
    for budget in result.budgets:
        scores = [s for run in budget.runs if (s := result.score(run)) is not None]
        axes.plot([budget.factor] * len(scores), scores, ".", color="0.6", ms=4)
        shown += [(budget.factor, sum(scores) / len(scores))] if scores else []
    axes.plot(*zip(*shown, strict=True), marker="o", label=base, **_style(result, base))
    for row in result.rows:
        if row.optimizer != base and row.score.mean is not None:
            style = {**_style(result, row.optimizer), "ls": "--"}
            axes.axhline(row.score.mean, label=f"{row.optimizer}, 1x", lw=1, **style)
    axes.set_xscale("log")
    factors = [budget.factor for budget in result.budgets]
    axes.set_xticks(factors, [f"{factor:.3g}" for factor in factors])
    axes.minorticks_off()
    return _finish(axes, f"length of training of {base}", f"test {result.workload.metric}")


def _finish(axes: Axes, x: str, y: str) -> bool:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(color="0.92")
    axes.spines[["top", "right"]].set_visible(False)
    if not axes.lines:
        return False
    axes.legend(frameon=False, fontsize=8)
    return True


DRAWINGS: dict[str, Callable[[Axes, Result], bool]] = {
    "forest": _forest,
    "forest-of-savings": _savings,
    "curves": _curves,
    "tuning": _tuning,
    "lengths": _lengths,
}
"""By name of the file."""
