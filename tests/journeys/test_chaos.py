"""Races under kills, stops, full disks and lack of memory: no result lost, none false."""

import importlib.util
import json
import os
from pathlib import Path

import pytest

from tests.adamomentum_lab.command_line import run_process, without_machine
from tests.journeys.chaos import Chaos, compare, find_local, find_ray, write_slow

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc"),
]


def words_of(folder, name, trials, seeds, *more):
    words = ["race", write_slow(folder), "--optimizers", "adamw,adamomentum,sgdm"]
    words += ["--trials", trials, "--seeds", seeds, "--certify", 0, "--json"]
    return [*words, "--jobs", 2, "--runs", folder / name, *more]


def chaos(folder, faults, trials, seeds, seed, *more, find=find_local):
    quick = {"SECONDS_PER_UPDATE": "0"}
    done = run_process(*words_of(folder, "calm", trials, seeds), env=quick)
    assert done.returncode == 0, done.stderr
    calm = json.loads(done.stdout)
    words = words_of(folder, "wild", trials, seeds, *more)
    race = Chaos(words, seed, {"SECONDS_PER_UPDATE": "0.02"}, find)
    wild = race.run(faults)
    lost, false = compare(wild, calm)
    print(f"{dict(race.done)}, {race.starts} starts, {len(calm['runs'])} runs, {lost=} {false=}")  # noqa: T201
    assert (lost, false) == (0, 0)
    assert without_machine(wild)["verdicts"] == without_machine(calm)["verdicts"]
    return race


def test_a_race_under_some_faults_equals_an_undisturbed_one(no_workers, tmp_path):
    race = chaos(tmp_path, 4, 0, 3, 1)
    assert sum(race.done.values()) == 4


long = pytest.mark.skipif(
    "ADAMOMENTUM_CHAOS" not in os.environ, reason="half an hour and more: set ADAMOMENTUM_CHAOS=1"
)


@long
@pytest.mark.full
def test_a_race_under_a_hundred_faults_equals_an_undisturbed_one(no_workers, tmp_path):
    race = chaos(tmp_path, 100, 4, 8, 2)
    assert sum(race.done.values()) >= 100
    assert len(race.done) == 6


@long
@pytest.mark.full
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray")
def test_a_race_on_ray_under_faults_equals_an_undisturbed_one(tmp_path, monkeypatch):
    """Actors and tasks of Ray are killed while they train, and so is the process of its node."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    race = chaos(tmp_path, 5, 0, 4, 3, "--engine", "ray", find=find_ray)
    assert sum(race.done.values()) >= 5
