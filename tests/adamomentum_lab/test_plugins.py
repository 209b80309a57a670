"""The lab with plugins, with broken ones, and without any."""

import json
import subprocess
import sys

import pytest

from adamomentum_lab import catalog, contenders, plugins, rules
from adamomentum_lab.errors import LabError
from adamomentum_lab.problems.digits_mlp import DigitsMLP
from adamomentum_lab.race.search import space_of
from adamomentum_lab.space import DECADES_OF_LR

ALONE = """
import sys

class Absent:
    def find_spec(name, *_):
        if name.partition(".")[0] == "adamomentum_paper":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent)
from adamomentum_lab.cli import main
main()
"""


@pytest.fixture
def alone(monkeypatch):
    monkeypatch.setattr(plugins, "plugins", lambda: ())


def test_the_lab_alone_has_its_own_problems_and_protocol(alone):
    assert {"digits_cnn", "digits_mlp"} <= {*catalog.workload_names()}
    assert all(catalog.find_workload(name).module for name in catalog.workload_names())
    assert not any(name.startswith(("cifar10", "ptb")) for name in catalog.workload_names())
    assert list(rules.protocols()) == ["fair"]
    with pytest.raises(LabError, match="there is no protocol 'paper'; there are fair"):
        rules.get("paper")


def test_the_lab_alone_searches_the_space_of_each_contender(alone):
    mine = type("Mine", (DigitsMLP,), {"spaces": {}})
    for name in contenders.names():
        assert space_of(contenders.get(name), mine) == {"lr": DECADES_OF_LR}
    with pytest.raises(LabError, match="there are no values of eps to search for adam"):
        space_of(contenders.get("adam"), mine, ["lr", "eps"])


@pytest.mark.slow
def test_a_race_works_without_the_paper(tmp_path):
    words = "race digits_mlp --optimizers adam,adamomentum --trials 2 --seeds 2 --scale smoke"
    done = subprocess.run(
        [sys.executable, "-c", ALONE, *words.split(), "--json", "--runs", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    race = json.loads(done.stdout)
    assert {row["optimizer"] for row in race["ranking"]} == {"adam", "adamomentum"}
    assert "effects" not in race
    for words in (["list"], ["report", "--runs", str(tmp_path)]):
        done = subprocess.run(
            [sys.executable, "-c", ALONE, *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    done = subprocess.run(
        [sys.executable, "-c", ALONE, "theory"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "No such command 'theory'" in done.stderr


def test_a_broken_plugin_is_named(monkeypatch):
    class Point:
        name, module, value = "mine", "mine.plugin", "mine.plugin:PLUGIN"

        def __init__(self, result):
            self.result = result

        def load(self):
            if isinstance(self.result, Exception):
                raise self.result
            return self.result

    def load(result):
        plugins.plugins.cache_clear()
        monkeypatch.setattr(plugins.metadata, "entry_points", lambda group: [Point(result)])
        return plugins.plugins()

    try:
        with pytest.raises(LabError, match=r"the plugin 'mine\.plugin:PLUGIN' needs scipyy"):
            load(ModuleNotFoundError("No module named 'scipyy'", name="scipyy"))
        with pytest.raises(LabError, match=r"is not an adamomentum_lab\.plugins\.Plugin"):
            load({"workloads": "mine"})
        assert load(ModuleNotFoundError("No module named 'mine'", name="mine")) == ()
        assert load(plugins.Plugin(workloads="mine")) == (plugins.Plugin(workloads="mine"),)
    finally:
        monkeypatch.undo()
        plugins.plugins.cache_clear()
