"""The stream of events, and who listens to it."""

from adamomentum_lab.engine import driver
from adamomentum_lab.engine.events import EpochEnded, RunBegun, RunEnded, RunUpdated, broadcast
from adamomentum_lab.engine.inline import Inline
from adamomentum_lab.engine.store import Store
from adamomentum_lab.race.plan import make_plan
from adamomentum_lab.race.race import run_race
from tests.adamomentum_lab.engine.test_local import jobs_of
from tests.adamomentum_lab.races import MadeUp, noisy, problem, race_of


def made_up_race(folder, *listeners, **options):
    """A race with made-up scores: its result and what the engine said."""
    origin, engine = problem(folder), MadeUp(noisy)
    plan = make_plan(race_of(origin, "adam", "sgdm", **options), origin.load())
    return run_race(plan, origin, Store(folder / "runs"), engine, listeners), engine.said


def test_a_listener_that_raises_is_reported_once_and_loses_no_race(tmp_path):
    before, after, calls = [], [], []

    def tracker(event):
        calls.append(event)
        raise ConnectionError("no route to the tracker")

    result, said = made_up_race(tmp_path, before.append, tracker, after.append, trials=2, seeds=2)
    assert len(result.runs) == 8
    assert before == after
    assert len(before) == 8
    assert calls == before[:1]
    name = "test_a_listener_that_raises_is_reported_once_and_loses_no_race.<locals>.tracker"
    why = "ConnectionError: no route to the tracker"
    assert said == [f"The listener {name} failed ({why}); the race goes on without it."]


def test_events_tell_what_a_tracker_needs(tmp_path):
    """sgdm is worse: it is also run at the settings that its search tried beside the best."""
    events = []
    made_up_race(tmp_path, events.append, trials=2, seeds=3)
    runs = [event for event in events if isinstance(event, RunEnded)]
    stages = [event.stage for event in runs]
    assert stages[:10] == ["tuning"] * 4 + ["final"] * 6
    assert {*stages[10:]} == {"check"}
    assert [event.spec.seed for event in runs[:10]] == [0] * 4 + [1, 2, 3] * 2
    assert {event.spec.seed for event in runs[10:]} == {1, 2, 3}
    assert {event.spec.optimizer for event in runs} == {"adam", "sgdm"}
    assert {event.run.status for event in runs} == {"done"}
    added = [event for event in events if not isinstance(event, RunEnded)]
    assert {(event.stage, event.optimizer) for event in added} == {("check", "sgdm")}
    assert sum(event.runs for event in added) == len(runs) - 10
    # They are announced before they take place.
    assert events.index(added[0]) == 10


def test_test_scores_of_a_trial_are_not_shown():
    record = {"epoch": 3, "train": {"a": 1.0}, "validation": {"a": 2.0}, "test": {"a": 3.0}}
    final = EpochEnded("final", None, record, 0.1)
    assert final.epoch == 3
    assert list(final.scores) == ["train", "validation", "test"]
    assert list(EpochEnded("tuning", None, record, 0.1).scores) == ["train", "validation"]


def test_a_run_in_this_process_tells_how_far_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "UPDATE_SECONDS", 0.0)
    store, events = Store(tmp_path / "runs"), []
    (run,) = Inline(store).run(jobs_of(store, tmp_path, "plain", [1]), events.append)
    assert events[0] == RunBegun("final", run.spec)
    assert events[-1] == RunEnded("final", run, None)
    # Seven updates in each of four epochs, all of them before the epoch's end.
    updates = [event for event in events[1:-1] if isinstance(event, RunUpdated)]
    assert [event.epoch for event in updates] == [i // 7 + i % 7 / 7 for i in range(28)]
    epochs = [i for i, event in enumerate(events) if isinstance(event, EpochEnded)]
    assert epochs == [8, 16, 24, 32]


def test_an_error_without_words_does_not_end_the_race():
    class MuteError(Exception):
        def __str__(self):
            raise ValueError

    def listener(_):
        raise MuteError

    said = []
    emit = broadcast([listener], said.append)
    emit(None)
    emit(None)
    (line,) = said
    assert line.endswith("listener failed (MuteError); the race goes on without it.")
