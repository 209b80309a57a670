"""A stored run counts only while nothing that made its numbers has changed: each kind of change."""

import json
import os
import shutil
import sys
from importlib import metadata

import pytest
import torch

from tests.adamomentum_lab.command_line import run_here

PROBLEM = """
import sys
from pathlib import Path

import torch
from torch import nn

from adamomentum_lab import Data, Workload

HERE = Path(__file__).parent
{top}


class Houses(Workload):
    '''A line through points.'''
    epochs = {{"smoke": 1, "mini": 2, "full": 2}}
    {line}

    def data(self):
        slope = {slope}
        x = torch.linspace(-1, 1, 32)[:, None]
        return Data((x, slope * x), (x, slope * x), (x, slope * x))

    def model(self):
        model = nn.Linear(1, 1)
        {model}
        return model

    def loss(self, model, batch):
        return nn.functional.mse_loss(model(batch[0]), batch[1])
"""
READ = 'float((HERE / "houses.csv").read_text())'


@pytest.fixture(autouse=True)
def own_path(monkeypatch):
    """Users' files add folders to sys.path and modules of their own."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("near", "far", "package", "lab_of_mine"):
            del sys.modules[name]


@pytest.fixture
def folder(tmp_path):
    """Of the user's: a problem's file, data, modules."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "houses.csv").write_text("2.0")
    (folder / "near.py").write_text("SLOPE = 2.0\n")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "far.py").write_text("SLOPE = 2.0\n")
    return folder


def write(folder, top="", slope="2.0", line="", model=""):
    (folder / "line.py").write_text(
        PROBLEM.format(top=top, slope=slope, line=line or "margin = None", model=model or "pass")
    )


