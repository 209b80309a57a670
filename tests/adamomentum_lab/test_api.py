"""Races from Python."""

import os
import re
import signal
import subprocess
import sys
import textwrap
from functools import partial

import pytest
import torch

import adamomentum_lab as lab
from adamomentum_lab.contender import Contender
from adamomentum_lab.engine.events import RunBegun
from adamomentum_lab.errors import LabError
from tests.adamomentum_lab.command_line import no_workers, run_here
from tests.adamomentum_lab.problems import HEAD, write_problem

__all__ = ["no_workers"]
SMALL = {"trials": 2, "seeds": 2, "scale": "smoke"}


def define(text=HEAD, name="Problem"):
    scope = {"__name__": "__main__"}
    exec(compile(text, "a cell", "exec"), scope)
    return scope[name]


class Slow(torch.optim.SGD):
    def __init__(self, params, lr=0.1, momentum=0.5):
        super().__init__(params, lr=lr, momentum=momentum)


def begun(events):
    return [event.spec.optimizer for event in events if isinstance(event, RunBegun)]


def race(workload, optimizers, folder, **options):
    events = []
    result = lab.race(
        workload, optimizers, runs=folder, listeners=[events.append], **{**SMALL, **options}
    )
    return result, begun(events)


@pytest.mark.usefixtures("no_workers")
def test_classes_race_and_finished_runs_are_not_repeated(tmp_path, capsys):
    problem, mine = define(), define(textwrap.dedent(SLOW), "Slow")
    first, runs = race(problem, ["adamw", mine], tmp_path)
    assert first.race.optimizers == ("adamw", "Slow")
    assert len(runs) == len(first.runs) >= 8
    again, runs = race(define(), ["adamw", define(textwrap.dedent(SLOW), "Slow")], tmp_path)
    assert not runs
    assert again.verdicts == first.verdicts
    text = HEAD.replace("batch = 16", "batch = 17")
    _, runs = race(define(text), ["adamw", mine], tmp_path)
    assert len(runs) >= 8
    assert "Problem has changed" in capsys.readouterr().err


SLOW = """
import torch
class Slow(torch.optim.SGD):
    def __init__(self, params, lr=0.1, momentum=0.5):
        super().__init__(params, lr=lr, momentum=momentum)
"""


@pytest.mark.usefixtures("no_workers")
def test_a_call_and_the_command_share_their_runs(tmp_path):
    file = write_problem(tmp_path)
    result, runs = race(str(file), "adamw,sgdm", tmp_path / "runs")
    assert runs
    words = ["race", file, "--optimizers", "adamw,sgdm", "--runs", tmp_path / "runs"]
    done = run_here(*words, "--trials", 2, "--seeds", 2, "--scale", "smoke")
    assert done.returncode == 0, done.stderr
    assert "All runs: " in done.stdout
    assert result.command.startswith("adamomentum race")
    assert [one.race for one in lab.load(tmp_path / "runs")] == [result.race]


@pytest.mark.usefixtures("no_workers")
def test_optimizers_are_given_in_many_ways(tmp_path):
    given = {
        "nesterov": partial(torch.optim.SGD, nesterov=True, momentum=0.9),
        "rms": torch.optim.RMSprop,
        "fast": "adamw(betas=(0.8, 0.9))",
        "own": lambda params, lr=0.1: torch.optim.SGD(params, lr=lr),
        "made": Contender(Slow, source="here", summary="Slow."),
    }
    result, _ = race(define(), given, tmp_path, trials=0)
    assert result.race.optimizers == tuple(given)
    entry = result.race.entries["rms"]
    assert entry.target == "torch.optim.rmsprop:RMSprop"
    assert lab.load(tmp_path)[0].race.entries["own"].code == result.race.entries["own"].code


@pytest.mark.usefixtures("no_workers")
def test_what_cannot_be_identified_is_told_and_not_reused(tmp_path, capsys):
    text = HEAD.replace("batch = 16", "batch = 16\n    lock = __import__('threading').Lock()")
    _, one = race(define(text), ["adamw"], tmp_path, trials=0)
    assert "Problem cannot be identified exactly: it uses a lock" in capsys.readouterr().err
    _, other = race(define(text), ["adamw"], tmp_path, trials=0)
    assert len(one) == len(other) == 2


