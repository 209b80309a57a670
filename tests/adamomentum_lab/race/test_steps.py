"""Times and memory of an update: measured apart, and shown in place of those of loaded workers."""

from dataclasses import replace

import pytest

from adamomentum_lab.catalog import find_workload
from adamomentum_lab.engine.inline import Inline
from adamomentum_lab.engine.store import Store
from adamomentum_lab.race.plan import make_plan
from adamomentum_lab.race.race import run_race
from adamomentum_lab.race.record import Record
from adamomentum_lab.race.result import Result
from adamomentum_lab.race.steps import with_steps
from adamomentum_lab.report.data import as_json
from adamomentum_lab.report.savings import of_steps, time_ratio
from adamomentum_lab.training import stopwatch
from tests.adamomentum_lab.problems import write_problem
from tests.adamomentum_lab.races import race_of


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("steps")
    origin = find_workload(str(write_problem(folder, "bowl")))
    race = race_of(origin, "adamw", "sgdm", trials=0, seeds=1, scale="smoke")
    store = Store(folder / "runs")
    result = run_race(make_plan(race, origin.load()), origin, store, Inline(store))
    return replace(result, record=with_steps(result.record, origin, store)), origin, store


def test_every_contender_is_measured(measured):
    result, _, _ = measured
    assert set(result.steps) == {"adamw", "sgdm"}
    for step in result.steps.values():
        assert 0 < step.low <= step.milliseconds <= step.high
        assert step.updates >= stopwatch.TURN
        assert 0 < step.alone <= 1
    # AdamW keeps two numbers for each parameter, SGD with momentum one.
    assert result.steps["adamw"].memory > result.steps["sgdm"].memory > 0
    assert time_ratio("sgdm", result) > 0
    assert "in turns" in of_steps(result)


def test_the_record_keeps_them_and_nothing_else_changes(measured):
    result, _, _ = measured
    again = Result(Record.from_json(result.record.as_json()), result.name)
    assert again.steps == result.steps
    shown = {row["optimizer"]: row["machine"] for row in as_json(result)["ranking"]}
    assert shown["adamw"]["step"]["milliseconds"] == result.steps["adamw"].milliseconds
    assert set(shown["adamw"]) == {"step"}


def test_damaged_times_are_left_out(measured):
    result, _, _ = measured
    for steps in ({}, {"adamw": 1}, "x", {"adamw": {"milliseconds": 1.0}}):
        machine = {**result.record.machine, "steps": steps}
        bad = Result(replace(result.record, machine=machine))
        assert bad.steps == {}
        assert time_ratio("sgdm", bad) is None
        assert "were not measured" in of_steps(bad)


def test_no_run_is_repeated_or_changed(measured):
    result, origin, store = measured
    before = {run.id: store.get(run.spec).epochs for run in result.runs}
    with_steps(result.record, origin, store)
    assert {run.id: store.get(run.spec).epochs for run in result.runs} == before
