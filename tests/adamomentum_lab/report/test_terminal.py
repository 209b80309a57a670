"""What a terminal shows of a race, in eighty columns."""

import io
from dataclasses import replace
from types import SimpleNamespace

from rich.console import Console

from adamomentum_lab import contenders
from adamomentum_lab.report.terminal import ranking_table, settings_in_words, statements
from adamomentum_lab.words import number
from adamomentum_paper.effects import effects
from tests.adamomentum_lab.race.test_judge import GOOD, NEAR, POOR, raced, ranked, run_of, workload


def test_settings_in_words():
    assert number(1e-3) == "0.001"
    assert number(1e-16) == "1e-16"
    assert number((0.9, 0.999)) == "(0.9, 0.999)"
    defaults = contenders.get("adamomentum").settings
    assert settings_in_words(defaults, "adamomentum") == "lr 0.001"
    changed = {**defaults, "weight_decay": 0.05, "betas": [0.9, 0.99]}
    words = "lr 0.001, weight decay 0.05, betas (0.9, 0.99)"
    assert settings_in_words(changed, "adamomentum") == words


def result_of(rows, effects):
    """What `statements` reads of a race's result."""
    race = SimpleNamespace(baseline="adamomentum")
    return SimpleNamespace(rows=rows, effects=effects, workload=workload(), race=race)


def test_statements_fit_a_page():
    rows = raced(adam=POOR, adamomentum=GOOD, eadam=NEAR)
    for width in (80, 50):
        lines = statements(result_of(rows, effects(rows, workload(), tuned=True)), width)
        assert max(map(len, lines.splitlines())) <= width
    assert "What the paper's changes do" in lines
    assert "\n- adam is worse than adamomentum:" in lines
    assert "What the paper" not in statements(result_of(rows, []))


def test_eighty_columns_cut_no_number_off():
    seeds = range(1, 11)
    finals = {
        name: [run_of(name, s, (90.0 + s, 85.0 + s), (98.0, 96.0 + s / 7 + i)) for s in seeds]
        for i, name in enumerate(("adamomentum", "adamomentum-rectified", "adam-translated"))
    }
    for runs in finals.values():  # one that misses the target
        runs[0] = replace(runs[0], epochs=runs[0].epochs[:-1])
    console = Console(width=80, file=io.StringIO())
    console.print(ranking_table(ranked(finals), workload(), "adamomentum"))
    text = console.file.getvalue()
    assert "\u2026" not in text
    assert "(9/10)" in text
