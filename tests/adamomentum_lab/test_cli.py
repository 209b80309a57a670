"""The command, as its users call it: results and mistakes. tests/journeys starts real processes."""

import io
import json
import os
import re
import shlex
import sys
import time
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from adamomentum_lab.catalog import find_workload
from adamomentum_lab.cli import app
from adamomentum_lab.commands import _costs
from adamomentum_lab.engine.store import Store
from adamomentum_lab.errors import LabError
from adamomentum_lab.files import locked
from adamomentum_lab.race.plan import Race, make_plan
from tests.adamomentum_lab.command_line import run_here, run_process, without_machine
from tests.adamomentum_lab.problems import PROBLEMS, write_problem


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
        (["race", "digits_mlp", "--halving"], "--halving needs --search grid or random"),
        (["race", "digits_mlp", "--space", "adam.lr=1:2", "--trials", "0"], "leave --space out"),
        (["race", "digits_mlp", "--pairs", "all", "--baseline", "adam"], "leave --baseline out"),
        (["race", "digits_mlp", "--pairs", "some"], "no pairs 'some'; there are baseline, all"),
        (["race", "digits_mlp", "--one-look", "--until-decided"], "leave --until-decided out"),
        (["race", "digits_mlp", "--margin", "0"], "--margin must be above 0"),
        (["race", "digits_mlp", "--certify", "-1"], "greater than or equal to 0"),
        (["race", "digits_mlp", "--search", "random", "--trials", "0"], "leave --search out"),
        (["race", "digits_mlp", "--search", "bayes"], "'bayes'; there are bracket, grid, random"),
        (["race", "digits_mlp", "--seeds", "0"], "greater than or equal to 1"),
        (["race", "digits_mlp", "--space", "lr=1:2"], "'lr=1:2' is not a search space; write one"),
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


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--space", "adm.lr=1:2"], "there is no optimizer 'adm' (did you mean 'adam'?)"),
        (["--space", "adam.lr=0,1"], "lr is searched on a logarithmic scale, which has no 0."),
        (["--space", "adam.betas=(0.9,0.99),(0.9,2.0)"], "adam refuses what spaces or settings of"),
        (["--baseline", "adm"], "the baseline 'adm' is not raced; it must be of sgdm, adam"),
        (["--baseline", "sign"], "the baseline 'sign' is not raced; it must be of sgdm, adam"),
    ],
)
def test_what_cannot_be_raced_is_one_sentence(args, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run_here("race", "digits_mlp", *args)
    assert done.returncode != 0
    assert done.stderr.startswith(f"adamomentum: {sentence}")
    assert len(done.stderr.splitlines()) == 1
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
    adam = listed["contenders"]["adam"]
    facts = {"family", "year", "summary", "defaults", "source", "decay", "space", "needs"}
    assert adam.keys() == facts
    assert (adam["family"], adam["year"]) == ("Adam", 2014)
    assert (adam["decay"], adam["needs"]) == ("coupled", [])
    assert adam["space"] == {"lr": [1e-1, 1e-2, 1e-3, 1e-4, 1e-5]}
    assert "Adam; coupled weight decay" in text
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
    return run_here("train", file, "--optimizer", "adam", "--runs", tmp_path / "runs", *args)


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


def test_train_stops_after_some_epochs_and_goes_on(tmp_path):
    whole = json.loads(train(tmp_path, "--json").stdout)
    other = tmp_path / "other"
    other.mkdir()
    for epochs in (2, 1, 3, None):
        args = ["--epochs", str(epochs)] if epochs else []
        file = write_problem(tmp_path)
        done = run_here(
            "train", file, "--optimizer", "adam", "--runs", other, "--json", *args
        )  # fmt: skip
        result = json.loads(done.stdout)
        assert result["status"] == "done"
        assert result["epochs"] == whole["epochs"][:epochs]
    assert without_machine(result) == without_machine(whole)


def test_an_error_in_the_users_file_is_the_users(tmp_path):
    file = write_problem(tmp_path, "raises")
    done = run_here("train", file, "--optimizer", "adam", "--runs", tmp_path / "runs")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].endswith("RuntimeError: this is the user's own fault")
    assert f"{file}:" in done.stderr
    assert "Traceback" not in done.stderr
    debugged = run_here(
        "--debug", "train", file, "--optimizer", "adam", "--runs", tmp_path / "runs"
    )
    assert "Traceback" in debugged.stderr

    for text, sentence in {
        "x = 1 +": f"{tmp_path}/bad.py:1: SyntaxError: ",
        "\n1 / 0": f"{tmp_path}/bad.py:2: ZeroDivisionError: division by zero",
        "x = 1": "defines 0 workloads; it must define one subclass of adamomentum_lab.Workload",
        "from adamomentum_lab import Workload\nclass A(Workload): pass": "lacks the method data",
        f"{PROBLEMS['plain']}\n    epochs = 0.5\n": "or one for each scale, as",
    }.items():
        (tmp_path / "bad.py").write_text(text)
        done = run_here("race", tmp_path / "bad.py", "--runs", tmp_path / "runs2")
        assert done.returncode == 1
        assert sentence in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_dry_run_shows_every_trial_and_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    args = ["race", "digits_mlp", "--optimizers", "sgdm,adabound", "--tune", "lr,momentum,final-lr"]
    args += ["--trials", "3", "--seeds", "2", "--search", "grid", "--halving", "--dry-run"]
    done = CliRunner().invoke(app, args)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert "3 tuning and 2 final runs each, 10 in all, 150 epochs." in lines[0]
    assert lines[1] == "Searched (grid) for sgdm: lr 1e-5..0.1, momentum 0.5 to 0.9."
    assert lines[2] == "Searched (grid) for adabound: lr 1e-5..0.1, final lr 1e-5..0.1."
    assert "3 trials up to epoch 5, the best 2 to 10, the best 1 to 20." in lines[3]
    assert lines[4:6] == ["sgdm", "    1  lr 0.1, momentum 0.9"]
    assert lines[8:10] == ["adabound", "    1  lr 0.001, final lr 0.1"]
    assert len(lines) == 13
    assert re.match(r"10 runs, [\d,]+ updates: about .* of checkpoints, .* of memory", lines[-1])
    plan = json.loads(CliRunner().invoke(app, [*args, "--json"]).output)
    assert plan["spec"]["tune"] == ["lr", "momentum", "final_lr"]
    assert plan["budget"]["epochs"] == 150
    assert len(plan["budget"]["contenders"]["adabound"]["trials"]) == 3
    assert not list(tmp_path.iterdir())


