"""Real processes of `adamomentum race`: workers, a kill, Ctrl-C, and results alone on stdout."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from adamomentum_lab.files import dumps
from adamomentum_lab.race.record import Record
from adamomentum_lab.race.result import Result
from adamomentum_lab.report.data import as_json
from tests.adamomentum_lab.command_line import (
    InlinePool,
    run_here,
    run_process,
    start_process,
    without_machine,
)
from tests.adamomentum_lab.contenders.user_optimizers import OWN, write_lion
from tests.adamomentum_lab.problems import write_problem

pytestmark = pytest.mark.slow
FAST = {"SECONDS_PER_UPDATE": "0"}
RACE = ["--optimizers", "sgdm,adam,adamomentum", "--trials", "2", "--seeds", "3"]


def test_race(tmp_path, monkeypatch):
    file = write_problem(tmp_path)
    runs = tmp_path / "runs"
    done = run_process("race", file, *RACE, "--runs", runs, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    facts = ["format", "spec", "workload", "search", "runs", "looks", "sampling", "caveats"]
    facts += ["machine", "digits"]
    assert list(result) == [*facts, "headline", "verdicts", "continue", "ranking", "tuning"]
    assert [row["rank"] for row in result["ranking"]] == [1, 2, 3]
    stages = [run["stage"] for run in result["runs"]]
    assert (stages.count("tuning"), stages.count("final")) == (6, 9)
    assert {run["spec"]["seed"] for run in result["runs"] if run["stage"] == "tuning"} == {0}
    assert "[6/15] tuning: " in done.stderr
    assert "[15/15] final: " in done.stderr
    # What was chosen is the better of the trials, on validation.
    for row in result["ranking"]:
        tried = [
            run
            for run in result["runs"]
            if run["stage"] == "tuning" and run["spec"]["optimizer"] == row["optimizer"]
        ]
        (chosen,) = (run for run in tried if run["spec"]["settings"] == row["settings"])
        best = [max(e["validation"]["accuracy"] for e in run["epochs"]) for run in tried]
        assert max(best) == max(e["validation"]["accuracy"] for e in chosen["epochs"])

    again = run_process("race", file, *RACE, "--runs", runs, "--json")
    assert again.stdout == done.stdout
    monkeypatch.setattr("adamomentum_lab.engine.local.Local", InlinePool)
    elsewhere = run_here("race", file, *RACE, "--runs", tmp_path / "b", "--jobs", "1", "--json")
    assert without_machine(json.loads(elsewhere.stdout)) == without_machine(result)

    (folder,) = (runs / "races").iterdir()
    record = json.loads((folder / "race.json").read_text())
    assert record == {key: result[key] for key in facts}
    assert Record.read(folder / "race.json") == Record.from_json(result)
    assert json.loads(dumps(as_json(Result.read(folder / "race.json")))) == result
    with (folder / "ranking.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["optimizer"] for row in rows] == [r["optimizer"] for r in result["ranking"]]
    assert [row["verdict"] or None for row in rows] == [
        row["verdict"] and row["verdict"]["kind"] for row in result["ranking"]
    ]
    with (folder / "runs.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 15
    assert all((row["test accuracy"] == "") == (row["stage"] == "tuning") for row in rows)

    words = run_here("race", file, *RACE, "--runs", runs, env={"COLUMNS": "80"})
    # The command that continues is in one line, to be copied.
    lines = [one for one in words.stdout.splitlines() if not one.startswith("To decide")]
    assert max(map(len, lines)) <= 80
    assert "adamomentum" in words.stdout
    assert "Mean over seeds" in words.stdout
    for row in result["ranking"]:
        assert (row["verdict"] is None) == (row["optimizer"] == result["spec"]["baseline"])
        assert len(row["sensitivity"]["expected_best"]) == 2
        assert row["verdict"] is None or row["verdict"]["sentence"] in " ".join(
            words.stdout.split()
        )


def test_a_race_with_halving_survives_a_kill(no_workers, tmp_path):
    file = write_problem(tmp_path, "slow")
    args = ["race", file, "--optimizers", "adam,adamomentum", "--trials", "4", "--seeds", "1"]
    args += ["--search", "grid", "--halving", "--scale", "full"]  # twenty epochs
    process = start_process(*args, "--runs", tmp_path / "runs", env={"SECONDS_PER_UPDATE": "0.01"})
    for line in process.stderr:
        if line.startswith("[9/"):  # in the second rung
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=120)
    done = run_process(*args, "--runs", tmp_path / "runs", "--json", env=FAST)
    assert done.returncode == 0, done.stderr
    assert "begun already" in done.stderr
    fresh = run_here(*args, "--runs", tmp_path / "other", "--json", env=FAST)
    assert without_machine(json.loads(done.stdout)) == without_machine(json.loads(fresh.stdout))
    spent = json.loads(done.stdout)["tuning"]["contenders"]
    assert {own["epochs"] for own in spent.values()} == {4 * 5 + 2 * 5 + 1 * 10}


def test_an_interrupted_race_continues(no_workers, tmp_path):
    file = write_problem(tmp_path, "slow")
    args = ["race", file, "--optimizers", "adam,adamomentum", "--trials", "0", "--seeds", "1"]
    args += ["--scale", "full"]  # seven seconds
    process = start_process(*args, "--runs", tmp_path / "runs")
    deadline = time.monotonic() + 300
    while not list(tmp_path.glob("runs/*/lock")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to all of them
    out, err = process.communicate(timeout=120)
    assert out == ""
    assert process.returncode == 130
    assert err.splitlines()[-1] == "interrupted; run the same command to resume"
    assert "Traceback" not in err
    assert list(tmp_path.glob("runs/*/last.ckpt"))
    done = run_here(*args, "--runs", tmp_path / "runs", "--json", env=FAST)
    fresh = run_here(*args, "--runs", tmp_path / "other", "--json", env=FAST)
    assert without_machine(json.loads(done.stdout)) == without_machine(json.loads(fresh.stdout))


@pytest.mark.parametrize("seconds", [0.05, 100])
def test_workers_end_with_their_driver(no_workers, tmp_path, seconds):
    """Also in the middle of an epoch, and of an update that takes long."""
    file = write_problem(tmp_path, "slow")
    args = ["race", file, "--optimizers", "adam", "--trials", "0", "--seeds", "2", "--jobs", "2"]
    args += ["--scale", "full"]
    process = start_process(
        *args, "--runs", tmp_path / "runs", env={"SECONDS_PER_UPDATE": str(seconds)}
    )
    deadline = time.monotonic() + 300
    while len(list(tmp_path.glob("runs/*/lock"))) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.5)
    process.kill()
    process.communicate(timeout=10)  # until nobody has its standard error, as workers have
    # Where there was time for it, a run stopped with a checkpoint.
    assert len(list(tmp_path.glob("runs/*/last.ckpt"))) == (2 if seconds < 1 else 0)
    done = run_here(*args, "--runs", tmp_path / "runs", "--json", env=FAST)
    fresh = run_here(*args, "--runs", tmp_path / "other", "--json", env=FAST)
    assert without_machine(json.loads(done.stdout)) == without_machine(json.loads(fresh.stdout))


# No `if __name__ == "__main__"`, and a problem that imports a neighbour of the script.
SCRIPT = """
import sys
from pathlib import Path
from adamomentum_lab.catalog import find_workload
from adamomentum_lab.engine.local import Local
from adamomentum_lab.engine.store import Store
from adamomentum_lab.race.plan import Race, make_plan
from adamomentum_lab.race.race import run_race

