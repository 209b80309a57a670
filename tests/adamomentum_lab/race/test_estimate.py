"""What a race will cost, before it starts."""

import dataclasses

import pytest

from adamomentum_lab.engine.inline import Inline
from adamomentum_lab.engine.job import Job
from adamomentum_lab.engine.store import Store
from adamomentum_lab.errors import LabError
from adamomentum_lab.race.estimate import Cost, duration, estimate, size
from adamomentum_lab.race.plan import Race, make_plan
from tests.adamomentum_lab.races import problem


def test_counts_what_is_left(tmp_path):
    origin = problem(tmp_path, epochs={"smoke": 2, "mini": 3, "full": 3}, batch=16)
    race = Race(origin.name, origin.code, ("adam", "sgdm"), 0, 2, "mini", "fair")
    plan = make_plan(race, origin.load())
    store = Store(tmp_path / "runs")
    cost = estimate(plan, origin, store)
    updates = len(origin.load()("mini").source(origin.load()("mini").splits().train, True))
    assert (cost.runs, cost.updates) == (4, 4 * 3 * updates)
    assert set(cost.milliseconds) == {"adam", "sgdm"}
    assert 0 < cost.longest <= cost.seconds == cost.wall(1)
    assert cost.wall(2) == pytest.approx(max(cost.seconds / 2, cost.longest))
    assert cost.memory > 10**6
    assert cost.disk > 0
    assert "4 runs" in cost.words(2)
    # Nothing of it is kept, and what is finished is not counted.
    assert sorted(p.name for p in store.folder.iterdir() if p.is_dir()) == []
    assert store.all() == []
    spec = race.spec("adam", plan.starts["adam"], 1)
    Inline(store).run([Job(spec, origin, store.folder_of(spec))])
    assert estimate(plan, origin, store).runs == 3


def test_disk_is_that_of_the_checkpoints(tmp_path):
    origin = problem(tmp_path, epochs=2, batch=16)
    race = Race(origin.name, origin.code, ("adam",), 0, 1, "mini", "fair")
    store = Store(tmp_path / "runs")
    plan = make_plan(race, origin.load())
    cost = estimate(plan, origin, store)
    spec = race.spec("adam", plan.starts["adam"], 1)
    Inline(store).run([Job(spec, origin, store.folder_of(spec))])
    one = max(file.stat().st_size for file in store.folder_of(spec).glob("*.ckpt"))
    assert cost.disk == pytest.approx(2 * one, rel=0.1)


def test_missing_data_is_one_sentence(tmp_path):
    origin = problem(tmp_path, epochs=1)
    text = origin.file.read_text(encoding="utf-8") + (
        "\n    def splits(self):\n"
        "        from adamomentum_lab.errors import LabError\n"
        "        raise LabError('the file of numbers is missing.')\n"
    )
    origin.file.write_text(text, encoding="utf-8")
    from adamomentum_lab.catalog import find_workload

    origin = find_workload(str(origin.file))
    race = Race(origin.name, origin.code, ("adam",), 0, 1, "mini", "fair")
    plan = make_plan(race, origin.load())
    with pytest.raises(LabError, match="numbers is missing"):
        estimate(plan, origin, Store(tmp_path / "runs"))


def test_shortages(tmp_path):
    cost = Cost(runs=1, updates=10, seconds=2.0, longest=2.0, disk=10**18, memory=10**15)
    disk, memory = cost.shortages(tmp_path, jobs=2)
    assert "free disk" in disk
    assert "--jobs" in memory
    assert dataclasses.replace(cost, disk=0, memory=1).shortages(tmp_path) == []


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.5, "0.5 s"),
        (90, "90 s"),
        (300, "5.0 minutes"),
        (10**4, "2.8 hours"),
        (10**6, "11.6 days"),
    ],
)
def test_durations(seconds, words):
    assert duration(seconds) == words


def test_sizes():
    words = [size(n) for n in (12, 1_500, 12_000, 3 * 10**9, 2 * 10**12)]
    assert words == ["12 bytes", "1.5 kB", "12 kB", "3.0 GB", "2.0 TB"]
