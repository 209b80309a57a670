"""Progress in words, and how much is left."""

from adamomentum_lab.catalog import find_workload
from adamomentum_lab.engine.events import EpochEnded, RunBegun, RunEnded, RunsAdded, RunsDropped
from adamomentum_lab.engine.store import Run
from adamomentum_lab.race.plan import make_plan
from adamomentum_lab.report.progress import Pace, RaceDisplay, duration
from tests.adamomentum_lab.races import MadeUp, race_of


def test_durations():
    assert [duration(s) for s in (0.2, 40, 100, 720, 7200, 86400 * 3)] == [
        "1 s", "40 s", "2 min", "12 min", "2 h", "3 days"
    ]  # fmt: skip


def halving_plan():
    """Four trials to epoch 5, two to 10, one to 20; then one seed of 20."""
    origin = find_workload("digits_mlp")
    return make_plan(race_of(origin, "adam", trials=4, search="grid", halving=True), origin.load())


def test_the_pace_of_a_race_by_hand():
    plan = halving_plan()
    pace = Pace(plan)
    assert pace.left == plan.all_epochs == 4 * 5 + 2 * 5 + 1 * 10 + 20
    one, other = (plan.race.spec("adam", plan.trials["adam"][i], 0) for i in (0, 1))
    for event, left in (
        (RunBegun("tuning", one), 60),
        (EpochEnded("tuning", one, {"epoch": 1}, 0.1), 59),
        (RunEnded("tuning", Run(one, "diverged"), 5), 55),  # no more epochs of this rung
        (RunEnded("tuning", Run(other, "stopped"), 5), 50),
        (EpochEnded("tuning", other, {"epoch": 6}, 0.1), 49),  # continued in the next rung
        (RunEnded("tuning", Run(other, "stopped"), 10), 45),
        (RunsDropped("tuning", "adam", 1, 10), 35),
    ):
        pace.hear(event)
        assert pace.left == left
    assert pace.computed == 2


def test_the_pace_of_a_bracketing_race_by_hand():
    """Four trials at most and one seed, of 20 epochs. The search ends after three trials, and the
    verdict takes two more runs."""
    origin = find_workload("digits_mlp")
    pace = Pace(make_plan(race_of(origin, "adam", trials=4), origin.load()))
    assert pace.left == 4 * 20 + 20
    pace.hear(RunsDropped("tuning", "adam", 1, 20))
    assert pace.left == 80
    pace.hear(RunsAdded("check", "adam", 2, 40))
    assert pace.left == 120


def test_progress_without_a_terminal_is_lines(capsys):
    """Where there is no terminal. Test scores are not shown before the verdict."""
    plan, engine = halving_plan(), MadeUp(lambda spec: 90.0)
    workload = find_workload("digits_mlp").load()("mini", "fair")
    trial = engine.one(plan.race.spec("adam", plan.trials["adam"][1], 0))
    final = engine.one(plan.race.spec("adam", plan.trials["adam"][0], 1))
    with RaceDisplay(plan, workload) as display:
        display.start()
        trial.status = "stopped"
        display.hear(RunEnded("tuning", trial, 5))
        display.hear(RunsDropped("tuning", "adam", 1, 10))
        display.hear(RunsAdded("check", "adam", 2, 40))
        display.hear(RunEnded("final", final, None))
        display.hear(RunEnded("check", final, None))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("[1/8] tuning: adam, ")
    assert lines[0].endswith(", seed 0: validation 90 after 4 epochs")
    assert lines[1].startswith("[2/9] final: adam, ")
    assert lines[1].endswith(", seed 1: done")
    assert lines[2].startswith("[3/9] check: adam, ")
    assert lines[2].endswith(", seed 1: done")
