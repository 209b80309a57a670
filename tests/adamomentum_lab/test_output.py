"""Output that is gone, closed, full, narrow or ASCII ends no command."""

import io
import os
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from adamomentum_lab.report.terminal import ranking_table
from tests.adamomentum_lab.command_line import ROOT, words_of
from tests.adamomentum_lab.problems import write_problem
from tests.tools.made import race_of as made_race


@pytest.fixture(scope="module")
def raced(tmp_path_factory):
    """A race whose runs are finished, so that the command only shows it."""
    folder = tmp_path_factory.mktemp("raced")
    words = ["race", write_problem(folder), "--optimizers", "adamw,adamomentum", "--trials", 0]
    words += ["--seeds", 2, "--scale", "smoke", "--runs", folder / "runs"]
    done = shell(words, "")
    assert done.returncode == 0, done.stderr
    return words


def shell(words, redirected, **env):
    command = " ".join(f"'{word}'" for word in words_of(words))
    return subprocess.run(
        ["bash", "-c", f"{command} {redirected}"],
        capture_output=True, text=True, check=False, cwd=ROOT, env={**os.environ, **env},
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("output", "redirected", "status", "said"),
    [
        ("", ">/dev/full", 1, "cannot write to standard output (No space left on device); what"),
        ("--json", ">&-", 1, "cannot write to standard output (it is closed); what was done is"),
        ("--json", "2>&1 >/dev/null | head -0; exit ${PIPESTATUS[0]}", 0, ""),
        ("", "2>&-", 0, ""),
    ],
)
def test_output_that_is_gone_ends_no_race(raced, output, redirected, status, said):
    record = next(Path(raced[-1]).glob("races/*/race.json"))
    record.unlink(missing_ok=True)
    done = shell([*raced, *filter(None, [output])], redirected)
    assert (done.returncode, "Traceback" in done.stderr) == (status, False), done.stderr
    assert "Exception ignored" not in done.stderr
    assert said in done.stderr
    assert record.exists()


@pytest.mark.slow
@pytest.mark.parametrize("width", ["0", "x", "40"])
def test_any_width(raced, width):
    done = shell(raced, "", COLUMNS=width, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "adamomentum" in done.stdout
    assert "adamw" in done.stdout
    assert "\\u2026" not in done.stdout  # nothing is cut


def test_a_narrow_table_becomes_lines():
    race = made_race({"adamomentum": [98.0, 98.2, 98.1], "adam": [94.0, 94.3, 94.1]})
    for width, lines in ((40, True), (80, False)):
        out = io.StringIO()
        table = ranking_table(race.rows, race.workload, race.race.baseline, width=width)
        Console(file=out, width=width).print(table)
        text = out.getvalue()
        assert ("98.10" in text, "…" in text) == (True, False)
        assert (": test accuracy 98.10" in text.replace("\n", " ")) == lines
