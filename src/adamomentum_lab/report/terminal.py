"""What a terminal shows of a race: its plan before, its ranking after."""

from __future__ import annotations

import math
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from adamomentum_lab.race.studies import judge_studies
from adamomentum_lab.report import savings, sentences
from adamomentum_lab.report.settings import settings_in_words
from adamomentum_lab.report.verdicts import (
    COVERS,
    COVERS_TUNING,
    difference,
    looks_sentence,
    sentence,
)

if TYPE_CHECKING:
    from adamomentum_lab.contender import Entry
    from adamomentum_lab.engine.store import Run
    from adamomentum_lab.race.judge import Goal, Row
    from adamomentum_lab.race.plan import Plan
    from adamomentum_lab.race.result import Result
    from adamomentum_lab.stats.estimates import Estimate


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
    rows: Sequence[Row],
    workload: Goal,
    baseline: str | None = None,
    entries: Mapping[str, Entry] | None = None,
    width: int = 80,
) -> RenderableType:
    """The ranking, and the settings each was raced with. Where it is too wide, a line for each."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    compared = baseline is not None and len(rows) > 1
    headings = ["", "optimizer", f"test {workload.metric}"]
    headings += [f"difference to {baseline}", "verdict"] if compared else []
    for heading in headings:
        justify: Any = "left" if heading in ("optimizer", "verdict") else "right"
        table.add_column(heading, justify=justify, no_wrap=heading == "optimizer")
    notes = []
    shown = [headings]
    settings = Table.grid(padding=(0, 2))
    for row in rows:
        words = settings_in_words(row.settings, row.optimizer, entries=entries)
        entry = (entries or {}).get(row.optimizer)
        settings.add_row("  " + row.optimizer, f"{words} ({entry.label})" if entry else words)
        cells = [
            str(row.rank),
            # A long name over two lines, for the sake of the numbers beside it.
            row.optimizer.replace("-", "-\n", 1) if len(row.optimizer) > 15 else row.optimizer,
            _plus_minus(row.score) or "-",
        ]
        if compared:
            verdict = row.verdict
            cells += [difference(verdict), verdict.kind] if verdict else ["", "baseline"]
        table.add_row(*cells, style="bold" if row.optimizer == baseline else None)
        shown.append(cells)
        lost = {"diverged": row.diverged, "failed": row.failed}
        if not row.values:
            notes.append(f"{row.optimizer}: not raced, since trials of it were lost.")
        for what, count in {**lost, "ended without a score": row.unscored}.items():
            if count:
                notes.append(f"{row.optimizer}: {count} of {len(row.values)} runs {what}.")
    lengths_of = [
        [len(word) for cell in column for word in cell.split()]
        for column in zip(*shown, strict=True)
    ]
    if sum(max(lengths, default=0) + 2 for lengths in lengths_of) > width:  # it would cut them
        lines = []
        for rank, name, *cells in shown[1:]:
            parts = [
                f"{heading} {cell}"
                for heading, cell in zip(headings[2:], cells, strict=True)
                if cell
            ]
            lines.append(f"{rank} {name.replace(chr(10), '')}: {', '.join(parts)}")
        return Group(*map(Text, [*lines, *notes]), Text("Settings"), settings)
    return Group(table, *map(Text, notes), Text("Settings"), settings)


def statements(result: Result, width: int = 80) -> str:
    """The headline, each verdict in a sentence, and what single changes did."""
    parts = [sentences.of_result(result)]
    if pairs := sentences.of_pairs(result).values():
        parts += ["", *(f"- {words}" for words in pairs)]
    if result.effects:
        parts += ["", "What single changes do"]
        for effect in result.effects:
            what = effect.what[0].upper() + effect.what[1:]
            found = sentence(effect.verdict, f"test {result.workload.metric}")
            parts.append(f"- {what}. {found} {effect.caveat}".rstrip())
    return _wrap(parts, width)


def _wrap(parts: Sequence[str], width: int) -> str:
    """Paragraphs and items of a list in lines of this width."""
    wrap = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    lines = []
    for part in parts:
        wrap.subsequent_indent = "  " if part.startswith("- ") else ""
        lines.append(wrap.fill(part))
    return "\n".join(lines)


def plan_lines(plan: Plan, stored: list[Run]) -> list[str]:
    """What will be done, and what of it is done."""
    lines = [plan.summary(), *sentences.of_plan(plan)]
    if stored:
        finished = sum(run.status in ("done", "diverged") for run in stored)
        which = "trials" if plan.race.trials else "runs"
        done = f"{finished} are finished and {len(stored) - finished} begun already"
        lines.append(f"Of these {which}, {done}: {sum(len(run.epochs) for run in stored)} epochs.")
    return lines


def trial_lines(plan: Plan) -> list[str]:
    """Every trial: what is searched, and what else differs from the defaults. Of a bracketing
    search, the first."""
    lines = []
    for name, start in plan.starts.items():
        defaults, space = plan.race.contender(name).settings, plan.spaces[name]
        lines.append(name)
        for i, settings in enumerate(plan.trials[name] or [start], 1):
            changed = (key for key in settings if settings[key] != defaults.get(key))
            keys = {"lr", *space, *changed}
            shown = {key: value for key, value in settings.items() if key in keys}
            lines.append(f"  {i:>3}  {settings_in_words(shown, name, only_changed=False)}")
    return lines


def show_studies(results: Sequence[Result], runs: Path) -> None:
    """Print the scores of each study, and the verdicts with the study as the unit."""
    first = results[0]
    out = Console(highlight=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("optimizer", no_wrap=True)
    for result in results:
        table.add_column(f"study {result.race.study + 1}", justify="right")
    for name in first.race.optimizers:
        rows = [result.row(name) for result in results]
        cells = [
            f"{_plus_minus(row.score) or '-'}\n{settings_in_words(row.settings, name)}"
            for row in rows
            if row
        ]
        table.add_row(name, *cells)
    out.print(table)
    out.print(f"Test {first.workload.metric}, and the settings that were tuned.\n", markup=False)
    metric = f"test {first.workload.metric}"
    parts = [sentences.of_studies(results), ""]
    parts += [f"- {sentence(verdict, metric)}" for verdict in judge_studies(results)]
    parts += ["", f"{COVERS_TUNING} {looks_sentence(first.record.looks)}"]
    out.print(_wrap(parts, min(80, out.width)), markup=False)
    page = shlex.join(["adamomentum", "report", "--runs", str(runs)])
    out.print(f"All runs: {runs}\nA page of them: {page}", markup=False)


def show_race(result: Result, folder: Path) -> None:
    """Print who won, how sure that is, and where the rest is."""
    race, workload = result.race, result.workload
    out = Console(highlight=False)
    out.print(ranking_table(result.rows, workload, race.baseline, race.entries, out.width))
    out.print(f"\n{statements(result, width=min(80, out.width))}", markup=False)
    if all(value is None for row in result.rows for value in row.values):
        out.print("Look at the loss, or at smaller learning rates.")
    best = "larger" if workload.larger_is_better else "smaller"
    reported = {
        "validation": "at the epoch that was best on validation",
        "last": "at the last epoch",
        "test": "at the epoch that was best on test",
    }[workload.selection]
    several = "Mean over seeds ± half a 95 % t-interval"
    words = f"\n{several if race.seeds > 1 else 'One seed'}, {reported}; {best} is better. "
    if result.budgets:
        words += f"{' '.join(savings.of_budgets(result))} "
    if result.verdicts:
        parts = ["Differences are paired by seed.", COVERS if race.trials else ""]
        parts += [looks_sentence(result.record.looks), sentences.of_sight_in_metric(result)]
        words += " ".join(filter(None, parts))
    out.print(f"{words}\nAll runs: {folder}", markup=False)
    page = shlex.join(["adamomentum", "report", "--runs", str(folder.parents[1])])
    out.print(f"A page of them: {page}", markup=False)
    if more := sentences.continuation(result, folder.parents[1]):
        out.print(f"To decide what is open: {more}", markup=False, soft_wrap=True)
    for caveat in result.record.caveats:
        out.print(f"Note: {caveat}.", markup=False)
