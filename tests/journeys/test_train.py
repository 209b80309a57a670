"""Real processes of `adamomentum train`: signals, several devices, a full disk."""

import json
import os
import resource
import signal
import subprocess
import sys

import pytest

from adamomentum_lab.training.checkpoints import Checkpoints
from tests.adamomentum_lab.command_line import (
    ROOT,
    run_here,
    run_process,
    start_process,
    without_machine,
)
from tests.adamomentum_lab.problems import write_problem

pytestmark = pytest.mark.slow
FAST = {"SECONDS_PER_UPDATE": "0"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_continues(tmp_path, number):
    file = write_problem(tmp_path, "slow")
    args = ["train", file, "--optimizer", "adam", "--scale", "full"]
    args += ["--runs", tmp_path / "runs"]
    process = start_process(*args)
    assert process.stderr.readline().startswith("[1/20] epoch 1")
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert out == ""
    assert err.splitlines()[-1] == "interrupted; run the same command to resume"
    assert "Traceback" not in err
    done = run_here(*args, "--json", env=FAST)
    assert "epoch 1:" not in done.stderr
    fresh = run_here(*args[:-1], tmp_path / "other", "--json", env=FAST)
    assert without_machine(json.loads(done.stdout)) == without_machine(json.loads(fresh.stdout))


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_two_processes_train_what_one_trains(tmp_path, strategy):
    file = write_problem(tmp_path)
    # Dropped units differ between processes; all else must agree, but for the order of sums.
    file.write_text(file.read_text().replace("nn.Dropout(0.3), ", ""))
    args = ["train", file, "--optimizer", "adamomentum", "--json", "--runs"]
    one = json.loads(run_here(*args, tmp_path / "one").stdout)
    two = ["--strategy", strategy, "--devices", "2"]
    first = run_process(*args, tmp_path / "two", *two, "--epochs", "2")
    assert first.returncode == 0, first.stderr
    done = run_process(*args, tmp_path / "two", *two)  # continued
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert done.stderr.count("epoch 4:") == 1  # only one of them speaks
    for ours, theirs in zip(result["epochs"], one["epochs"], strict=True):
        for split in ("train", "validation"):
            assert ours[split]["loss"] == pytest.approx(theirs[split]["loss"], rel=1e-5)


def test_two_processes_stop_in_the_middle_of_an_epoch_and_continue(tmp_path):
    """A signal to one stops both. Dropout is on, and each has its own numbers."""
    file = write_problem(tmp_path, "slow")
    args = ["train", file, "--optimizer", "adam", "--scale", "full", "--strategy", "ddp"]
    args += ["--devices", "2", "--json", "--runs"]
    process = start_process(*args, tmp_path / "runs")
    while not (line := process.stderr.readline()).startswith("[1/20] epoch 1"):
        assert line, "it ended"
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode == 130
    [file] = (tmp_path / "runs").glob("*/last.ckpt")
    state = Checkpoints(file.parent).load()
    assert state["epoch"] < 20
    assert len(state["processes"]) == 2
    done = run_process(*args, tmp_path / "runs", env=FAST)
    assert done.returncode == 0, done.stderr
    fresh = run_process(*args, tmp_path / "other", env=FAST)
    assert without_machine(json.loads(done.stdout)) == without_machine(json.loads(fresh.stdout))


# No file may grow beyond a size, as on a disk that is full.
FULL_DISK = """
import resource, sys
limit = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
from adamomentum_lab.cli import main
main()
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="needs limits of file sizes")
def test_a_full_disk_is_one_sentence_and_the_run_goes_on_later(tmp_path):
    file = write_problem(tmp_path)
    args = ["train", file, "--optimizer", "adam", "--json", "--runs"]
    first = run_process(*args, tmp_path / "runs", "--epochs", "1")
    assert first.returncode == 0, first.stderr
    largest = max(path.stat().st_size for path in tmp_path.glob("runs/*/last.ckpt"))
    words = [str(word) for word in (*args, tmp_path / "runs")]
    full = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(largest // 2), *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert full.returncode == 1
    assert full.stdout == ""
    # Of the store or of the checkpoint, whichever is written first.
    sentence = full.stderr.splitlines()[-1]
    assert sentence.startswith("adamomentum: cannot ")
    assert "kept" in sentence
    assert "Traceback" not in full.stderr
    done = run_here(*args, tmp_path / "runs")
    fresh = run_here(*args, tmp_path / "other")
    assert without_machine(json.loads(done.stdout)) == without_machine(json.loads(fresh.stdout))
