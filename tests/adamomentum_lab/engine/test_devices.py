"""Which device each worker has. There is no GPU here: torch is told of some."""

import json

import pytest
import torch

from adamomentum_lab.engine.devices import choose, slots
from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.errors import LabError
from tests.adamomentum_lab.command_line import no_workers, run_here
from tests.adamomentum_lab.problems import write_problem

__all__ = ["no_workers"]


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


def seen(places):
    return [place["CUDA_VISIBLE_DEVICES"] for place in places]


@pytest.mark.usefixtures("two_gpus")
def test_every_worker_sees_one_gpu(monkeypatch):
    assert choose("auto") == choose("cuda") == "cuda"
    assert seen(slots("cuda")) == ["0", "1"]
    assert seen(slots("cuda", runs_per_device=2)) == ["0", "1", "0", "1"]
    assert seen(slots("cuda", 1)) == ["0"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5, GPU-abc")
    assert seen(slots("cuda")) == ["5", "GPU-abc"]


def test_without_a_gpu():
    assert choose("auto") == choose("cpu") == "cpu"
    assert slots("cpu", 3) == [{}, {}, {}]
    assert slots("mps", runs_per_device=2) == [{}, {}]
    with pytest.raises(LabError, match="no cuda device here; use --device cpu"):
        choose("cuda")
    with pytest.raises(LabError, match="there is no device 'gpu'"):
        choose("gpu")


def test_the_defaults_do_not_change_an_id():
    rest = {"workload": "w", "code": "c", "optimizer": "o", "seed": 1}
    plain = Spec.of({}, **rest, scale="mini", protocol="fair")
    assert not {"device", "compile"} & plain.as_json().keys()
    others = [{"device": "cuda"}, {"compile": True}, {"precision": "bf16-mixed"}]
    ids = {Spec.of({}, **rest, scale="mini", protocol="fair", **one).id for one in others}
    assert len(ids | {plain.id}) == 4


@pytest.mark.usefixtures("no_workers")
def test_a_race_in_bfloat16_is_another_race(tmp_path):
    file, runs = write_problem(tmp_path), tmp_path / "runs"
    words = ["race", file, "--optimizers", "adamw,sgdm", "--trials", "0", "--seeds", "2"]
    words += ["--scale", "smoke", "--json", "--runs", runs]
    plain, half = run_here(*words), run_here(*words, "--precision", "bf16-mixed")
    assert plain.returncode == half.returncode == 0, half.stderr
    assert "already finished" not in half.stderr
    one, other = json.loads(plain.stdout), json.loads(half.stdout)
    assert one["runs"][0]["id"] != other["runs"][0]["id"]
    assert one["runs"][0]["epochs"] != other["runs"][0]["epochs"]
    assert "--precision bf16-mixed" in other["machine"]["command"]
    wrong = run_here(*words, "--precision", "fp8")
    assert wrong.returncode == 2
    assert "there is no precision 'fp8'" in wrong.stderr.replace("\n", " ")


@pytest.mark.usefixtures("no_workers")
def test_a_compiled_run_has_the_losses_of_a_plain_one(tmp_path, monkeypatch):
    told = []
    plain = torch.nn.Module.compile

    def compile_eagerly(self):
        told.append(self)
        plain(self, backend="eager")

    monkeypatch.setattr(torch.nn.Module, "compile", compile_eagerly)
    words = ["train", write_problem(tmp_path), "--optimizer", "adamw", "--scale", "smoke"]
    words += ["--json", "--runs", tmp_path / "runs"]
    one, other = run_here(*words), run_here(*words, "--compile")
    assert other.returncode == 0, other.stderr
    assert told
    one, other = json.loads(one.stdout), json.loads(other.stdout)
    for ours, theirs in zip(one["epochs"], other["epochs"], strict=True):
        assert ours["train"]["loss"] == pytest.approx(theirs["train"]["loss"], rel=1e-5)
