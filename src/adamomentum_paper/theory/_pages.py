"""Write the page, figure and numbers of a claim, and the index of all pages."""

from __future__ import annotations

import hashlib
import io
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import adamomentum
from adamomentum_lab import contenders
from adamomentum_lab.engine.environment import environment
from adamomentum_lab.files import dumps, make_folder, write
from adamomentum_lab.report.html import render
from adamomentum_paper import theory
from adamomentum_paper.theory import Size, TheoryClaim, Tick

# The numbers of a page depend on these, the optimizers, and torch.
_SOURCES = ("theory", "models", "data")


def make(claim: TheoryClaim, size: Size, folder: Path, tick: Tick) -> tuple[dict[str, Any], bool]:
    """Write NAME.json, NAME.png and NAME.html. Existing numbers are not computed again.

    Returns the content of the JSON file, and whether its numbers were computed now.
    """
    file = folder / f"{claim.name}.json"
    make_folder(folder)
    identity = f"{claim.name} {size} {_sources()}"
    report = _read(file)
    fresh = report.get("identity") != identity or "numbers" not in report
    if fresh:
        begun = time.perf_counter()
        numbers = _as_read(claim.compute(size, tick))
        machine = environment("cpu") | {"seconds": time.perf_counter() - begun}
        report = {"identity": identity, "numbers": numbers, "machine": machine}
    numbers = report["numbers"]
    findings = claim.judge(numbers)
    report |= _as_read(
        {
            "claim": claim.name,
            "notes": [" ".join(note.split()) for note in claim.notes.strip().split("\n\n")],
            "size": size,
            "verdict": theory.verdict(findings),
            "summary": theory.summary(findings),
            "findings": [asdict(finding) for finding in findings],
            "tables": [asdict(table) for table in claim.tables(numbers)],
        }
    )
    write(folder / f"{claim.name}.png", _figure(claim, numbers))
    write(folder / f"{claim.name}.html", render(_CLAIM, claim=claim, report=report))
    write(file, dumps(report, indent=1) + "\n")
    return report, fresh


def write_index(folder: Path) -> Path:
    """Write the list of all pages in a folder, with their verdicts."""
    made = [
        (claim, report)
        for claim in map(theory.get, theory.names())
        if (report := _read(folder / f"{claim.name}.json")).keys() >= {"verdict", "summary"}
    ]
    file = folder / "index.html"
    write(file, render(_INDEX, made=made))
    return file


def _as_read(value: dict[str, Any]) -> dict[str, Any]:
    """Pass a value through JSON, so that it is the same as when it is read from the file."""
    read: dict[str, Any] = json.loads(dumps(value))
    return read


def _read(file: Path) -> dict[str, Any]:
    """Read a JSON file. Return an empty dictionary if it is missing or damaged."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _sources() -> str:
    roots = [Path(__file__).parents[1] / name for name in _SOURCES]
    roots += [Path(path) for package in (adamomentum, contenders) for path in package.__path__]
    digest = hashlib.sha256()
    for file in sorted(file for root in roots for file in root.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _figure(claim: TheoryClaim, numbers: theory.Numbers) -> bytes:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    style: Any = {
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 10,
        "axes.titleweight": "bold",
        "legend.frameon": False,
        "legend.fontsize": 8.5,
        "lines.linewidth": 1.5,
        "savefig.dpi": 130,
    }
    buffer = io.BytesIO()
    with rc_context(style):
        figure = Figure(figsize=(11, 7.5), layout="constrained")
        claim.draw(numbers, figure)
        # No date or version of matplotlib: the same numbers give the same file.
        figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


_CLAIM = """{% macro word(text) %}<span class="word {{ text | replace(" ", "-") }}">{{ text }}</span>{% endmacro %}
{% block title %}{{ claim.title }}: {{ report.verdict }}{% endblock %}
{% block body %}
<p><a href="index.html">All claims</a></p>
<h1>{{ claim.title }}</h1>
<p class="verdict {{ report.verdict | replace(" ", "-") }}"><strong>{{ report.verdict | capitalize }}{{
  " ..." if report.verdict == "holds only when" }}</strong>: {{ report.summary }}</p>
<h2>What the paper says <small>({{ claim.place }})</small></h2>
<p>{{ claim.says }}</p>
<h2>What was done here</h2>
<p>{{ claim.done }}</p>
<h2>What was found</h2>
<div class="wide"><table class="findings">
<thead><tr><th scope="col">statement<th scope="col">verdict<th scope="col">found</tr></thead>
<tbody>
{% for finding in report.findings %}
<tr><td>{{ finding.statement }}<td>{{ word(finding.word) }}<td>{{ finding.found }}</tr>
{% endfor %}
</tbody></table></div>
<p><img src="{{ claim.name }}.png" alt="Figure: {{ claim.title }}. Its numbers are in the tables below."></p>
{% for table in report.tables %}
<div class="wide"><table>
<caption>{{ table.title }}</caption>
<thead><tr>{% for column in table.columns %}<th scope="col">{{ column }}{% endfor %}</tr></thead>
<tbody>
{% for row in table.rows %}
<tr>{% for value in row %}<td{{ ' class="number"' | safe if value is number }}>{{ value | shown }}{% endfor %}</tr>
{% endfor %}
</tbody></table></div>
{% endfor %}
<h2>Notes</h2>
<ul>
{% for note in report.notes %}
<li>{{ note }}</li>
{% endfor %}
</ul>
<footer><p>Made by <code>adamomentum theory {{ claim.name }}{{ " --paper" if report.size == "paper" }}</code>
in {{ report.machine.seconds | round(1) }} s; adamomentum {{ report.machine.adamomentum }},
torch {{ report.machine.torch }}. Every number: <a href="{{ claim.name }}.json">{{ claim.name }}.json</a>.</p></footer>
{% endblock %}
"""  # noqa: E501

_INDEX = """{% block title %}The theory of AdaMomentum, tested{% endblock %}
{% block body %}
<h1>The theory of AdaMomentum, tested</h1>
<p>The claims of sections 3 and 4 of "Rethinking Adam: A Twofold Exponential Moving Average
Approach", and those of its toy experiments, are simulated or measured here. Fixed rules in the code
derive each verdict from the numbers on its page.</p>
<div class="wide"><table>
<thead><tr><th scope="col">claim<th scope="col">where<th scope="col">verdict</tr></thead>
<tbody>
{% for claim, report in made %}
<tr><td><a href="{{ claim.name }}.html">{{ claim.title }}</a><td>{{ claim.place }}
<td><span class="word {{ report.verdict | replace(" ", "-") }}">{{ report.verdict }}{{
  " ..." if report.verdict == "holds only when" }}</span><br>{{ report.summary }}</tr>
{% endfor %}
</tbody></table></div>
{% endblock %}
"""
