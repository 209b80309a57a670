"""What a terminal shows of a race, in eighty columns."""

import io

from rich.console import Console

from adamomentum_lab import contenders
from adamomentum_lab.report.settings import settings_in_words
from adamomentum_lab.report.terminal import ranking_table, statements
from adamomentum_lab.words import number
from tests.tools.made import race_of

GOOD, POOR = [98.0, 98.2, 98.1, 98.3, 98.0], [94.0, 94.3, 94.1, 94.2, 93.9]
NEAR = [98.3, 97.9, 98.2, 98.0, 98.1]


def test_settings_in_words():
    assert number(1e-3) == "0.001"
    assert number(1e-16) == "1e-16"
    assert number((0.9, 0.999)) == "(0.9, 0.999)"
    defaults = contenders.get("adamomentum").settings
    assert settings_in_words(defaults, "adamomentum") == "lr 0.001"
    changed = {**defaults, "weight_decay": 0.05, "betas": [0.9, 0.99]}
    words = "lr 0.001, weight decay 0.05, betas (0.9, 0.99)"
    assert settings_in_words(changed, "adamomentum") == words
    # The form of weight decay says nothing where there is none.
    assert settings_in_words({"lr": 0.1, "decoupled_weight_decay": True}, "sgdm") == "lr 0.1"
    decayed = {"lr": 0.1, "decoupled_weight_decay": True, "weight_decay": 0.1}
    words = "lr 0.1, weight decay 0.1, decoupled weight decay True"
    assert settings_in_words(decayed, "sgdm") == words


def test_statements_fit_a_page():
    scores = {"adam": POOR, "adamomentum": GOOD, "eadam": NEAR}
    result = race_of(scores, spec={"trials": 0})
    for width in (80, 50):
        lines = statements(result, width)
        assert max(map(len, lines.splitlines())) <= width
    assert "What single changes do" in lines
    words = "- adamomentum scores better than adam at their defaults, untuned: test accuracy"
    assert words in " ".join(lines.split())
    plain = race_of({"adam": POOR, "yogi": GOOD}, spec={"trials": 0})
    assert "What single changes do" not in statements(plain)


def test_eighty_columns_cut_no_number_off():
    names = ("adamomentum", "adamomentum-rectified", "adam-translated")
    scores = {name: [96.0 + seed / 7 + i for seed in range(1, 11)] for i, name in enumerate(names)}
    scores["adam-translated"][0] = None
    result = race_of(scores, spec={"trials": 0})
    console = Console(width=80, file=io.StringIO())
    console.print(ranking_table(result.rows, result.workload, result.race.baseline))
    text = console.file.getvalue()
    assert "\u2026" not in text
    for words in ("difference to adamomentum", "baseline", "undecided", "better"):
        assert words in " ".join(text.split())
    assert "adam-translated: 1 of 10 runs diverged." in text
