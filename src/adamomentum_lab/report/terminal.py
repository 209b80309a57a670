"""What a terminal shows of a race: its plan before, its ranking after."""

from __future__ import annotations

import math
import shlex
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from adamomentum_lab import contenders
from adamomentum_lab.report import sentences
from adamomentum_lab.space import Settings
from adamomentum_lab.words import count_noun, number, setting_order

if TYPE_CHECKING:
    from adamomentum_lab.engine.store import Run
    from adamomentum_lab.race.judge import Goal, Row
    from adamomentum_lab.race.plan import Plan
    from adamomentum_lab.race.result import Result
    from adamomentum_lab.stats.estimates import Estimate


def settings_in_words(settings: Settings, optimizer: str, only_changed: bool = True) -> str:
    """The lr, and what differs from the optimizer's defaults."""
    defaults = contenders.get(optimizer).settings
    return ", ".join(
        f"{name.replace('_', ' ')} {number(settings[name])}"
        for name in sorted(settings, key=setting_order)
        if name == "lr" or not only_changed or _differs(settings[name], defaults.get(name))
    )


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


def ranking_table(
    rows: Sequence[Row], workload: Goal, baseline: str | None = None
) -> RenderableType:
    """The ranking, and the settings each was raced with."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    target = "target" if workload.target is None else f"{workload.target:g}"
    scores = (f"test {workload.metric}", "difference", f"epochs to {target}", "ms")
    for heading in ("", "optimizer", *scores):
        justify: Any = "left" if heading == "optimizer" else "right"
        table.add_column(heading, justify=justify, no_wrap=True)
    notes = []
    settings = Table.grid(padding=(0, 2))
    for row in rows:
        settings.add_row("  " + row.optimizer, settings_in_words(row.settings, row.optimizer))
        to_target = row.epochs_to_target
        reached = f"{to_target.mean:.1f}" if to_target and to_target.mean is not None else "-"
        if 0 < row.reached < len(row.values):
            reached += f" ({row.reached}/{len(row.values)})"
        ms = row.machine.ms_per_update
        table.add_row(
            str(row.rank),
            # A long name over two lines, for the sake of the numbers beside it.
            row.optimizer.replace("-", "-\n", 1) if len(row.optimizer) > 15 else row.optimizer,
            _plus_minus(row.score) or "-",
            _plus_minus(row.difference, sign=True),
            reached,
            f"{ms:.2f}" if ms else "-",
            style="bold" if row.optimizer == baseline else None,
        )
        lost = {"diverged": row.diverged, "failed": row.failed}
        for what, count in {**lost, "ended without a score": row.unscored}.items():
            if count:
                notes.append(f"{row.optimizer}: {count} of {len(row.values)} runs {what}.")
    for row in rows:
        if row.edge:
            of = f"{row.optimizer}: its lr is the {row.edge} of those tried"
            notes.append(f"{of}; more trials may move it.")
    return Group(table, *map(Text, notes), Text("Settings"), settings)


def statements(result: Result, width: int = 80) -> str:
    """Who won, each comparison in a sentence, and what single changes did."""
    parts = [sentences.of_result(result)]
    metric = f"test {result.workload.metric}"
    compared = [
        f"- {sentences.of_comparison(row.comparison, metric)}"
        for row in result.rows
        if row.comparison is not None
    ]
    if compared:
        parts += ["", *compared]
    if result.effects:
        parts += ["", "What the paper's changes do"]
        for effect in result.effects:
            what = effect.what[0].upper() + effect.what[1:]
            found = sentences.of_comparison(effect.comparison, metric)
            parts.append(f"- {what}. {found} {effect.caveat}".rstrip())
    wrap = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    lines = []
    for part in parts:
        wrap.subsequent_indent = "  " if part.startswith("- ") else ""
        lines.append(wrap.fill(part))
    return "\n".join(lines)


def plan_lines(plan: Plan, stored: list[Run], outdated: int = 0) -> list[str]:
    """What will be done, and what of it is done."""
    lines = [plan.summary(), *sentences.of_plan(plan)]
    if stored:
        finished = sum(run.status in ("done", "diverged") for run in stored)
        which = "trials" if plan.race.trials else "runs"
        done = f"{finished} are finished and {len(stored) - finished} begun already"
        lines.append(f"Of these {which}, {done}: {sum(len(run.epochs) for run in stored)} epochs.")
    if outdated:
        lines.append(
            f"{count_noun(outdated, 'stored run')} with these settings came from other code of the "
            "workload or the optimizer, and will be repeated."
        )
    return lines


def trial_lines(plan: Plan) -> list[str]:
    """Every trial: what is searched, and what else differs from the defaults."""
    lines = []
    for name, start in plan.starts.items():
        defaults, space = contenders.get(name).settings, plan.spaces[name]
        lines.append(name)
        for i, settings in enumerate(plan.trials[name] or [start], 1):
            keys = {"lr", *space, *(key for key in settings if settings[key] != defaults[key])}
            shown = {key: value for key, value in settings.items() if key in keys}
            lines.append(f"  {i:>3}  {settings_in_words(shown, name, only_changed=False)}")
    return lines


def show_race(result: Result, folder: Path) -> None:
    """Print who won, how sure that is, and where the rest is."""
    race, workload = result.race, result.workload
    out = Console(highlight=False)
    out.print(ranking_table(result.rows, workload, race.baseline))
    out.print(f"\n{statements(result, width=min(80, out.width))}", markup=False)
    if all(value is None for row in result.rows for value in row.values):
        out.print("Look at the loss, or at smaller learning rates.")
    best = "larger" if workload.larger_is_better else "smaller"
    reported = {
        "validation": "at the epoch that was best on validation",
        "last": "at the last epoch",
        "test": "at the epoch that was best on test",
    }[workload.selection]
    several = f"Mean over {race.seeds} seeds ± half a 95 % t-interval"
    words = f"\n{several if race.seeds > 1 else 'One seed'}, {reported}; {best} is better. "
    if race.baseline and len(race.optimizers) > 1:
        words += (
            f"Differences are to {race.baseline}, paired by seed, and their intervals each for "
            "itself; the sentences above are corrected for the number of comparisons. "
        )
    out.print(f"{words}All runs: {folder}", markup=False)
    page = shlex.join(["adamomentum", "report", "--runs", str(folder.parents[1])])
    out.print(f"A page of them: {page}", markup=False)
    for caveat in result.record.caveats:
        out.print(f"Note: {caveat}.", markup=False)