origin, store = find_workload(sys.argv[1]), Store(Path(sys.argv[2]))
race = Race(origin.name, origin.code, ("adam",), 0, 2, "smoke", "fair")
with Local(store, 2, lambda line: None) as engine:
    result = run_race(make_plan(race, origin.load()), origin, store, engine)
print(len(result.runs), result.rows[0].score.mean)
"""
TALKS = """
    def loss(self, model, batch):
        import sys, neighbour
        print("noise", neighbour.__name__, repr(sys.stdin.read()))
        return super().loss(model, batch)
"""


def test_a_script_without_a_guard_runs_a_race(tmp_path):
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "neighbour.py").write_text("")
    script = tmp_path / "scripts" / "script.py"
    script.write_text(SCRIPT)
    file = write_problem(tmp_path)
    file.write_text(file.read_text() + TALKS)
    done = subprocess.run(
        [sys.executable, script, "plain.py", "runs"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 ")
    assert len(done.stdout.splitlines()) == 1
    assert "noise neighbour ''" in done.stderr


def test_what_a_users_file_prints_is_no_result(tmp_path):
    file = write_problem(tmp_path)
    text = file.read_text() + (
        "\n    def __init__(self, *args):\n"
        "        print('made')\n        super().__init__(*args)\n"
        "\n    @property\n    def caveats(self):\n"
        "        print('asked')\n        return ()\n"
    )
    file.write_text(text)
    args = ["--optimizers", "adam", "--trials", "0", "--seeds", "1", "--scale", "smoke", "--json"]
    done = run_process("race", file, *args, "--runs", tmp_path / "runs")
    assert json.loads(done.stdout)["headline"].startswith(
        "At their defaults, untuned: adam has the best"
    )
    assert "made" in done.stderr


def test_the_example_can_be_raced(tmp_path):
    pytest.importorskip("tensorboard")
    args = ["--optimizers", "adamw,adamomentum", "--trials", "0", "--seeds", "2"]
    done = run_process(
        "race", "examples/breast_cancer.py", *args, "--runs", tmp_path, "--tensorboard"
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if "±" in line][:2]
    assert all(float(row[2]) > 90 for row in rows)
    assert len(list(tmp_path.glob("races/*/tensorboard/final-*/events*"))) == 4


@pytest.mark.parametrize("engine", ["local", pytest.param("ray", marks=pytest.mark.full)])
def test_optimizers_of_the_users_own_survive_a_kill(no_workers, tmp_path, engine):
    """By name, class, function and options, in real workers, with a file that is in no package."""
    if engine == "ray":
        pytest.importorskip("ray", reason="needs Ray: pip install 'adamomentum[ray]'")
    file, lion = write_problem(tmp_path, "slow"), write_lion(tmp_path)
    own = write_lion(tmp_path, "own.py", OWN)
    names = f"slow=adamw(betas=(0.9,0.99)),{lion}:Lion,{lion}:two_speeds,torch.optim.SGD(nesterov"
    names += f"=True,momentum=0.9),soap,{own},{lion}:last_layer,torch.optim:Adagrad"
    args = ["race", file, "--optimizers", names, "--trials", "0", "--seeds", "1", "--jobs", "2"]
    process = start_process(
        *args, "--engine", engine, "--runs", tmp_path / "runs", env={"SECONDS_PER_UPDATE": "0.02"}
    )
    for line in process.stderr:
        if line.startswith("[3/"):  # while others are under way
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=120)
    done = run_process(*args, "--engine", engine, "--runs", tmp_path / "runs", "--json", env=FAST)
    assert done.returncode == 0, done.stderr
    assert "runs were already finished" in done.stderr
    fresh = run_here(*args, "--runs", tmp_path / "other", "--json", env=FAST)
    result = json.loads(done.stdout)
    assert without_machine(result) == without_machine(json.loads(fresh.stdout))
    assert {run["status"] for run in result["runs"]} == {"done"}
    assert {run["spec"].get("target") for run in result["runs"]} == {
        None, "adamw", "lion.py:Lion", "lion.py:two_speeds", "torch.optim:SGD", "own.py",
        "lion.py:last_layer", "torch.optim:Adagrad",
    }  # fmt: skip
