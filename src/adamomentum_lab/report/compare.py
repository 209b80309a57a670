"""Two folders of results side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from adamomentum_lab.errors import LabError
from adamomentum_lab.race.judge import Row
from adamomentum_lab.race.result import Result
from adamomentum_lab.report import sentences
from adamomentum_lab.report.html import render
from adamomentum_lab.report.page import load
from adamomentum_lab.report.verdicts import difference
from adamomentum_lab.words import amount, number, plus_minus

Key = tuple[str, str, str]

TEMPLATE = """
{% block title %}Two folders of results{% endblock %}
{% block head %}<meta http-equiv="Content-Security-Policy"
content="default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'">
{% endblock %}
{% block body %}
<h1>Two folders of results</h1>
<p>A: {{ names[0] }}. B: {{ names[1] }}. Changes are B minus A. They are not tested: two stores may
share seeds, data or runs. Verdicts are those of each race alone.</p>
{% for pair in pairs %}
<h2>{{ pair.title }}</h2>
{% for note in pair.notes %}<p>{{ note }}</p>{% endfor %}
<div class="wide" tabindex="0" role="region" aria-label="{{ pair.title }}">
<table><thead><tr>
{% for head in pair.heads %}<th scope="col">{{ head }}</th>{% endfor %}</tr></thead>
<tbody>{% for row in pair.rows %}<tr><th scope="row">{{ row[0] }}</th>
{% for cell in row[1:] %}<td class="number">{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table></div>
{% endfor %}
{% for note in alone %}<p>{{ note }}</p>{% endfor %}
{% endblock %}
"""


@dataclass(frozen=True)
class Compared:
    """A race in both folders."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]


def render_comparison(first: Path, second: Path) -> str:
    """A page of the races that both folders have: of one workload, scale and protocol."""
    a, b = _by_key(load(first)), _by_key(load(second))
    shared = [key for key in a if key in b]
    if not shared:
        raise LabError(f"{first} and {second} share no race of one workload, scale and protocol.")
    alone = [
        f"Only in {which}: {' '.join(key)}."
        for which, own, other in (("A", a, b), ("B", b, a))
        for key in own
        if key not in other
    ]
    pairs = [compare(a[key], b[key]) for key in shared]
    return render(TEMPLATE, names=(str(first), str(second)), pairs=pairs, alone=alone)


def _by_key(results: Sequence[Result]) -> dict[Key, Result]:
    """Of several races of one kind, that with the most trials, then the most seeds."""
    order = sorted(results, key=lambda one: (one.race.trials, one.race.seeds))
    return {(one.race.workload, one.race.scale, one.race.protocol): one for one in order}


def compare(a: Result, b: Result) -> Compared:
    """The two races beside each other, every optimizer of either."""
    metric = f"test {a.workload.metric}"
    names = dict.fromkeys(row.optimizer for one in (a, b) for row in one.rows)
    rows = []
    for name in names:
        both = (a.row(name), b.row(name))
        cells = [name, *(_score(row) for row in both), _change(*both)]
        cells += [_lr(row) for row in both]
        cells += [_verdict(row, one) for row, one in zip(both, (a, b), strict=True)]
        rows.append(tuple(cells))
    heads = ("optimizer", f"A: {metric}", f"B: {metric}", "change", "A: lr", "B: lr")
    notes = [f"A: {sentences.of_result(a)}", f"B: {sentences.of_result(b)}"]
    for what in ("code", "trials", "seeds", "search", "baseline", "margin"):
        values = [getattr(one.race, what) for one in (a, b)]
        if values[0] != values[1]:
            notes.append(f"Not the same: {what} ({values[0]} and {values[1]}).")
    if a.workload.metric != b.workload.metric:
        notes.append(f"Not the same: metric ({a.workload.metric} and {b.workload.metric}).")
    title = " ".join((a.race.workload, a.race.scale, a.race.protocol))
    return Compared(title, (*heads, "A: verdict", "B: verdict"), tuple(rows), tuple(notes))


def _score(row: Row | None) -> str:
    if row is None or row.score.mean is None:
        return "-"
    return plus_minus(row.score.mean, row.score.half, ".5g")


def _change(a: Row | None, b: Row | None) -> str:
    if a is None or b is None or a.score.mean is None or b.score.mean is None:
        return "-"
    gap = b.score.mean - a.score.mean
    text = amount(gap, max(a.score.half or 0.0, b.score.half or 0.0) or None)
    return f"+{text}" if gap > 0 else text


def _lr(row: Row | None) -> str:
    return "-" if row is None else number(row.settings.get("lr", "-"))


def _verdict(row: Row | None, result: Result) -> str:
    if row is None:
        return "-"
    if row.verdict is None:
        return "baseline" if row.optimizer == result.race.baseline else "-"
    return f"{row.verdict.kind} {difference(row.verdict)}".strip()
