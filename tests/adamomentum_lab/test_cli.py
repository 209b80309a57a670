"""The command, as its users call it: results, mistakes, interruptions."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from adamomentum_lab.cli import app
from adamomentum_lab.errors import LabError
from tests.adamomentum_lab.problems import PROBLEMS, write_problem

ROOT = Path(__file__).parents[2]


def command(*args, **options):
    """The real thing, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "adamomentum_lab.cli", *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
        cwd=options.pop("cwd", ROOT),
        **options,
    )


def without_machine(value):
    if isinstance(value, dict):
        return {k: without_machine(v) for k, v in value.items() if k != "machine"}
    return [without_machine(v) for v in value] if isinstance(value, list) else value


def usage_error(*args):
    result = CliRunner().invoke(app, list(map(str, args)))
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    return " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["race", "digits_cn"], "there is no workload 'digits_cn' (did you mean 'digits_cnn'?)"),
        (["race", "none.py"], "there is no file 'none.py'"),
        (["race", "digits_mlp", "--optimizers", "adamoment"], "did you mean 'adamomentum'?"),
        (["race", "digits_mlp", "--scale", "tiny"], "there is no scale 'tiny'"),
        (["race", "digits_mlp", "--protocol", "as_run"], "did you mean 'as-run'?"),
        (["race", "digits_mlp", "--engine", "slurm"], "there is no engine 'slurm'"),
        (["race", "digits_mlp", "--address", "10.0.0.1:6379"], "belong to --engine ray"),
        (["race", "digits_mlp", "--engine", "ray", "--gpus-per-run", "2"], "than or equal to 1"),
        (["race", "digits_mlp", "--protocol", "paper", "--trials", "3"], "--trials 0 is right"),
        (["race", "digits_mlp", "--tune", "lr,lrr"], "to tune 'lrr' (did you mean 'lr'?)"),
        (["race", "digits_mlp", "--tune", "gamma"], "there are lr, weight_decay, eps, betas, mom"),
        (["race", "digits_mlp", "--optimizers", "adam,sign", "--tune", "momentum"],
         "none of these optimizers has a setting 'momentum'; there are lr, weight_decay, eps"),
        (["race", "digits_mlp", "--tune", "lr", "--trials", "0"], "--trials 0; leave --tune out"),
        (["race", "digits_mlp", "--tune", "lr", "--protocol", "as-run"], "leave --tune out"),
        (["race", "digits_mlp", "--halving", "--trials", "0"], "leave --halving out"),
        (["race", "digits_mlp", "--search", "random", "--trials", "0"], "leave --search out"),
        (["race", "digits_mlp", "--search", "bayes"], "no search 'bayes'; there are grid, random"),
        (["race", "digits_mlp", "--seeds", "0"], "greater than or equal to 1"),
        (["train", "digits_mlp", "--optimizer", "adamm"], "did you mean 'adam'?"),
        (["train", "digits_mlp", "--optimizer", "adam", "--momentum", "1"], "no setting 'mom"),
        (["train", "digits_mlp", "--optimizer", "adam", "--betas", "0.9"], "not '0.9'"),
        (["train", "digits_mlp", "--optimizer", "adam", "--lr", "-1"], "Invalid learning rate"),
    ],
)  # fmt: skip
def test_wrong_usage(args, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sentence in usage_error(*args)
    assert not list(tmp_path.iterdir())


def test_without_ray_its_extra_is_named(tmp_path, monkeypatch):
    for name in ("ray", "adamomentum_lab.engine.ray"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "adamomentum_lab.engine.ray")
    args = ["race", "digits_mlp", "--engine", "ray", "--runs", tmp_path]
    with pytest.raises(LabError, match=r"--engine ray needs Ray: pip install 'adamomentum\[ray\]'"):
        CliRunner().invoke(app, list(map(str, args)), catch_exceptions=False)


@pytest.mark.parametrize("name", ["race", "train", "list", "bench"])
def test_every_help_shows_an_example(name):
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0
    assert f"Example: adamomentum {name}" in result.output


def test_list():
    text = CliRunner().invoke(app, ["list"], env={"COLUMNS": "80"}).output
    assert max(map(len, text.splitlines())) <= 80
    listed = json.loads(CliRunner().invoke(app, ["list", "--json"]).output)
    paper = ["sgdm", "adam", "adamw", "yogi", "adabound", "radam", "adabelief", "adamomentum"]
    assert list(listed["contenders"])[:8] == paper
    assert listed["contenders"]["adamomentum"]["defaults"]["eps"] == 1e-16
    assert listed["workloads"]["digits_cnn"]["target"]["mini"] == 97
    assert listed["scales"] == ["smoke", "mini", "full"]
    scores = {"smoke": "fd-cnn", "mini": "fd-cnn", "full": "fid"}
    assert listed["workloads"]["cifar10_dcgan"]["metric"] == scores
    assert "fd-cnn, fid at full; epochs at smoke" in " ".join(text.split())
    assert "97; epochs at smoke" in " ".join(text.split())
    for name in (*listed["contenders"], *listed["workloads"]):
        assert name in text


def train(tmp_path, *args):
    file = write_problem(tmp_path)
    return command("train", file, "--optimizer", "adam", "--runs", tmp_path / "runs", *args)


@pytest.mark.slow
def test_train(tmp_path):
    done = train(tmp_path, "--lr", "0.01", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert list(result) == ["spec", "status", "epochs", "final", "machine"]
    assert result["status"] == "done"
    assert [record["epoch"] for record in result["epochs"]] == [1, 2, 3, 4]
    assert result["spec"]["settings"]["lr"] == 0.01
    assert result["final"] in result["epochs"]
    assert {"seconds", "torch", "commit", "threads"} <= result["machine"].keys()
    assert "epoch 4: train loss" in done.stderr

    again = train(tmp_path, "--lr", "0.01", "--json")
    assert again.stdout == done.stdout
    assert "epoch 4" not in again.stderr  # nothing was computed
    words = train(tmp_path, "--lr", "0.01")
    assert words.stdout.startswith("adam on plain, seed 1: done; epoch ")


@pytest.mark.slow
def test_train_stops_after_some_epochs_and_goes_on(tmp_path):
    whole = json.loads(train(tmp_path, "--json").stdout)
    other = tmp_path / "other"
    other.mkdir()
    for epochs in (2, 1, 3, None):
        args = ["--epochs", str(epochs)] if epochs else []
        file = write_problem(tmp_path)
        done = command(
            "train", file, "--optimizer", "adam", "--runs", other, "--json", *args
        )  # fmt: skip
        result = json.loads(done.stdout)
        assert result["status"] == "done"
        assert result["epochs"] == whole["epochs"][:epochs]
    assert without_machine(result) == without_machine(whole)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_continues(tmp_path, number):
    file = write_problem(tmp_path, "slow")
    args = ["train", file, "--optimizer", "adam", "--scale", "full"]
    args += ["--runs", tmp_path / "runs"]
    process = subprocess.Popen(
        [sys.executable, "-m", "adamomentum_lab.cli", *map(str, args)],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stderr.readline().startswith("[1/20] epoch 1")
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "interrupted; the same command continues"
    assert "Traceback" not in err
    done = command(*args, "--json", env={**os.environ, "SECONDS_PER_UPDATE": "0"})
    assert "epoch 1:" not in done.stderr
    fresh = command(
        *args[:-1], tmp_path / "other", "--json", env={**os.environ, "SECONDS_PER_UPDATE": "0"}
    )
    assert without_machine(json.loads(done.stdout)) == without_machine(json.loads(fresh.stdout))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_two_processes_train_what_one_trains(tmp_path, strategy):
    file = write_problem(tmp_path)
    # Dropped units differ between processes; all else must agree, but for the order of sums.
    file.write_text(file.read_text().replace("nn.Dropout(0.3), ", ""))
    args = ["train", file, "--optimizer", "adamomentum", "--json", "--runs"]
    one = json.loads(command(*args, tmp_path / "one").stdout)
    two = ["--strategy", strategy, "--devices", "2"]
    first = command(*args, tmp_path / "two", *two, "--epochs", "2")
    assert first.returncode == 0, first.stderr
    done = command(*args, tmp_path / "two", *two)  # continued
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert done.stderr.count("epoch 4:") == 1  # only one of them speaks
    for ours, theirs in zip(result["epochs"], one["epochs"], strict=True):
        for split in ("train", "validation"):
            assert ours[split]["loss"] == pytest.approx(theirs[split]["loss"], rel=1e-5)


@pytest.mark.slow
def test_an_error_in_the_users_file_is_the_users(tmp_path):
    file = write_problem(tmp_path, "raises")
    done = command("train", file, "--optimizer", "adam", "--runs", tmp_path / "runs")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].endswith("RuntimeError: this is the user's own fault")
    assert f"{file}:" in done.stderr
    assert "Traceback" not in done.stderr
    debugged = command("--debug", "train", file, "--optimizer", "adam", "--runs", tmp_path / "runs")
    assert "Traceback" in debugged.stderr

    for text, sentence in {
        "x = 1 +": f"{tmp_path}/bad.py:1: SyntaxError: ",
        "\n1 / 0": f"{tmp_path}/bad.py:2: ZeroDivisionError: division by zero",
        "x = 1": "defines 0 workloads; it must define one subclass of adamomentum_lab.Workload",
        "from adamomentum_lab import Workload\nclass A(Workload): pass": "lacks the method data",
        f"{PROBLEMS['plain']}\n    epochs = 15\n": "must say how many at each scale",
    }.items():
        (tmp_path / "bad.py").write_text(text)
        done = command("race", tmp_path / "bad.py", "--runs", tmp_path / "runs2")
        assert done.returncode == 1
        assert sentence in done.stderr
        assert len(done.stderr.splitlines()) == 1


def _flowing(text):
    """Without the breaks of lines."""
    return " ".join(text.split())


RACE = ["--optimizers", "sgdm,adam,adamomentum", "--trials", "2", "--seeds", "3"]


@pytest.mark.slow
def test_race(tmp_path):
    file = write_problem(tmp_path)
    runs = tmp_path / "runs"
    done = command("race", file, *RACE, "--runs", runs, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    parts = ["spec", "workload", "headline", "ranking", "tuning", "runs", "machine"]
    assert list(result) == parts
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
        best = max(tried, key=lambda run: run["final"]["validation"]["accuracy"])
        assert (
            best["final"]["validation"]["accuracy"]
            == next(r for r in tried if r["spec"]["settings"] == row["settings"])["final"][
                "validation"
            ]["accuracy"]
        )

    again = command("race", file, *RACE, "--runs", runs, "--json")
    assert again.stdout == done.stdout
    elsewhere = command("race", file, *RACE, "--runs", tmp_path / "b", "--jobs", "1", "--json")
    assert without_machine(json.loads(elsewhere.stdout)) == without_machine(result)

    (folder,) = (runs / "races").iterdir()
    assert json.loads((folder / "race.json").read_text()) == result
    with (folder / "ranking.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["optimizer"] for row in rows] == [r["optimizer"] for r in result["ranking"]]
    assert [row["verdict"] or None for row in rows] == [
        row["comparison"] and row["comparison"]["verdict"] for row in result["ranking"]
    ]
    with (folder / "runs.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 15
    assert all((row["test accuracy"] == "") == (row["stage"] == "tuning") for row in rows)

    words = command("race", file, *RACE, "--runs", runs, env={**os.environ, "COLUMNS": "80"})
    assert max(map(len, words.stdout.splitlines())) <= 80
    assert "adamomentum" in words.stdout
    assert "Mean over 3 seeds" in words.stdout
    for row in result["ranking"]:
        assert (row["comparison"] is None) == (row["optimizer"] == "adamomentum")
        assert len(row["sensitivity"]["expected_best"]) == 2
        assert row["comparison"] is None or row["comparison"]["sentence"] in _flowing(words.stdout)


def test_a_dry_run_shows_every_trial_and_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    args = ["race", "digits_mlp", "--optimizers", "sgdm,adabound", "--tune", "lr,momentum,final-lr"]
    args += ["--trials", "3", "--seeds", "2", "--halving", "--dry-run"]
    done = CliRunner().invoke(app, args)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert "3 tuning and 2 final runs each, 10 in all, 150 epochs." in lines[0]
    assert lines[1] == "Searched (grid) for sgdm: lr 1e-5..0.1, momentum 0.5 to 0.9."
    assert lines[2] == "Searched (grid) for adabound: lr 1e-5..0.1, final lr 1e-5..0.1."
    assert "3 trials up to epoch 5, the best 2 to 10, the best 1 to 20." in lines[3]
    assert lines[4:6] == ["sgdm", "    1  lr 0.1, momentum 0.9"]
    assert lines[8:10] == ["adabound", "    1  lr 0.001, final lr 0.1"]
    assert len(lines) == 12
    plan = json.loads(CliRunner().invoke(app, [*args, "--json"]).output)
    assert plan["spec"]["tune"] == ["lr", "momentum", "final_lr"]
    assert plan["budget"]["epochs"] == 150
    assert len(plan["budget"]["contenders"]["adabound"]["trials"]) == 3
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_race_with_halving_survives_a_kill(tmp_path):
    file = write_problem(tmp_path, "slow")
    args = ["race", file, "--optimizers", "adam,adamomentum", "--trials", "4", "--seeds", "1"]
    args += ["--halving", "--scale", "full"]  # twenty epochs
    process = subprocess.Popen(
        [sys.executable, "-m", "adamomentum_lab.cli", *map(str, args), "--runs", tmp_path / "runs"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
        env={**os.environ, "SECONDS_PER_UPDATE": "0.01"},
    )
    for line in process.stderr:
        if line.startswith("[9/"):  # in the second rung
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    fast = {**os.environ, "SECONDS_PER_UPDATE": "0"}
    done = command(*args, "--runs", tmp_path / "runs", "--json", env=fast)
    assert done.returncode == 0, done.stderr
    assert "begun already" in done.stderr
    fresh = command(*args, "--runs", tmp_path / "other", "--json", env=fast)
    assert without_machine(json.loads(done.stdout)) == without_machine(json.loads(fresh.stdout))
    spent = json.loads(done.stdout)["tuning"]["contenders"]
    assert {own["epochs"] for own in spent.values()} == {4 * 5 + 2 * 5 + 1 * 10}


@pytest.mark.slow
def test_the_example_can_be_raced(tmp_path):
    pytest.importorskip("tensorboard")
    args = ["--optimizers", "adamw,adamomentum", "--trials", "0", "--seeds", "2"]
    done = command("race", "examples/breast_cancer.py", *args, "--runs", tmp_path, "--tensorboard")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if "±" in line][:2]
    assert all(float(row[2]) > 90 for row in rows)
    assert len(list(tmp_path.glob("races/*/tensorboard/final-*/events*"))) == 4


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["paper", "as-run"])
def test_a_race_by_the_papers_rules(tmp_path, protocol):
    file = write_problem(tmp_path)
    args = ["--optimizers", "adam,adamomentum", "--seeds", "1", "--protocol", protocol]
    done = command("race", file, *args, "--runs", tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    assert ("ON TEST" in done.stdout) == (protocol == "as-run")
    assert "0 tuning and 1 final runs each, 2 in all" in done.stderr


@pytest.mark.slow
def test_a_race_takes_what_train_has_done(tmp_path):
    """So runs on several devices come into a race."""
    file = write_problem(tmp_path)
    args = ["--runs", tmp_path / "runs", "--scale", "smoke"]
    done = command("train", file, "--optimizer", "adam", *args)
    assert done.returncode == 0, done.stderr
    done = command("race", file, "--optimizers", "adam", "--trials", "0", "--seeds", "1", *args)
    assert done.returncode == 0, done.stderr
    assert "1 of 1 runs were finished before." in done.stderr


@pytest.mark.slow
def test_an_interrupted_race_continues(tmp_path):
    file = write_problem(tmp_path, "slow")
    args = ["race", file, "--optimizers", "adam,adamomentum", "--trials", "0", "--seeds", "1"]
    args += ["--scale", "full"]  # seven seconds
    process = subprocess.Popen(
        [sys.executable, "-m", "adamomentum_lab.cli", *map(str, args), "--runs", tmp_path / "runs"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("runs/*/lock")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to all of them
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "interrupted; the same command continues"
    assert "Traceback" not in err
    assert list(tmp_path.glob("runs/*/last.ckpt"))
    fast = {**os.environ, "SECONDS_PER_UPDATE": "0"}
    done = command(*args, "--runs", tmp_path / "runs", "--json", env=fast)
    fresh = command(*args, "--runs", tmp_path / "other", "--json", env=fast)
    assert without_machine(json.loads(done.stdout)) == without_machine(json.loads(fresh.stdout))


@pytest.mark.slow
def test_when_every_run_fails_it_is_said(tmp_path):
    file = write_problem(tmp_path, "raises")
    args = ["--optimizers", "adam", "--trials", "0", "--seeds", "2"]
    done = command("race", file, *args, "--runs", tmp_path / "runs")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("adamomentum: every run failed; the first: ")


@pytest.mark.slow
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
    done = command("race", file, *args, "--runs", tmp_path / "runs")
    assert json.loads(done.stdout)["headline"].startswith("adam has the best")
    assert "made" in done.stderr


@pytest.mark.slow
def test_a_diverging_contender_is_ranked_last(tmp_path):
    file = write_problem(tmp_path)
    text = file.read_text() + (
        '\n    settings = {"fair": {"adam": {"lr": 1e30}}}\n'
        "\n    def loss(self, model, batch):\n"
        "        return super().loss(model, batch) + sum(p.sum() for p in model.parameters())\n"
    )
    file.write_text(text)
    args = ["--optimizers", "adam,adamomentum", "--trials", "0", "--seeds", "2"]
    done = command("race", file, *args, "--runs", tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    assert "adam: 2 of 2 runs diverged." in done.stdout


@pytest.mark.slow
def test_a_results_folder_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("")
    done = train(tmp_path, "--runs", tmp_path / "file")
    assert done.returncode == 1
    assert done.stderr.endswith("file is a file; results need a folder.\n")
    assert len(done.stderr.splitlines()) == 1