@pytest.mark.parametrize(
    ("workload", "optimizers", "words"),
    [
        (int, ["adam"], r"int is no workload; derive it from lab\.Workload"),
        ("digit_mlp", ["adam"], "there is no workload 'digit_mlp'"),
        ("digits_mlp", ["adamm"], "there is no optimizer 'adamm'"),
        ("digits_mlp", ["adam", "adam"], "two optimizers are called 'adam'"),
        ("digits_mlp", [lambda params: None], "needs a name; write optimizers="),
        ("digits_mlp", {"adam": Slow}, r"'adam' is one of the lab's optimizers"),
        ("digits_mlp", [int], "int cannot be raced"),
    ],
)
def test_wrong_arguments_are_one_sentence(tmp_path, workload, optimizers, words):
    with pytest.raises(LabError, match=words) as error:
        lab.race(workload, optimizers, runs=tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.usefixtures("no_workers")
def test_a_result_is_a_table_a_page_and_a_picture(tmp_path):
    result, _ = race(define(), ["adamw", "sgdm"], tmp_path / "runs", trials=0)
    html = result._repr_html_()
    assert html.count("<tr>") == 3
    assert "<svg" in html
    assert "sgdm - adamw" in html
    assert str(result) == result.summary
    page = result.report(tmp_path / "page.html")
    assert "The same numbers again" not in page.read_text()
    pandas = pytest.importorskip("pandas")
    frame = result.frame()
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) == 4
    assert set(frame["optimizer"]) == {"adamw", "sgdm"}
    assert frame["lr"].notna().all()


SCRIPT = (
    HEAD
    + """
import time
class Line(torch.optim.SGD):
    def __init__(self, params, lr=0.1):
        super().__init__(params, lr=lr)

class Slowly(Problem):
    def loss(self, model, batch):
        time.sleep(float(os.environ["SECONDS_PER_UPDATE"]))
        return super().loss(model, batch)

import adamomentum_lab as lab
result = lab.race(Slowly, ["adamw", Line], trials=2, seeds=2, jobs=2, runs="runs")
print(result)
"""
)


def run_script(folder, seconds):
    return subprocess.Popen(
        [sys.executable, "script.py"],
        cwd=folder,
        env={**os.environ, "SECONDS_PER_UPDATE": str(seconds)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.slow
def test_a_script_needs_no_guard_and_continues_after_ctrl_c(tmp_path):
    for folder in (tmp_path / "one", tmp_path / "other"):
        folder.mkdir()
        (folder / "script.py").write_text(SCRIPT)
    process = run_script(tmp_path / "one", 0.05)
    for line in process.stderr:
        if line.startswith("[2/"):
            break
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert "KeyboardInterrupt" in err
    again = run_script(tmp_path / "one", 0)
    out, err = again.communicate(timeout=300)
    assert again.returncode == 0, err
    assert re.search(r"of \d+ runs were already finished", err)
    whole, err = run_script(tmp_path / "other", 0).communicate(timeout=300)
    assert out == whole, err


NOTEBOOK = [
    HEAD,
    """
class Mine(torch.optim.SGD):
    def __init__(self, params, lr=0.1):
        super().__init__(params, lr=lr)
""",
    """
import adamomentum_lab as lab
result = lab.race(Problem, ["adamw", Mine], trials=2, seeds=2, jobs=2, scale="smoke")
result
""",
    "result.frame()[['optimizer', 'lr']]",
    """
class Wrong(Problem):
    def loss(self, model, batch):
        return 1 / 0

lab.race(Wrong, ["adamw"], trials=0, seeds=4)
""",
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Jupyter's own
def test_a_notebook_races_its_own_classes(tmp_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("pandas")
    book = nbformat.v4.new_notebook(cells=[*map(nbformat.v4.new_code_cell, NOTEBOOK)])
    client = nbclient.NotebookClient(
        book, timeout=300, allow_errors=True, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    *_, raced, table, wrong = book.cells
    html = [o["data"]["text/html"] for o in raced.outputs if "text/html" in o.get("data", {})]
    bars, shown = html
    assert "<progress" in bars
    assert "tuning runs" in bars
    assert "<svg" in shown
    assert "Mine - adamw" in shown
    assert "text/html" in table.outputs[0]["data"]
    error = next(o for o in wrong.outputs if o["output_type"] == "error")
    assert re.search(r"cell \[5\]:\d: ZeroDivisionError: division by zero", error["evalue"])
