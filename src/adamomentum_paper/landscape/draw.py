"""Draw a landscape as a figure and a page, from its numbers."""

from __future__ import annotations

import base64
import io
import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adamomentum_lab.files import dumps, write
from adamomentum_lab.report.html import render
from adamomentum_lab.words import count_noun

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The colour-blind safe palette of Okabe and Ito. The first colour is AdaMomentum's.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_SHOWN = 4  # seeds of an optimizer with contours
_ABOVE = 3.0  # surfaces are cropped this far above the highest solution; the paper crops at 3
_TITLES = {
    "rise": "rise of the loss\nat half the radius",
    "eigenvalue": "largest eigenvalue\nof the Hessian",
    "trace": "trace\nof the Hessian",
    "normalised": "mean curvature along\nfilter-normalised directions",
}


def ceiling(runs: Sequence[dict[str, Any]]) -> tuple[float, bool]:
    """Return the largest loss to draw, the same for all runs, and whether any is above it."""
    losses = np.array([run["surface"]["loss"] for run in runs], dtype=float)
    limit = max(run["loss"] for run in runs) + _ABOVE
    highest = float(np.max(losses[np.isfinite(losses)], initial=-math.inf))
    cropped = highest > limit or not bool(np.isfinite(losses).all())
    return (limit if cropped else highest), cropped


