"""What a notebook shows of a race: bars while it runs, then a table and a forest plot."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from adamomentum_lab import words
from adamomentum_lab.report import sentences
from adamomentum_lab.report.settings import settings_in_words
from adamomentum_lab.report.verdicts import difference

if TYPE_CHECKING:
    from adamomentum_lab.race.result import Result
    from adamomentum_lab.race.verdict import Verdict

WIDTH, ROW, LEFT = 560, 24, 150
"""Of the plot, in pixels: its width, the height of a row, the place for names."""
LINES = 12
"""Lines that stand above the bars, at most."""
Bar = tuple[str, int, int, str]
"""Its name, how many are done, of how many, and a note."""


def is_here() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


class Block:
    """A part of a cell's output that can be replaced."""

    def __init__(self) -> None:
        from IPython.display import HTML, display

        self._html: Any = HTML
        self._handle: Any = display(HTML(""), display_id=True)

    def show(self, lines: Sequence[str], bars: Sequence[Bar], time: str) -> None:
        """Show the last lines, and a bar for each part."""
        rows = "".join(
            f"<tr><td style='text-align:left'>{escape(name)}</td>"
            f"<td><progress max={max(total, 1)} value={done} style='width:20em'></progress></td>"
            f"<td>{done}/{total}</td><td style='text-align:left'>{escape(note)}</td></tr>"
            for name, done, total, note in bars
        )
        above = escape("\n".join(lines[-LINES:]))
        html = f"<pre style='white-space:pre-wrap'>{above}</pre><table>{rows}</table>{escape(time)}"
        self._handle.update(self._html(html))


def show(result: Result) -> str:
    """The headline, the ranking, each verdict in a sentence and as an interval."""
    metric = result.workload.metric
    rows = []
    for row in result.rows:
        verdict = row.verdict
        score = words.plus_minus(row.score.mean, row.score.half) if row.score.mean else "-"
        cells = [str(row.rank), row.optimizer, score if row.score.mean is not None else "-"]
        cells += [difference(verdict), verdict.kind] if verdict else ["", "baseline"]
        cells.append(settings_in_words(row.settings, row.optimizer, entries=result.race.entries))
        rows.append(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>")
    headings = ["", "optimizer", f"test {metric}", "difference", "verdict", "settings"]
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    said = "".join(f"<li>{escape(one)}</li>" for one in sentences.of_pairs(result).values())
    notes = "".join(f"<p>Note: {escape(caveat)}.</p>" for caveat in result.record.caveats)
    return (
        f"<p><b>{escape(sentences.of_result(result))}</b></p>"
        f"<table><tr>{head}</tr>{''.join(rows)}</table>"
        f"{forest(result.verdicts, f'difference of test {metric}')}<ul>{said}</ul>{notes}"
    )


def forest(verdicts: Sequence[Verdict], title: str) -> str:
    """An SVG picture of the differences with their intervals. Open ends have no stop."""
    shown = [one for one in verdicts if one.difference is not None]
    if not shown:
        return ""
    ends = [end for one in shown for end in (*one.interval, one.difference) if end is not None]
    low, high = min(0.0, *ends), max(0.0, *ends)
    room = (high - low or 1.0) * 0.05
    low, high = low - room, high + room
    height = ROW * (len(shown) + 2)

    def x(value: float) -> float:
        return round(LEFT + (WIDTH - LEFT) * (value - low) / (high - low), 1)

    parts = [f"<line x1='{x(0)}' x2='{x(0)}' y1='4' y2='{height - 1.5 * ROW}' stroke='gray'/>"]
    for i, one in enumerate(shown):
        y = ROW * (i + 0.7)
        start, stop = one.interval
        left, right = (x(low if start is None else start), x(high if stop is None else stop))
        parts.append(f"<text x='0' y='{y + 4}'>{escape(f'{one.a} - {one.b}')}</text>")
        parts.append(f"<line x1='{left}' x2='{right}' y1='{y}' y2='{y}' stroke='currentColor'/>")
        for end in (end for end in one.interval if end is not None):
            parts.append(
                f"<line x1='{x(end)}' x2='{x(end)}' y1='{y - 4}' y2='{y + 4}' "
                "stroke='currentColor'/>"
            )
        assert one.difference is not None
        parts.append(f"<circle cx='{x(one.difference)}' cy='{y}' r='4' fill='currentColor'/>")
    base = height - 0.8 * ROW
    for value in (low + room, 0.0, high - room):
        if value == 0.0 or abs(x(value) - x(0)) > 40:
            label = words.number(float(f"{value:.2g}"))
            parts.append(f"<text x='{x(value)}' y='{base}' text-anchor='middle'>{label}</text>")
    middle = (LEFT + WIDTH) / 2
    words_below = f"<text x='{middle}' y='{height - 4}' text-anchor='middle'>{escape(title)}</text>"
    return (
        f"<svg width='{WIDTH + 20}' height='{height}' font-size='12' fill='currentColor' "
        f"role='img' aria-label='{escape(title, quote=True)}'>{''.join(parts)}{words_below}</svg>"
    )
