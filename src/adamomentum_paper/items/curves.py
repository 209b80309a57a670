"""Figures of the paper from runs: curves over epochs, and images of GANs."""

from __future__ import annotations

import io
import math
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from adamomentum_lab.files import dumps, write
from adamomentum_lab.report.html import render
from adamomentum_lab.selection import Trained
from adamomentum_paper.items.catalog import Item
from adamomentum_paper.items.cells import Cell

# Okabe and Ito's palette, which colour-blind readers can tell apart. AdaMomentum is the first blue.
COLOURS = {
    "adamomentum": "#0072B2", "adam": "#D55E00", "sgdm": "#000000", "adamw": "#E69F00",
    "yogi": "#CC79A7", "adabound": "#56B4E9", "radam": "#009E73", "adabelief": "#888888",
}  # fmt: skip
DASHES = {"sgdm": "--", "adamw": ":", "radam": "-."}


def curve_of(run: Trained, split: str, metric: str) -> list[float]:
    """Return a score after each epoch; NaN where it was not measured.

    The perplexity of training is the exponential of the cross entropy per word, without the
    regularisers of the training loss.
    """
    values = []
    for record in run.epochs:
        scores = record.get(split, {})
        value = scores.get(metric)
        if value is None and metric == "perplexity" and "cross_entropy" in scores:
            value = math.exp(min(scores["cross_entropy"], 700.0))
        values.append(math.nan if value is None else float(value))
    return values


def curves(item: Item, cells: Mapping[tuple[str, str], Cell]) -> dict[str, Any]:
    """Return the numbers of a figure: a panel for each workload and split."""
    panels = []
    for name, label in item.rows.items():
        for split in item.split.split():
            lines = {}
            for optimizer in item.columns:
                cell = cells[name, optimizer]
                # Where validation chooses, test is not measured after every epoch.
                read = (
                    "validation" if (split, cell.by.selection) == ("test", "validation") else split
                )
                metric = cell.by.metric
                runs = [curve_of(run, read, metric) for run in cell.runs if run.epochs]
                length = max(map(len, runs), default=0)
                columns = [[run[i] for run in runs if i < len(run)] for i in range(length)]
                means = [_mean(values) for values in columns]
                if any(value is not None for value in means):
                    spreads = [
                        statistics.pstdev(each) if len(each) > 1 else 0.0 for each in columns
                    ]
                    lines[optimizer] = {"mean": means, "deviation": spreads, "seeds": len(runs)}
            by = cells[name, next(iter(item.columns))].by
            read = "validation" if (split, by.selection) == ("test", "validation") else split
            panels.append(
                {
                    "workload": name,
                    "title": f"{label}: {read} {by.metric}",
                    "larger_is_better": by.larger_is_better,
                    "metric": by.metric,
                    "lines": lines,
                }
            )
    return {"name": item.name, "title": item.title, "panels": panels}


def _mean(values: list[float]) -> float | None:
    found = [value for value in values if math.isfinite(value)]
    return statistics.fmean(found) if found and len(found) == len(values) else None