def figure(result: dict[str, Any], form: str = "png") -> bytes:
    """Draw contours, surfaces, rises and curvature as a PNG or SVG, all runs on the same scales."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    runs, groups = {run["id"]: run for run in result["runs"]}, result["groups"]
    top, cropped = ceiling(result["runs"])
    low = min(float(np.nanmin(np.array(run["surface"]["loss"]))) for run in runs.values())
    if not top > low:
        top = low + 1e-6  # a plain
    # Bowls have evenly spaced contours where levels grow as the square of the distance.
    levels = low + (top - low) * np.linspace(0, 1, 13) ** 2
    columns = min(max(len(group["runs"]) for group in groups), _SHOWN)
    rows = len(groups)
    style: Any = {"text.parse_math": False, "font.size": 10, "axes.titlesize": 10}
    with mpl.rc_context(style):
        heights = [2.9 * rows + 0.5, 3.9 * math.ceil(rows / 3) + 0.3, 3.9, 3.6]
        drawn = Figure(figsize=(12, sum(heights)), layout="constrained")
        FigureCanvasAgg(drawn)
        parts: Any = drawn.subfigures(4, 1, height_ratios=heights)
        crop = f", cropped at {top:.3g}" if cropped else ""
        spec = result["spec"]
        parts[0].suptitle(
            f"{spec['workload']}, {spec['scale']}: loss around each solution (+) along two "
            f"filter-normalised directions, same scale for all{crop}"
        )
        squares = parts[0].subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        shading: Any = None
        for row, group in enumerate(groups):
            for column in range(columns):
                ax = squares[row, column]
                if column >= len(group["runs"]):
                    ax.set_visible(False)
                    continue
                run = runs[group["runs"][column]]
                shading = _contour(ax, run, levels, top)
                ax.set_title(f"{group['label']}, seed {run['spec']['seed']}", wrap=True)
        parts[0].colorbar(shading, ax=squares, label="loss", format="%.3g", ticks=levels[::2])
        parts[1].suptitle("The same as surfaces, for the first seed of each")
        for i, group in enumerate(groups):
            ax3 = parts[1].add_subplot(math.ceil(rows / 3), min(rows, 3), i + 1, projection="3d")
            _surface(ax3, runs[group["runs"][0]], levels, low, top)
            ax3.set_title(group["label"], wrap=True)
        _rises(parts[2].subplots(), result)
        parts[3].suptitle("Curvature and rise: runs with their errors, mean over seeds (bar)")
        for ax, name in zip(parts[3].subplots(1, len(_TITLES)), _TITLES, strict=True):
            _dots(ax, result, name)
        buffer = io.BytesIO()
        drawn.savefig(buffer, format=form, dpi=100)
    return buffer.getvalue()


def _losses(run: dict[str, Any], top: float) -> Any:
    losses = np.array(run["surface"]["loss"], dtype=float)
    return np.nan_to_num(losses, nan=top, posinf=top).clip(max=top)


def _contour(ax: Axes, run: dict[str, Any], levels: Any, top: float) -> Any:
    from matplotlib.colors import BoundaryNorm

    axis, losses = run["surface"]["axis"], _losses(run, top)
    norm = BoundaryNorm(levels, 256)
    filled = ax.contourf(axis, axis, losses, levels=levels, norm=norm, cmap="cividis")
    if np.ptp(losses) > 0:
        ax.contour(axis, axis, losses, levels=levels[1:-1], colors="white", linewidths=0.5)
    ax.plot(0, 0, "+", color="white", markersize=8)
    ax.set_aspect("equal")
    ax.label_outer()
    return filled


def _surface(ax: Any, run: dict[str, Any], levels: Any, low: float, top: float) -> None:
    from matplotlib.colors import BoundaryNorm

    axis, losses = run["surface"]["axis"], _losses(run, top)
    x, y = np.meshgrid(axis, axis)
    ax.plot_surface(
        x, y, losses, cmap="cividis", norm=BoundaryNorm(levels, 256), rstride=1, cstride=1,
        linewidth=0.2, edgecolor="black",
    )  # fmt: skip
    ax.set_zlim(low, top)
    ax.set_zlabel("loss")
    ax.view_init(elev=28, azim=-58)
    ax.locator_params(nbins=5)
    ax.set_box_aspect(None, zoom=0.9)


def _members(result: dict[str, Any]) -> Iterator[tuple[dict[str, Any], list[Any], str]]:
    """Yield each group with its runs and its colour."""
    runs = {run["id"]: run for run in result["runs"]}
    for group, colour in zip(result["groups"], itertools.cycle(_COLOURS), strict=False):
        yield group, [runs[key] for key in group["runs"]], colour


def _rises(ax: Axes, result: dict[str, Any]) -> None:
    for group, runs, colour in _members(result):
        radii = runs[0]["rises"]["radii"]
        values = np.array([run["rises"]["mean"] for run in runs], dtype=float)
        for line in values:
            ax.plot(radii, line, color=colour, linewidth=0.8, alpha=0.6)
        name = f"{group['label']} ({count_noun(len(runs), 'seed')})"
        ax.plot(radii, values.mean(0), color=colour, linewidth=2.2, marker="o", label=name)
    pairs = result["spec"]["directions"]
    ax.set_title(
        f"Rise of the loss with the distance, mean over {pairs} pairs of directions: runs (thin), "
        "mean over seeds (thick)"
    )
    ax.set_xlabel("distance, relative to the norm of each filter")
    ax.set_ylabel("rise of the loss")
    if all(value > 0 for run in result["runs"] for value in run["rises"]["mean"]):
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter("{x:g}")
    ax.grid(alpha=0.3)
    ax.legend(loc="upper left", frameon=False)


def _dots(ax: Axes, result: dict[str, Any], name: str) -> None:
    style: Any = {"fmt": "o", "markersize": 4, "capsize": 2}
    for i, (group, runs, colour) in enumerate(_members(result)):
        offsets = np.linspace(-0.25, 0.25, len(runs)) if len(runs) > 1 else [0.0]
        for offset, run in zip(offsets, runs, strict=True):
            one = run["measures"][name]
            ax.errorbar(i + offset, one["value"], one["error"] or 0.0, color=colour, **style)
        mean = group["measures"][name]["mean"]
        if mean is not None:
            ax.hlines(mean, i - 0.35, i + 0.35, color=colour, linewidth=2)
    ax.set_title(_TITLES[name])
    ax.set_xlim(-0.6, len(result["groups"]) - 0.4)
    labels = [group["label"].replace(" (", "\n(") for group in result["groups"]]
    many = max(map(len, labels)) * len(labels) > 30
    rotation, ha = (30, "right") if many else (0, "center")
    ax.set_xticks(range(len(labels)), labels, rotation=rotation, ha=ha)
    ax.grid(axis="y", alpha=0.3)
    if ax.get_ylim()[0] > 0:
        ax.set_ylim(bottom=0)


def plus_minus(value: float | None, error: float | None = None, sign: bool = False) -> str:
    """Format a number with four digits and its error with two."""
    if value is None or not math.isfinite(value):
        return "not finite"
    text = f"{value:{'+' if sign else ''}.4g}"
    return text if error is None else f"{text} ± {error:.2g}"


_PAGE = """{% block title %}Landscape of {{ spec.workload }}{% endblock %}
{% block body %}
<h1>Loss landscape of {{ spec.workload }}</h1>
<p>Scale {{ spec.scale }}, protocol {{ spec.protocol }}; {{ runs|length }} runs.</p>
<h2>What the paper says</h2>
<p>{{ claim }}</p>
<h2>What was measured here</h2>
{% for sentence in verdicts %}<p class="verdict">{{ sentence }}</p>
{% else %}<p class="verdict">All runs are of one optimizer, so nothing is compared.</p>
{% endfor %}
{% if comparisons %}<div class="wide"><table>
<tr><th>measure</th><th>compared</th><th>difference, 95 %</th>
<th>how</th><th>verdict</th></tr>
{% for c in comparisons %}<tr>
<td>{{ measures.get(c.measure, "loss at the solution") }}</td>
<td>{{ c.first }} minus {{ c.other }}</td>
<td class="number">{{ number(c.difference.mean, c.difference.half, True) }}</td>
<td>{{ c.how }}, n = {{ c.difference.n }}</td>
<td>{{ c.verdict }}</td></tr>
{% endfor %}</table></div>
<p>Below 0, the first is flatter. An interval that contains 0 shows no difference.</p>{% endif %}
<h2>Figures</h2>
<p><img alt="Contours and surfaces of the loss, its rise with the distance, curvature"
src="data:image/png;base64,{{ picture }}"></p>
<h2>Mean over seeds</h2>
<div class="wide"><table><tr><th>optimizer</th><th>settings</th>
<th>seeds</th><th>loss</th>{% for title in measures.values() %}<th>{{ title }}</th>
{% endfor %}</tr>
{% for g in groups %}<tr><td>{{ g.label }}</td><td>{{ g.settings }}</td>
<td>{{ g.seeds|join(", ") }}</td><td class="number">{{ number(g.loss.mean, g.loss.half) }}</td>
{% for name in measures %}
<td class="number">{{ number(g.measures[name].mean, g.measures[name].half) }}</td>
{% endfor %}</tr>{% endfor %}</table></div>
<h2>Every run</h2>
<div class="wide"><table><tr><th>run</th><th>optimizer</th><th>seed</th>
<th>loss</th>{% for title in measures.values() %}<th>{{ title }}</th>{% endfor %}</tr>
{% for r in runs %}<tr><td>{{ r.id }}</td><td>{{ r.spec.optimizer }}</td>
<td>{{ r.spec.seed }}</td><td class="number">{{ number(r.loss) }}</td>
{% for name in measures %}
<td class="number">{{ number(r.measures[name].value, r.measures[name].error) }}</td>
{% endfor %}</tr>{% endfor %}</table></div>
<h2>Notes</h2>
<ul>{% for note in notes %}<li>{{ note }}.</li>
{% endfor %}</ul>
<p>All numbers, including the surfaces, are in landscape.json.</p>
{% endblock %}
"""


def page(result: dict[str, Any], picture: bytes) -> str:
    """Render the page, which needs no other file."""
    return render(_PAGE, **result, picture=base64.b64encode(picture).decode(), number=plus_minus)


def write_all(result: dict[str, Any], folder: Path) -> Path:
    """Write landscape.html, .json and .png, and return the path of the page."""
    picture = figure(result)
    write(folder / "landscape.png", picture)
    write(folder / "landscape.json", dumps(result, indent=1) + "\n")
    write(folder / "landscape.html", page(result, picture))
    return folder / "landscape.html"
