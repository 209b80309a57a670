"""A ranking as text for a terminal, 80 columns or more."""

from __future__ import annotations

import math
import textwrap
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from adamomentum_lab.analysis.effects import Effect
from adamomentum_lab.analysis.ranking import Row, headline
from adamomentum_lab.analysis.statistics import Estimate
from adamomentum_lab.analysis.wording import number, place
from adamomentum_lab.contenders import get
from adamomentum_lab.workloads import Workload


def settings_in_words(settings: dict[str, Any], optimizer: str, only_changed: bool = True) -> str:
    """The lr, and what differs from the optimizer's defaults."""
    defaults = get(optimizer).defaults
    shown = [
        f"{name.replace('_', ' ')} {number(value)}"
        for name, value in sorted(settings.items(), key=lambda item: place(item[0]))
        if name == "lr" or not only_changed or _differs(value, defaults.get(name))
    ]
    return ", ".join(shown)


def _differs(value: Any, default: Any) -> bool:
    return list(value) != list(default) if isinstance(value, (list, tuple)) else value != default


def _plus_minus(estimate: Estimate | None, sign: bool = False) -> str:
    if estimate is None or estimate.mean is None:
        return ""
    # Two digits of the uncertainty, and two decimals at least.
    half = estimate.half
    digits = 2 if not half else min(6, max(2, 1 - math.floor(math.log10(half))))
    if half is None and abs(estimate.mean) < 1:
        digits = 4
    mean = f"{estimate.mean + 0.0:{'+' if sign else ''}.{digits}f}"
    return mean if half is None else f"{mean} ± {half:.{digits}f}"


def ranking_table(rows: list[Row], workload: Workload) -> RenderableType:
    """The ranking, and the settings each was raced with."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("optimizer", no_wrap=True)
    for heading in (f"test {workload.metric}", "difference", _target(workload), "ms"):
        table.add_column(heading, justify="right", no_wrap=True)
    lost = []
    for row in rows:
        to_target = row.epochs_to_target
        reached = f"{to_target.mean:.1f}" if to_target and to_target.mean is not None else "-"
        if 0 < row.reached < len(row.values):
            reached += f" ({row.reached}/{len(row.values)})"
        ms = row.machine.get("ms_per_update")
        table.add_row(
            str(row.rank),
            _in_two(row.optimizer),
            _plus_minus(row.score) or "-",
            _plus_minus(row.difference, sign=True),
            reached,
            f"{ms:.2f}" if ms else "-",
            style="bold" if row.difference is None and row.optimizer == "adamomentum" else None,
        )
        rest = row.values.count(None) - row.diverged - row.failed
        for what, count in (
            ("diverged", row.diverged),
            ("failed", row.failed),
            ("ended without a score", rest),
        ):
            if count:
                lost.append(f"{row.optimizer}: {count} of {len(row.values)} runs {what}.")
    lost += [
        f"{row.optimizer}: its lr is the {row.edge} of those tried; more trials may move it."
        for row in rows
        if row.edge
    ]
    settings = Table.grid(padding=(0, 2))
    for row in rows:
        settings.add_row("  " + row.optimizer, settings_in_words(row.settings, row.optimizer))
    parts: list[RenderableType] = [table, *map(Text, lost), Text("Settings"), settings]
    return Group(*parts)


def statements(rows: list[Row], effects: list[Effect], workload: Workload, width: int = 80) -> str:
    """Who won, each comparison in a sentence, and what the paper's changes did."""
    parts = [headline(rows, workload)]
    if told := [f"- {row.comparison.sentence}" for row in rows if row.comparison is not None]:
        parts += ["", *told]
    if effects:
        parts += ["", "What the paper's changes do"]
        for effect in effects:
            what = effect.what[0].upper() + effect.what[1:]
            words = f"- {what}. {effect.comparison.sentence} {effect.caveat}"
            parts.append(words.rstrip())
    return "\n".join(
        textwrap.fill(
            part,
            width,
            subsequent_indent="  " if part.startswith("- ") else "",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for part in parts
    )


def _in_two(name: str) -> str:
    """A long name over two lines, for the sake of the numbers beside it."""
    return name.replace("-", "-\n", 1) if len(name) > 15 else name


def _target(workload: Workload) -> str:
    return f"epochs to {workload.target:g}" if workload.target is not None else "epochs to target"