def test_a_dry_run_of_a_bracketing_search_shows_where_it_starts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    args = ["race", "digits_mlp", "--optimizers", "sgdm,adamw", "--trials", "3", "--seeds", "2"]
    args += ["--margin", "0.5", "--until-decided", "--space", "adamw.lr=1e-4:1e-2", "--dry-run"]
    done = CliRunner().invoke(app, args)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert "up to 3 tuning runs and 2 final runs each, at most 200 epochs." in lines[0]
    assert "sgdm: lr from 0.1 searched by bracketing, with at most 3 trials." in lines
    assert "adamw: lr from 0.0001 and 0.01 searched by bracketing, with at most 3 trials." in lines
    plan = json.loads(CliRunner().invoke(app, [*args, "--json"]).output)
    spec = plan["spec"]
    assert (spec["search"], spec["baseline"], spec["margin"]) == ("bracket", "adamw", 0.5)
    assert (spec["looks"], spec["certify"]) == ("until decided", 8)
    assert plan["budget"]["epochs"] == 200
    assert not list(tmp_path.iterdir())


def test_on_a_terminal_much_work_is_confirmed(no_workers, tmp_path, monkeypatch):
    file = write_problem(tmp_path, "bowl")
    monkeypatch.setattr(_costs, "MUCH", 0.0)
    monkeypatch.setattr(sys, "stdin", _Terminal())
    monkeypatch.setattr(sys, "stderr", _Terminal())
    asked = []
    monkeypatch.setattr(typer, "confirm", lambda text, **_: asked.append(text))
    reference = find_workload(str(file))
    race = Race(reference.name, reference.code, ("sgdm",), 1, 1, "mini", "fair")
    _costs.confirm(make_plan(race, reference.load()), reference, tmp_path / "runs", 1)
    assert re.fullmatch("Start about .* of work[?]", asked[0])
    monkeypatch.setattr(_costs, "MUCH", 3600.0)
    _costs.confirm(make_plan(race, reference.load()), reference, tmp_path / "runs", 1)
    assert len(asked) == 1
    assert not (tmp_path / "runs").exists()


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_command_of_a_race_leaves_out_defaults(no_workers, tmp_path):
    file = write_problem(tmp_path, "bowl")
    args = ["--optimizers", "sgdm,adam", "--trials", "2", "--seeds", "2"]
    done = run_here("race", file, *args, "--runs", tmp_path / "runs", "--json")
    assert done.returncode == 0, done.stderr
    command = shlex.split(json.loads(done.stdout)["machine"]["command"])
    assert command == ["adamomentum", "race", str(file), *args]


