"""The benchmark measures what it says, on the shapes of the networks it names."""

import json

import pytest
import torch
from typer.testing import CliRunner

from adamomentum import AdaMomentum
from adamomentum_lab.bench import step_time
from adamomentum_lab.cli import app
from adamomentum_lab.contenders._benchmark import PlainLoop
from adamomentum_lab.contract import feed, parameter


@pytest.mark.parametrize(
    ("model", "tensors", "parameters"),
    [
        # Counts of the networks as the authors ran them.
        ("ResNet-34", 110, 21_282_122),
        ("DenseNet-121", 362, 1_000_618),
        ("VGG-16", 58, 15_253_578),
        ("one of 64 Mi", 1, 67_108_864),
        ("1,000 x 64", 1000, 64_000),
    ],
)
def test_counts(model, tensors, parameters):
    shapes = step_time.models()[model]
    assert len(shapes) == tensors
    assert step_time.count(shapes) == parameters


def test_the_plain_loop_is_adamomentum():
    params = [parameter(3, 2), parameter(3, 2)]
    optimizers = [PlainLoop([params[0]]), AdaMomentum([params[1]], foreach=False)]
    for param, optimizer in zip(params, optimizers, strict=True):
        feed(optimizer, [param], range(20))
    torch.testing.assert_close(*params)


def test_a_small_run(tmp_path, monkeypatch):
    monkeypatch.setattr(step_time, "bandwidth_of_an_add", lambda: 10.0)
    monkeypatch.setitem(step_time.ALWAYS, "tiny", [(64, 3), (64,)])
    lines = []
    threads = torch.get_num_threads()
    step_time.main(["tiny"], threads, 0.01, tmp_path / "bench.json", lines.append)
    report = json.loads((tmp_path / "bench.json").read_text())
    results = report["models"]["tiny"]["steps"]
    assert results["Adam, fused"]["times_as_fast_as_adam_fused"] == 1
    assert results["AdaMomentum"]["state_bytes_per_parameter"] == pytest.approx(8, abs=0.1)
    assert results["  bfloat16 moments"]["state_bytes_per_parameter"] == pytest.approx(4, abs=0.1)
    # The native kernel makes no tensors; the lists of foreach are one copy of the parameters.
    assert results["AdaMomentum"]["extra_bytes_at_peak"] == 0
    assert results["  foreach"]["extra_bytes_at_peak"] == pytest.approx(4 * 256, rel=0.1)
    assert "tiny: 256 parameters in 2 tensors" in "\n".join(lines)


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr(step_time, "bandwidth_of_an_add", lambda: 10.0)
    monkeypatch.setitem(step_time.ALWAYS, "tiny", [(64, 3), (64,)])
    threads = str(torch.get_num_threads())
    arguments = ["bench", "--model", "tiny", "--seconds", "0.01", "--threads", threads]
    done = CliRunner().invoke(app, [*arguments, "--json", "--out", str(tmp_path / "b.json")])
    assert done.exit_code == 0
    assert json.loads(done.stdout) == json.loads((tmp_path / "b.json").read_text())
    assert "tiny: 256 parameters" in done.stderr
    done = CliRunner().invoke(app, arguments)
    assert "tiny: 256 parameters" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "ResNet-35"], "there is no 'ResNet-35'; there are 'ResNet-34'"),
        (["--out", "nowhere/b.json"], "the folder of 'nowhere/b.json' does not exist"),
        (["--threads", "0"], "Invalid value for '--threads'"),
    ],
)
def test_mistakes_at_the_command(arguments, words):
    done = CliRunner().invoke(app, ["bench", *arguments])
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.split())


def test_help_shows_an_example():
    done = CliRunner().invoke(app, ["bench", "--help"])
    assert "Example: adamomentum bench" in done.stdout
