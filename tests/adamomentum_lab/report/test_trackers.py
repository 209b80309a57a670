"""Logs of a race for other tools."""

import sys

import pytest

from adamomentum_lab.engine.events import EpochEnded, RunBegun, RunEnded
from adamomentum_lab.errors import LabError
from adamomentum_lab.report.trackers import make_tracker
from tests.adamomentum_lab.races import MadeUp, problem, race_of


def curves(folder):
    """Of each score, the steps and values."""
    event_accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    events = event_accumulator.EventAccumulator(str(folder)).Reload()
    tags = events.Tags()["scalars"]
    return {tag: [(point.step, point.value) for point in events.Scalars(tag)] for tag in tags}


def test_each_epoch_is_written_once(tmp_path):
    race = race_of(problem(tmp_path), "adam")
    trial = MadeUp(lambda _: 80.0).one(race.spec("adam", {"lr": 0.1}, 0))
    final = MadeUp(lambda _: 80.0).one(race.spec("adam", {"lr": 0.1}, 1))
    pytest.importorskip("tensorboard")
    listener = make_tracker("tensorboard", tmp_path / "race", race.id)
    listener.hear(RunBegun("tuning", trial.spec))
    logs = tmp_path / "race" / "tensorboard"
    assert not logs.exists()
    whole = list(trial.epochs)
    for epochs in (2, 4, 4):  # as with halving, and a rung that found it finished
        trial.epochs = whole[:epochs]
        listener.hear(RunEnded("tuning", trial, epochs))
    listener.hear(RunEnded("final", final, None))
    one = curves(logs / f"tuning-adam-seed0-{trial.spec.id[:6]}")
    assert sorted(one) == ["accuracy/validation", "loss/train", "loss/validation"]
    assert one["accuracy/validation"] == [(1, 20.0), (2, 40.0), (3, 60.0), (4, 80.0)]
    other = curves(logs / f"final-adam-seed1-{final.spec.id[:6]}")
    assert other["accuracy/test"][-1] == (4, 79.0)


def hear_a_run(listener, race):
    """A trial that trains, whose worker dies and repeats an epoch."""
    trial = MadeUp(lambda _: 80.0).one(race.spec("adam", {"lr": 0.1}, 0))
    for record in (trial.epochs[0], trial.epochs[0], *trial.epochs[1:]):
        listener.hear(EpochEnded("tuning", trial.spec, record, 1.0))
    listener.hear(RunEnded("tuning", trial, None))
    return trial


@pytest.mark.filterwarnings("ignore")  # of the client
def test_mlflow(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(tmp_path / "mlruns"))
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    race = race_of(problem(tmp_path), "adam")
    hear_a_run(make_tracker("mlflow", tmp_path, race.id), race)
    client = mlflow.MlflowClient()
    [experiment] = [e for e in client.search_experiments() if e.name == "adamomentum"]
    [run] = client.search_runs([experiment.experiment_id])
    assert run.data.tags["race"] == race.id
    assert run.data.tags["stage"] == "tuning"
    assert run.data.params["lr"] == "0.1"
    assert run.info.status == "FINISHED"
    steps = client.get_metric_history(run.info.run_id, "accuracy/validation")
    assert [(one.step, one.value) for one in steps] == [(1, 20), (2, 40), (3, 60), (4, 80)]
    assert "accuracy/test" not in run.data.metrics


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the client
def test_weights_and_biases_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    race = race_of(problem(tmp_path), "adam")
    hear_a_run(make_tracker("wandb", tmp_path, race.id), race)
    [folder] = (tmp_path / "wandb").glob("offline-run-*")
    [file] = folder.glob("*.wandb")
    written = file.read_bytes()
    assert race.id.encode() in written
    assert b"accuracy/validation" in written
    assert b"accuracy/test" not in written


def test_what_is_missing_is_told_at_once(tmp_path, monkeypatch):
    for name, package in (("mlflow", "mlflow"), ("wandb", "wandb")):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(LabError, match=f"needs: pip install {package}"):
            make_tracker(name, tmp_path, "id")
    with pytest.raises(LabError, match="there is no tracker 'tensorbord'"):
        make_tracker("tensorbord", tmp_path, "id")