def draw_curves(item: Item, found: dict[str, Any], subtitle: str) -> Any:
    """Return a figure: for each workload and split a panel of means ± one standard deviation."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = found["panels"]
    columns = len(item.split.split()) if len(item.split.split()) > 1 else len(panels)
    rows = math.ceil(len(panels) / columns)
    drawn = Figure(figsize=(4.2 * columns + 0.4, 3.2 * rows + 0.9), layout="constrained")
    FigureCanvasAgg(drawn)
    drawn.suptitle(f"{item.title}\n{subtitle}", fontsize=11)
    handles: dict[str, Any] = {}
    for ax, panel in zip(drawn.subplots(rows, columns, squeeze=False).flat, panels, strict=True):
        ax.set_title(panel["title"], fontsize=10)
        ax.set_xlabel("epoch")
        ax.grid(alpha=0.3)
        if not panel["lines"]:
            ax.text(0.5, 0.5, "not measured yet", ha="center", transform=ax.transAxes)
            ax.set_xticks([])
            ax.set_yticks([])
        for optimizer, line in panel["lines"].items():
            mean = np.array(line["mean"], dtype=float)
            spread = np.array(line["deviation"], dtype=float)
            epochs = np.arange(1, len(mean) + 1)
            style = {"color": COLOURS[optimizer], "linestyle": DASHES.get(optimizer, "-")}
            width = 2.2 if optimizer == "adamomentum" else 1.2
            [handle] = ax.plot(epochs, mean, linewidth=width, **style)
            handles[item.columns[optimizer]] = handle
            ax.fill_between(epochs, mean - spread, mean + spread, color=style["color"], alpha=0.15)
        _limit(ax, panel)
    if handles:
        drawn.legend(
            handles.values(), handles.keys(), loc="outside lower center", ncols=min(len(handles), 8)
        )
    return drawn


def _limit(ax: Any, panel: dict[str, Any]) -> None:
    """Cut off diverging lines, which would flatten all others."""
    ends = [v for line in panel["lines"].values() for v in line["mean"] if v is not None]
    if panel["metric"] == "perplexity" and ends:
        low, middle = min(ends), statistics.median(ends)
        ax.set_ylim(low - 0.1 * (middle - low) - 1, max(3 * middle - 2 * low, low + 2))


def images(sheets: dict[str, Path]) -> Any:
    """Return a figure of sheets of samples: title -> file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    drawn = Figure(figsize=(6.2 * len(sheets), 7.0), layout="constrained")
    FigureCanvasAgg(drawn)
    axes = drawn.subplots(1, len(sheets), squeeze=False).flat
    for ax, (title, file) in zip(axes, sheets.items(), strict=True):
        with Image.open(file) as image:
            ax.imshow(np.array(image.convert("RGB")), interpolation="nearest")
        ax.set_title(title, fontsize=10)
        ax.axis("off")
    return drawn


_PAGE = """{% block title %}{{ title }}{% endblock %}
{% block body %}
<h1>{{ name }}: {{ title }}</h1>
<p>{{ subtitle }}</p>
<figure role="img" aria-label="{{ title }}" style="background: #fff; margin: 0">{{ svg }}</figure>
<h2>Notes</h2>
<ul>{% for note in notes %}<li>{{ note }}</li>
{% endfor %}</ul>
{% endblock %}
"""


def write_figure(
    drawn: Any,
    found: dict[str, Any],
    folder: Path,
    subtitle: str,
    notes: list[str],
) -> list[Path]:
    """Write a figure as PNG, SVG and HTML, with its numbers as JSON. Return the files."""
    import matplotlib as mpl
    from markupsafe import Markup

    contents: dict[str, bytes] = {}
    for kind in ("png", "svg"):
        buffer = io.BytesIO()
        with mpl.rc_context({"svg.hashsalt": found["name"]}):  # the same file for the same numbers
            drawn.savefig(
                buffer, format=kind, dpi=120, metadata={"Date": None} if kind == "svg" else None
            )
        contents[kind] = buffer.getvalue()
    svg = contents["svg"].decode("utf-8")
    page = render(
        _PAGE,
        name=found["name"],
        title=found["title"],
        subtitle=subtitle,
        notes=notes,
        svg=Markup(
            svg[svg.index("<svg") :].replace("<svg ", '<svg style="max-width:100%;height:auto" ', 1)
        ),
    )
    files = [folder / f"{found['name']}.{kind}" for kind in ("png", "svg", "html", "json")]
    numbers = dumps({**found, "notes": notes}, indent=1) + "\n"
    texts: list[str | bytes] = [contents["png"], contents["svg"], page, numbers]
    for file, content in zip(files, texts, strict=True):
        write(file, content)
    return files