def test_the_command_of_a_race_is_the_same_race(no_workers, tmp_path):
    """What its record says runs it again, with every option."""
    file = write_problem(tmp_path, "bowl")
    folder = ["--runs", tmp_path / "runs"]
    args = ["--optimizers", "adam,sgdm", "--trials", "4", "--seeds", "2", "--pairs", "all"]
    args += ["--margin", "0.5", "--one-look", "--certify", "3", "--own-decay", "--tune", "lr"]
    args += ["--space", "adam.lr=0.1:10", "--space-is-hard"]
    done = run_here("race", file, *args, *folder, "--json")
    assert done.returncode == 0, done.stderr
    first = json.loads(done.stdout)
    words = shlex.split(first["machine"]["command"])
    assert words[:2] == ["adamomentum", "race"]
    again = run_here(*words[1:], *folder, "--json")
    assert again.returncode == 0, again.stderr
    assert without_machine(json.loads(again.stdout)) == without_machine(first)
    assert len(list((tmp_path / "runs" / "races").iterdir())) == 1
    rates = [trial["settings"]["lr"] for trial in first["tuning"]["contenders"]["adam"]["trials"]]
    assert rates == [0.1, 10.0, 1.0, 3.16228]  # nothing outside the walls
    assert [look["level"] for look in first["looks"]] == [0.05]