def train(folder, *more, runs=None):
    done = run_here(
        *("train", folder / "line.py", "--optimizer", "adam", "--scale", "smoke", "--json"),
        *("--runs", runs or folder.parent / "runs", *more),
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def is_reused(folder, change=lambda: None, numbers=True):
    """Whether a run that is stored before a change counts after it; and that it counts without."""
    first, _ = train(folder)
    again, _ = train(folder)
    assert first == again
    change()
    after, _ = train(folder)
    if after["machine"] == first["machine"]:
        return True
    assert (after["epochs"] != first["epochs"]) == numbers
    return False


def replace(file, old="2.0", new="3.0"):
    def change():
        file.write_text(file.read_text().replace(old, new))

    return change


def test_the_users_file(folder):
    write(folder)
    assert not is_reused(folder, replace(folder / "line.py"))


def test_a_module_beside_it(folder):
    write(folder, "from near import SLOPE", "SLOPE")
    assert not is_reused(folder, replace(folder / "near.py"))


def test_a_module_that_it_adds_a_folder_for(folder):
    write(folder, "sys.path.insert(0, str(HERE.parent / 'lib'))\nfrom far import SLOPE", "SLOPE")
    assert not is_reused(folder, replace(folder.parent / "lib" / "far.py"))


def test_a_module_with_a_computed_name(folder):
    write(folder, "import importlib\nname = 'ne' + 'ar'", "importlib.import_module(name).SLOPE")
    assert not is_reused(folder, replace(folder / "near.py"))


def test_a_file_that_data_reads(folder):
    write(folder, slope=READ)
    assert not is_reused(folder, replace(folder / "houses.csv"))


def test_a_file_that_is_gone(folder):
    write(folder, slope=f'{READ} if (HERE / "houses.csv").exists() else 1.0')
    assert not is_reused(folder, (folder / "houses.csv").unlink)


def test_a_file_that_model_reads(folder):
    write(folder, model=f"model.weight.data.fill_({READ})")
    assert not is_reused(folder, replace(folder / "houses.csv"))


def test_a_file_that_is_read_when_the_users_file_is_imported(folder):
    write(folder, f"SLOPE = {READ}", "SLOPE")
    assert not is_reused(folder, replace(folder / "houses.csv"))


def test_a_file_that_an_earlier_run_of_the_process_has_read(folder):
    """As where data is cached: the second run opens nothing."""
    write(folder, f"import functools\nread = functools.cache(lambda: {READ})", "read()")
    from adamomentum_lab.catalog import find_workload
    from adamomentum_lab.engine.inline import Inline
    from adamomentum_lab.engine.job import Job
    from adamomentum_lab.engine.spec import Spec
    from adamomentum_lab.engine.store import Store

    def run(seed, store):
        reference = find_workload(str(folder / "line.py"))
        shared = {"workload": "line", "code": reference.code, "scale": "smoke", "protocol": "fair"}
        spec = Spec.of({"lr": 0.1}, optimizer="adam", seed=seed, **shared)
        [run] = Inline(store).run([Job(spec, reference, store.folder_of(spec))])
        return run.epochs, run.seconds

    store = Store(folder.parent / "runs")
    run(1, store)
    second = run(2, store)
    assert run(2, store) == second
    replace(folder / "houses.csv")()
    sys.modules.pop("_workload_line", None)
    assert run(2, store)[0] != second[0]


@pytest.mark.parametrize("declared", ["houses.csv", "."])
def test_a_file_that_the_workload_declares(folder, declared):
    """Here one that no hook sees."""
    text = 'subprocess.run(["cat", HERE / "houses.csv"], capture_output=True).stdout'
    write(folder, "import subprocess", f"float({text})", line=f'reads = ("{declared}",)')
    assert not is_reused(folder, replace(folder / "houses.csv"))


def test_a_file_that_joins_those_of_a_folder(folder):
    write(folder, slope='sum(float(file.read_text()) for file in HERE.glob("*.csv"))')
    assert not is_reused(folder, lambda: (folder / "more.csv").write_text("1.0"))


def test_a_large_file_counts_by_size_and_time(folder, monkeypatch):
    monkeypatch.setattr("adamomentum_lab.inputs.LIMIT", 2)
    write(folder, slope=READ)
    assert not is_reused(folder, replace(folder / "houses.csv", new="3.00"))
    before = (folder / "houses.csv").stat()
    replace(folder / "houses.csv", old="3.00", new="4.00")()
    os.utime(folder / "houses.csv", ns=(before.st_atime_ns, before.st_mtime_ns + 10**9))
    assert train(folder)[0]["epochs"] == train(folder, runs=folder.parent / "third")[0]["epochs"]


def version_of(package, number):
    """The version of an installed package as it might be one day."""
    known = metadata.version

    def version(name):
        return number if name == package else known(name)

    return version


@pytest.mark.parametrize("package", ["torch", "numpy"])
def test_the_version_of_an_installed_package(folder, monkeypatch, package):
    write(folder, "import numpy")
    newer = version_of(package, "99.0")
    assert not is_reused(
        folder, lambda: monkeypatch.setattr(metadata, "version", newer), numbers=False
    )


def test_the_number_of_the_training_code(folder, monkeypatch):
    write(folder)

    def change():
        monkeypatch.setattr("adamomentum_lab.identity.NUMBERS", 1_000)

    assert not is_reused(folder, change, numbers=False)


def test_a_moved_folder_and_a_touched_file_change_nothing(folder):
    write(folder, "from near import SLOPE", f"SLOPE * {READ}")
    assert is_reused(folder, lambda: os.utime(folder / "houses.csv"))
    moved = folder.parent / "moved" / "deeper"
    shutil.copytree(folder, moved)
    shutil.copytree(folder.parent / "runs", moved.parent / "runs")
    first, _ = train(folder)
    shutil.rmtree(folder)
    sys.modules.pop("near")
    assert train(moved)[0]["machine"] == first["machine"]


def test_what_runs_leave_behind_changes_nothing(folder):
    """Results among the user's files, which data() looks through."""
    write(folder, slope='float([*HERE.rglob("*.csv")][0].read_text())')
    runs = folder / "runs"
    first, _ = train(folder, runs=runs)
    (folder / "report.html").write_text("")
    (folder / "unused.py").write_text("")
    assert train(folder, runs=runs)[0] == first


def test_what_data_writes_itself_changes_nothing(folder):
    write(folder, slope="made(HERE)")
    text = (folder / "line.py").read_text()
    (folder / "line.py").write_text(
        text.replace(
            "class Houses",
            "def made(folder):\n"
            "    import tempfile, time\n"
            "    cache = folder / 'cache.csv'\n"
            "    cache.write_text(f'{time.time_ns()}')\n"
            "    with tempfile.NamedTemporaryFile() as file:\n"
            "        Path(file.name).read_text()\n"
            "    return 2.0 if cache.read_text() else 1.0\n\n\nclass Houses",
        )
    )
    assert is_reused(folder)


def test_the_lines_say_what_has_changed(folder):
    write(folder, slope=READ)
    assert "changed" not in train(folder)[1]
    replace(folder / "houses.csv")()
    assert "houses.csv has changed: 1 stored run does not count." in train(folder)[1]
    assert "changed" not in train(folder)[1]
    replace(folder / "line.py", "(-1, 1,", "(-1, 2,")()
    assert "line.py has changed: 1 stored run does not count." in train(folder)[1]


def test_a_run_that_was_stopped_is_not_continued_with_other_data(folder):
    write(folder, slope=READ, line="averaged = 1")
    train(folder, "--epochs", 1, "--scale", "mini")
    replace(folder / "houses.csv")()
    after, _ = train(folder, "--scale", "mini")
    assert after["epochs"] == train(folder, "--scale", "mini", runs=folder / "new")[0]["epochs"]


def race(folder, *more, status=0):
    done = run_here(
        *("race", folder / "line.py", "--optimizers", "adam,sgdm", "--trials", 3, "--seeds", 2),
        *("--certify", 0, "--scale", "smoke", "--runs", folder.parent / "runs", *more),
    )
    assert done.returncode == status, done.stderr
    return done.stdout, done.stderr


def test_a_race_tells_what_has_changed_and_repeats_the_runs(folder, no_workers):
    write(folder, slope=READ)
    first = json.loads(race(folder, "--json")[0])["runs"]
    out, err = race(folder, "--json")
    assert json.loads(out)["runs"] == first
    assert "changed" not in err
    replace(folder / "houses.csv")()
    line = f"houses.csv has changed: {len(first)} stored runs do not count."
    assert line in race(folder, "--dry-run")[0].splitlines()
    out, err = race(folder, "--json")
    assert line in err.splitlines()
    ids = {run["id"]: run["epochs"] for run in first}
    for run in json.loads(out)["runs"]:
        assert run["epochs"] != ids.get(run["id"])
    assert "changed" not in race(folder)[1]


def test_a_fresh_race_repeats_every_run_once(folder, no_workers):
    write(folder)
    first = json.loads(race(folder, "--json")[0])["runs"]
    fresh = json.loads(race(folder, "--json", "--fresh")[0])["runs"]
    for one, other in zip(first, fresh, strict=True):
        assert one["epochs"] == other["epochs"]
        assert one["machine"]["seconds"] != other["machine"]["seconds"]
    assert json.loads(race(folder, "--json")[0])["runs"] == fresh


def test_a_fresh_race_with_halving_continues_its_own_trials(folder, no_workers):
    write(folder, line="epochs = 4")
    listed = ("--search", "grid", "--halving", "--json", "--fresh")
    done = json.loads(race(folder, *listed)[0])["runs"]
    assert {run["trained"] for run in done if run["stage"] == "tuning"} > {4}
    assert [run["epochs"] for run in json.loads(race(folder, *listed)[0])["runs"]] == [
        run["epochs"] for run in done
    ]


def explained(err):
    """By the kind of the decision, the reasons that were told."""
    found = {}
    for line in err.splitlines():
        for words in (" is reused: ", " is run: ", " goes on: "):
            if words in line:
                found.setdefault(words.strip(" :"), []).append(line.partition(words)[2])
    return found


def test_a_race_explains_each_run(folder, no_workers):
    """Those that are known before, and those that follow as the search decides."""
    write(folder, slope=READ)
    out, err = race(folder, "--json", "--explain")
    count = len(json.loads(out)["runs"])
    assert explained(err) == {
        "is run": ["no run of these settings and this seed is stored."] * count
    }
    assert explained(race(folder, "--explain")[1]) == {
        "is reused": ["nothing that its numbers depend on has changed."] * count
    }
    replace(folder / "houses.csv")()
    before = race(folder, "--explain", "--dry-run")[0]
    assert explained(before) == {"is run": ["houses.csv has changed."] * 2}
    reasons = explained(race(folder, "--explain")[1])["is run"]
    assert "houses.csv has changed." in reasons
    replace(folder / "line.py", "(-1, 1,", "(-1, 2,")()
    reasons = explained(race(folder, "--explain")[1])["is run"]
    assert "line.py has changed." in reasons
    _, err = race(folder, "--explain", "--fresh")
    assert {*explained(err)["is run"]} <= {
        "stored runs are ignored (--fresh).", "no run of these settings and this seed is stored.",
    }  # fmt: skip


def test_data_that_changes_while_runs_are_under_way_ends_the_race(folder, no_workers):
    write(folder, slope=READ)
    text = (folder / "line.py").read_text()
    change = "        (HERE / 'houses.csv').write_text(str(torch.initial_seed()))\n"
    (folder / "line.py").write_text(
        text.replace("    def loss(", f"    def evaluate(self, *more):\n{change}"
        "        return super().evaluate(*more)\n\n    def loss(")
    )  # fmt: skip
    _, err = race(folder, status=1)
    assert "houses.csv changed while runs were under way" in err


OPTIMIZER = """
import torch

class Mine(torch.optim.SGD):
    def __init__(self, params, lr=0.1):
        super().__init__(params, lr * 1.0)
"""


def test_the_file_of_the_users_optimizer(folder):
    """Wherever it is."""
    write(folder)
    for name in ("one", "other"):
        (folder / name).mkdir()
        (folder / name / "mine.py").write_text(OPTIMIZER)

    def run(name):
        return train(folder, "--optimizer", f"{folder / name / 'mine.py'}:Mine")

    first, _ = run("one")
    assert run("other")[0] == first
    replace(folder / "other" / "mine.py", "lr * 1.0", "lr * 2.0")()
    second, said = run("other")
    assert second["epochs"] != first["epochs"]
    assert "mine.py has changed: 1 stored run does not count." in said
    assert run("one")[0] == first


def test_the_version_of_the_package_of_an_optimizer(folder, monkeypatch):
    write(folder)
    first, _ = train(folder, "--optimizer", "torch.optim.SGD")
    assert train(folder, "--optimizer", "torch.optim.SGD")[0] == first
    monkeypatch.setattr(torch, "__version__", "99.0")
    again, said = train(folder, "--optimizer", "torch.optim.SGD")
    assert again["machine"]["seconds"] != first["machine"]["seconds"]
    assert "has changed: 1 stored run does not count." in said
