"""TensorBoard logs of a race."""

import pytest

from adamomentum_lab.engine.events import RunBegun, RunEnded
from adamomentum_lab.report.tensorboard import TensorBoard
from tests.adamomentum_lab.races import MadeUp, problem, race_of

event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


def curves(folder):
    """Of each score, the steps and values."""
    events = event_accumulator.EventAccumulator(str(folder)).Reload()
    tags = events.Tags()["scalars"]
    return {tag: [(point.step, point.value) for point in events.Scalars(tag)] for tag in tags}


def test_runs_are_written_when_they_end_each_epoch_once(tmp_path):
    race = race_of(problem(tmp_path), "adam")
    trial = MadeUp(lambda _: 80.0).one(race.spec("adam", {"lr": 0.1}, 0))
    final = MadeUp(lambda _: 80.0).one(race.spec("adam", {"lr": 0.1}, 1))
    listener = TensorBoard(tmp_path / "logs")
    listener.hear(RunBegun("tuning", trial.spec))
    assert not (tmp_path / "logs").exists()
    whole = list(trial.epochs)
    for epochs in (2, 4, 4):  # as with halving, and a rung that found it finished
        trial.epochs = whole[:epochs]
        listener.hear(RunEnded("tuning", trial, epochs))
    listener.hear(RunEnded("final", final, None))
    one = curves(tmp_path / "logs" / f"tuning-adam-seed0-{trial.spec.id[:6]}")
    assert sorted(one) == ["accuracy/validation", "loss/train", "loss/validation"]
    assert one["accuracy/validation"] == [(1, 20.0), (2, 40.0), (3, 60.0), (4, 80.0)]
    other = curves(tmp_path / "logs" / f"final-adam-seed1-{final.spec.id[:6]}")
    assert other["accuracy/test"][-1] == (4, 79.0)