@pytest.mark.parametrize("protocol", ["paper", "as-run"])
def test_a_race_by_the_papers_rules(no_workers, tmp_path, protocol):
    file = write_problem(tmp_path)
    args = ["--optimizers", "adam,adamomentum", "--seeds", "1", "--protocol", protocol]
    done = run_here("race", file, *args, "--runs", tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    assert ("ON TEST" in done.stdout) == (protocol == "as-run")
    assert "0 tuning and 1 final runs each, 2 in all" in done.stderr


def test_a_failed_run_is_stored_as_failed_and_tried_again(tmp_path):
    file = write_problem(tmp_path, "raises")
    args = ["train", file, "--optimizer", "adam", "--runs", tmp_path / "runs"]
    done = run_here(*args)
    assert done.returncode == 1
    (run,) = Store(tmp_path / "runs").all()
    assert run.status == "failed"
    assert run.error == done.stderr.splitlines()[-1].removeprefix("adamomentum: ")
    assert run.error.endswith("RuntimeError: this is the user's own fault")
    again = run_here(*args)
    assert (again.returncode, again.stderr) == (1, done.stderr)


def test_a_run_that_fails_later_keeps_its_epochs(tmp_path):
    file = write_problem(tmp_path)
    fails = """
    def evaluate(self, model, split):
        if len(split[0]) == 50 and pathlib.Path(__file__).with_suffix(".fail").exists():
            raise RuntimeError("out of luck")
        return super().evaluate(model, split)
"""
    file.write_text(file.read_text() + fails)
    args = ["train", file, "--optimizer", "adam", "--runs", tmp_path / "runs"]
    assert run_here(*args, "--epochs", "2").returncode == 0
    file.with_suffix(".fail").write_text("")
    assert run_here(*args).returncode == 1
    (run,) = Store(tmp_path / "runs").all()
    assert (run.status, len(run.epochs)) == ("failed", 2)
    file.with_suffix(".fail").unlink()
    done = run_here(*args, "--json")
    assert "epoch 2:" not in done.stderr  # it goes on from its checkpoint
    assert json.loads(done.stdout)["status"] == "done"


def test_a_run_that_another_process_holds_is_refused_at_once(tmp_path):
    assert train(tmp_path, "--epochs", "1").returncode == 0
    (folder,) = (file.parent for file in (tmp_path / "runs").glob("*/lock"))
    with locked(folder / "lock"):
        begun = time.monotonic()
        done = train(tmp_path)
        assert time.monotonic() - begun < 30  # it does not wait
    assert done.returncode == 1
    busy = f"adamomentum: another process is training the run in {folder}. It is process"
    assert done.stderr.startswith(f"{busy} {os.getpid()}, since 20")
    assert len(done.stderr.splitlines()) == 1
    assert train(tmp_path).returncode == 0


def test_a_race_takes_what_train_has_done(no_workers, tmp_path):
    """So runs on several devices come into a race."""
    file = write_problem(tmp_path)
    args = ["--runs", tmp_path / "runs", "--scale", "smoke"]
    done = run_here("train", file, "--optimizer", "adam", *args)
    assert done.returncode == 0, done.stderr
    args += ["--trials", "0", "--seeds", "1", "--own-decay"]  # the form that `train` has
    done = run_here("race", file, "--optimizers", "adam", *args)
    assert done.returncode == 0, done.stderr
    assert "1 of 1 runs were already finished." in done.stderr


def test_an_error_if_every_run_fails(no_workers, tmp_path):
    file = write_problem(tmp_path, "raises")
    args = ["--optimizers", "adam", "--trials", "0", "--seeds", "2"]
    done = run_here("race", file, *args, "--runs", tmp_path / "runs")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("adamomentum: every run failed; the first: ")


def test_a_diverging_contender_is_ranked_last(no_workers, tmp_path):
    file = write_problem(tmp_path)
    text = file.read_text() + (
        '\n    settings = {"fair": {"adam": {"lr": 1e30}}}\n'
        "\n    def loss(self, model, batch):\n"
        "        return super().loss(model, batch) + sum(p.sum() for p in model.parameters())\n"
    )
    file.write_text(text)
    args = ["--optimizers", "adam,adamomentum", "--trials", "0", "--seeds", "2"]
    done = run_here("race", file, *args, "--runs", tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    assert "adam: 2 of 2 runs diverged." in done.stdout


def test_a_results_folder_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("")
    done = train(tmp_path, "--runs", tmp_path / "file")
    assert done.returncode == 1
    assert done.stderr.endswith("file is a file; results need a folder.\n")
    assert len(done.stderr.splitlines()) == 1


def test_debug_shows_where_a_run_failed(tmp_path, capfd):
    file = tmp_path / "broken.py"
    file.write_text(
        write_problem(tmp_path).read_text()
        + "\n    def loss(self, model, batch):\n        return self.nowhere\n"
    )
    args = ("train", file, "--optimizer", "adam", "--runs", tmp_path / "runs")
    done = run_here("--debug", *args)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "return self.nowhere" in done.stderr
    assert "Traceback" not in run_here(*args).stderr


NOISY = """
import os
os.system("echo imported")
from adamomentum_lab import Classification, Data
import torch
from torch import nn

class Noisy(Classification):
    epochs = 1

    def __init__(self, *args):
        os.system("echo made")
        super().__init__(*args)

    def data(self):
        os.system("echo data")
        x, y = torch.randn(30, 2), torch.arange(30) % 2
        return Data((x, y), (x, y), (x, y))

    def model(self):
        os.write(1, b"model")
        return nn.Linear(2, 2)
"""


@pytest.mark.parametrize("command", ["train", "race"])
def test_what_users_code_and_its_processes_print_is_no_result(tmp_path, command, capfd, no_workers):
    file = tmp_path / "noisy.py"
    file.write_text(NOISY)
    words = {
        "train": ("--optimizer", "adam"),
        "race": ("--optimizers", "adam,sgdm", "--trials", 0, "--seeds", 1),
    }[command]
    done = run_here(
        command, file, *words, "--scale", "smoke", "--runs", tmp_path / "runs", "--json"
    )
    assert done.returncode == 0, done.stderr
    out, err = capfd.readouterr()
    assert out == ""
    assert json.loads(done.stdout)
    for word in ("imported", "made", "data", "model"):
        assert word in err


@pytest.mark.slow
def test_a_file_whose_name_is_no_utf_8_and_a_message_that_is_no_text(tmp_path):
    file = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.py"))
    file.write_text(PROBLEMS["raises"].replace("the user's own", "the \\ud800 own"))
    words = ("--optimizer", "adam", "--scale", "smoke", "--runs", tmp_path / "runs")
    done = run_process("train", file, *words)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "the \\ud800 own fault" in done.stderr
    [run] = Store(tmp_path / "runs").all()
    assert run.status == "failed"
    file.write_text(PROBLEMS["plain"])
    for output in ((), ("--json",)):
        done = run_process("train", file, *words, *output)
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
        assert "udce9" in done.stdout


@pytest.mark.parametrize("error", ["raise RuntimeError('no')", "1 / 0"])
def test_a_run_that_ends_with_an_error_is_stored_as_failed(tmp_path, error):
    file = tmp_path / "mine.py"
    file.write_text(
        PROBLEMS["raises"].replace('raise RuntimeError("this is the user\'s own fault")', error)
    )
    done = run_here("train", file, "--optimizer", "adam", "--scale", "smoke", "--runs", tmp_path)
    assert done.returncode == 1
    [run] = Store(tmp_path).all()
    assert run.status == "failed"


HUNGRY = """
import pathlib
import torch

class Hungry(torch.optim.SGD):
    def step(self, closure=None):
        self.taken = getattr(self, "taken", 0) + 1
        if self.taken == 4 and pathlib.Path({mark!r}).exists():
            raise MemoryError("no room")
        return super().step(closure)
"""


@pytest.mark.parametrize("trials", [0, 2])
def test_a_race_with_a_lost_contender_is_incomplete(no_workers, tmp_path, trials):
    """Nobody is compared with one whose tuning died, and the exit status says so."""
    file, mine = write_problem(tmp_path), tmp_path / "mine.py"
    mark = tmp_path / "no memory"
    mine.write_text(HUNGRY.format(mark=str(mark)))
    mark.write_text("")
    words = ["--optimizers", f"adam,sgdm,{mine}:Hungry", "--trials", trials, "--seeds", 1]
    words += ["--scale", "smoke", "--runs", tmp_path / "runs", "--json"]
    done = run_here("race", file, *words)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("adamomentum: the race is incomplete: 1 run has no result (the first: ")
    assert last.endswith("Run the same command again; it repeats only those.")
    found = json.loads(done.stdout)
    kinds = {verdict["a"]: verdict["kind"] for verdict in found["verdicts"]}
    assert kinds["Hungry"] == "not comparable"
    assert kinds["sgdm"] != "not comparable"
    own = [run for run in found["runs"] if run["spec"]["optimizer"] == "Hungry"]
    stage = "tuning" if trials else "final"
    assert [(run["stage"], run["status"]) for run in own] == [(stage, "lost")]
    # Once there is memory again, only what is missing is run.
    mark.unlink()
    before = {run.spec.id: run for run in Store(tmp_path / "runs").all()}
    done = run_here("race", file, *words)
    assert done.returncode == 0, done.stderr
    after = {run.spec.id: run for run in Store(tmp_path / "runs").all()}
    changed = {name for name, run in before.items() if after[name] != run}
    assert changed == {own[0]["id"]}


@pytest.mark.parametrize("words", ["sys.exit()", "sys.exit(3)", "os._exit(0)", "raise SystemExit"])
@pytest.mark.parametrize("command", ["race", "train"])
def test_a_file_that_ends_python_when_it_is_imported_is_an_error(tmp_path, words, command):
    file = tmp_path / "exits.py"
    file.write_text(f"import os, sys\n{words}\n{PROBLEMS['plain']}")
    which = "--optimizers" if command == "race" else "--optimizer"
    done = run_here(command, file, which, "adam", "--runs", tmp_path / "runs")
    assert done.returncode == 1
    assert done.stderr.startswith(f"adamomentum: {file}:2: SystemExit")


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("return 0.5", "0.5"),
        ("pass", "None"),
        ("return torch.tensor(1.0)", "a tensor that does not depend on any parameter"),
        ("return super().loss(model, batch).detach()", "does not depend on any parameter"),
        ("return super().loss(model, batch).expand(3)", "a tensor of 3 elements"),
    ],
)
def test_a_loss_that_trains_nothing_names_the_users_line(tmp_path, body, what):
    file = tmp_path / "mine.py"
    file.write_text(f"{PROBLEMS['plain']}\n    def loss(self, model, batch):\n        {body}\n")
    line = file.read_text().splitlines().index("    def loss(self, model, batch):") + 1
    words = ("--optimizer", "adam", "--scale", "smoke", "--runs", tmp_path / "runs")
    done = run_here("train", file, *words)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"adamomentum: {file}:{line}: loss() of Problem returns ")
    assert what in last
    assert "it must return a tensor with one element" in last


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--device", "tpuu"), "there is no device 'tpuu'"),
        (("--device", "mps"), "torch finds no mps device here; use --device cpu"),
        (("--strategy", "foo"), "there is no strategy 'foo'"),
        (("--precision", "8"), "there is no precision '8'"),
    ],
)
def test_a_device_is_checked_also_for_a_finished_run(tmp_path, words, said):
    assert train(tmp_path, "--epochs", "1").returncode == 0
    done = train(tmp_path, "--epochs", "1", *words)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--optimizers", ","), "--optimizers ',' names none"),
        (("--optimizers", " , ,"), "names none"),
        (("--seeds", "100000000"), "'--seeds': Input should be less than or equal to 10000"),
        (
            ("--trials", "100000", "--dry-run"),
            "'--trials': Input should be less than or equal to 10000",
        ),
    ],
)
def test_senseless_amounts_are_refused_at_once(tmp_path, words, said):
    done = run_here("race", write_problem(tmp_path), *words, "--runs", tmp_path / "runs")
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_users_file_with_the_name_of_a_workload_of_the_paper_is_not_that(tmp_path, no_workers):
    file = tmp_path / "cifar10_resnet34.py"
    file.write_text(PROBLEMS["plain"])
    words = ("--trials", 0, "--seeds", 1, "--scale", "smoke", "--runs", tmp_path / "runs")
    assert run_here("race", file, "--optimizers", "adam,sgdm", *words).returncode == 0
    assert run_here("report", "--runs", tmp_path / "runs").returncode == 0
    page = (tmp_path / "runs" / "report.html").read_text()
    assert "cifar10_resnet34" in page
    assert "paper, " not in page
