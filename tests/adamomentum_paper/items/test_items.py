"""The paper's tables and figures, from runs of the embedded digits in place of the paper's."""

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from adamomentum_lab.engine.store import Run, Store
from adamomentum_lab.selection import reported_epoch
from adamomentum_paper.items import catalog, tables
from adamomentum_paper.items.catalog import Item
from adamomentum_paper.items.cells import Spread, collect
from adamomentum_paper.items.curves import curve_of
from adamomentum_paper.items.plans import plans_of
from adamomentum_paper.published import PAPER, Published
from tests.adamomentum_lab.command_line import no_workers, run_here  # noqa: F401

COLUMNS = {"adam": "Adam", "adamomentum": "Ours"}
DIGITS = {"digits_mlp": "MLP"}


@pytest.fixture
def digits(monkeypatch):
    """A table and a figure of the digits."""
    table = Item("table2", "accuracy on digits", "scores", DIGITS, COLUMNS, seeds=2)
    figure = Item(
        "figure4", "curves on digits", "curves", DIGITS, COLUMNS, needs="table2", split="train test"
    )
    monkeypatch.setitem(catalog.ITEMS, "table2", table)
    monkeypatch.setitem(catalog.ITEMS, "figure4", figure)
    theirs = Published("accuracy", {"adam": (95.0, 0.1), "adamomentum": (96.0, 0.2)})
    monkeypatch.setitem(PAPER, "digits_mlp", theirs)
    return table


def test_every_published_result_has_a_cell():
    cells = {
        (name, optimizer)
        for item in catalog.ITEMS.values()
        if item.kind == "scores"
        for name in item.rows
        for optimizer in item.columns
    }
    assert cells == {(name, one) for name, row in PAPER.items() for one in row.values}


@pytest.mark.parametrize("name", [*catalog.PUBLISHED_SETTINGS])
def test_the_protocol_paper_has_the_settings_that_the_paper_prints(name):
    for row in tables.settings(catalog.get(name), "paper")["rows"]:
        assert row["here"] == row["paper"], row["setting"]


def test_list():
    done = run_here("paper", "list")
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in catalog.ITEMS)
    listed = json.loads(run_here("paper", "list", "--json").stdout)["items"]
    assert listed["table2"]["runs"] == 3 * 8 * 5
    assert listed["table3"]["runs"] == 3 * 3
    assert "adamw" not in listed["table5"]["optimizers"]


@pytest.mark.usefixtures("no_workers")
def test_a_table_and_its_figure(digits, tmp_path):
    runs, out = tmp_path / "runs", tmp_path / "out"
    places = ["--scale", "smoke", "--runs", runs, "--out", out]
    # Half finished: one column of two, then all.
    done = run_here("paper", "run", "table2", *places, "--optimizers", "adam")
    assert done.returncode == 0, done.stderr
    assert "2 runs, " in done.stderr
    found = json.loads(run_here("paper", "show", "table2", *places, "--json").stdout)
    columns = found["rows"][0]["columns"]
    assert columns["adam"]["seeds"] == 2
    assert columns["adamomentum"]["here"] is None
    assert any("Ours 0" in note for note in found["notes"])

    done = run_here("paper", "run", "table2", *places, "--no-check")
    assert done.returncode == 0, done.stderr
    assert "95.00" in done.stdout
    assert "±0.10" in done.stdout
    cells = collect(digits, "smoke", "paper", runs)
    stored = [one for one in Store(runs).all() if one.spec.optimizer == "adamomentum"]
    by = cells["digits_mlp", "adamomentum"].by
    scores = [reported_epoch(one, by)["test"]["accuracy"] for one in stored]
    found = json.loads(run_here("paper", "show", "table2", *places, "--json").stdout)
    here = found["rows"][0]["columns"]["adamomentum"]["here"]
    assert here["mean"] == pytest.approx(sum(scores) / 2)
    assert here["deviation"] == pytest.approx(abs(scores[0] - scores[1]) / 2)

    done = run_here("paper", "show", "figure4", *places)
    assert done.returncode == 0, done.stderr
    assert {file.suffix for file in out.iterdir()} == {".png", ".svg", ".html", ".json"}
    ElementTree.parse(out / "figure4.svg")
    panels = json.loads((out / "figure4.json").read_text(encoding="utf-8"))["panels"]
    assert [panel["title"] for panel in panels] == ["MLP: train accuracy", "MLP: test accuracy"]
    curve = [one["train"]["accuracy"] for one in stored[0].epochs]
    assert curve_of(stored[0], "train", "accuracy") == curve
    assert set(panels[0]["lines"]) == {"adam", "adamomentum"}


def test_runs_on_other_devices_are_named_as_such(digits, tmp_path):
    store = Store(tmp_path)
    [(_, plan)] = plans_of(digits, "smoke", "paper").values()
    spec = replace(plan.race.spec("adam", plan.starts["adam"], 1), device="cuda", devices="4 ddp")
    assert spec.id != replace(spec, device="").id
    record = {"epoch": 1, "train": {"loss": 1.0}, "test": {"accuracy": 90.0}}
    store.begin(spec, {})
    store.finish(Run(spec, "done", [record], [1.0]))
    found = tables.scores(digits, collect(digits, "smoke", "paper", tmp_path))
    assert found["rows"][0]["columns"]["adam"]["here"]["mean"] == 90.0
    said = tables.notes(digits, found, "smoke", "paper")
    assert "MLP: Adam on cuda 4 ddp." in said


@pytest.mark.usefixtures("digits")
def test_without_results(tmp_path):
    done = run_here("paper", "show", "table2", "--runs", tmp_path / "none")
    assert done.returncode == 1
    assert "there are no results" in done.stderr
    done = run_here("paper", "show", "figure5", "--runs", tmp_path)
    assert done.returncode == 1
    assert "adamomentum paper run figure5" in done.stderr
    wrong = run_here("paper", "show", "table22")
    assert wrong.returncode == 2
    assert "table2" in wrong.stderr


def test_tables_that_need_no_runs():
    assert "m_i^2" in run_here("paper", "show", "table1").stdout
    assert "1.2e-4" in run_here("paper", "show", "table9").stdout.replace("0.00012", "1.2e-4")


def test_missing_data_is_told_before_the_first_run(tmp_path):
    done = run_here(
        "paper", "run", "table5", "--scale", "full", "--runs", tmp_path / "runs",
        env={"ADAMOMENTUM_DATA": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 1
    assert "Inception" in done.stderr
    assert Store(tmp_path / "runs").all() == []


def test_spread_is_that_of_the_population():
    assert Spread.of([1.0, 3.0]) == Spread(2.0, 1.0)
    assert Spread.of([1.0]) == Spread(1.0, None)
    assert Spread.of([]) is None


def test_train_perplexity_is_that_of_the_cross_entropy():
    class Run:
        epochs = ({"train": {"loss": 5.0, "cross_entropy": 0.0}}, {"train": {"loss": 5.0}})
        status = "done"

    first, second = curve_of(Run, "train", "perplexity")
    assert first == 1.0
    assert second != second
