"""What every engine must do: the numbers of one process, each run once, nothing lost.

An engine is one line in ENGINES. Those whose runs have processes of their own also survive a death.
"""

import importlib.util
from dataclasses import replace

import pytest

from adamomentum_lab.engine.events import EpochEnded, RunBegun, RunEnded, RunUpdated
from adamomentum_lab.engine.factory import ENGINES as NAMES
from adamomentum_lab.engine.factory import make_engine
from adamomentum_lab.engine.inline import Inline
from adamomentum_lab.engine.job import execute
from adamomentum_lab.engine.store import Store
from tests.adamomentum_lab.engine.test_local import jobs_of

ENGINES = {
    "inline": lambda store: Inline(store, lambda _: None),
    "local": lambda store: make_engine("local", store, lambda _: None, jobs=2),
    "ray": lambda store: make_engine("ray", store, lambda _: None, jobs=2),
}
WITH_PROCESSES = ("local", "ray")
pytestmark = [
    pytest.mark.slow,
    # Ray's own, of files and processes that it leaves to the end of the interpreter
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module", params=list(ENGINES))
def started(request, tmp_path_factory):
    """Once for all tests: workers take seconds to start."""
    if request.param == "ray" and importlib.util.find_spec("ray") is None:
        pytest.skip("needs Ray: pip install 'adamomentum[ray]'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("RAY_ADDRESS", raising=False)
        with ENGINES[request.param](Store(tmp_path_factory.mktemp("runs"))) as engine:
            yield request.param, engine


@pytest.fixture
def engine(started, tmp_path):
    name, engine = started
    engine.store, engine.name, engine.said = Store(tmp_path / "runs"), name, []
    engine.say = engine.said.append
    return engine


def test_every_engine_has_a_line():
    assert {*NAMES} <= {*ENGINES}


def test_its_runs_equal_those_of_one_process_and_come_in_order(engine, tmp_path):
    jobs = jobs_of(engine.store, tmp_path, "plain", [1, 2, 3])
    events = []
    runs = engine.run(jobs, events.append)
    assert [run.spec for run in runs] == [job.spec for job in jobs]
    for job, run in zip(jobs, runs, strict=True):
        folder = tmp_path / f"alone{job.spec.seed}"
        folder.mkdir()
        assert run.epochs == execute(replace(job, folder=folder)).epochs
        assert run.status == engine.store.get(job.spec).status == "done"
        assert engine.store.get(job.spec).epochs == run.epochs
        own = [e for e in events if e.spec == run.spec and not isinstance(e, RunUpdated)]
        assert own[0] == RunBegun("final", run.spec)
        assert [e.record for e in own[1:-1] if isinstance(e, EpochEnded)] == run.epochs
        assert own[-1] == RunEnded("final", run, None)


def test_a_finished_run_is_not_repeated(engine, tmp_path):
    jobs = jobs_of(engine.store, tmp_path, "plain", [1, 2])
    first = engine.run(jobs[:1])
    events = []
    runs = engine.run(jobs, events.append)
    assert runs[0].epochs == first[0].epochs
    assert {event.spec.seed for event in events if isinstance(event, RunBegun)} == {2}
    assert engine.said == ["1 of 2 runs were already finished."]


def test_runs_that_follow_from_others_are_done_too(engine, tmp_path):
    """Also where a run that others follow from was finished before."""
    jobs = jobs_of(engine.store, tmp_path, "plain", [1, 2, 3])
    engine.run([jobs[0], jobs[2]])
    after, ended = {jobs[0].spec.id: [jobs[1]], jobs[1].spec.id: [jobs[2]]}, []

    def follow(job, run):
        ended.append((job.spec.seed, run.status))
        return after.pop(job.spec.id, [])

    assert [run.spec.seed for run in engine.run(jobs[:1], follow=follow)] == [1]
    assert ended == [(1, "done"), (2, "done"), (3, "done")]


def test_a_part_of_a_run_is_continued(engine, tmp_path):
    (job,) = jobs_of(engine.store, tmp_path, "plain", [1])
    (part,) = engine.run([replace(job, epochs=2)])
    (whole,) = engine.run([job])
    assert part.epochs == whole.epochs[:2]
    assert (part.status, len(whole.epochs), whole.status) == ("stopped", 4, "done")


def test_a_run_that_fails_is_stored_and_the_others_go_on(engine, tmp_path):
    store = engine.store
    jobs = [*jobs_of(store, tmp_path, "raises", [1]), *jobs_of(store, tmp_path, "plain", [1])]
    failed, done = engine.run(jobs)
    assert (failed.status, done.status) == ("failed", "done")
    assert "raises.py" in failed.error
    assert "this is the user's own fault" in failed.error
    assert store.get(jobs[0].spec).status == "failed"


def test_a_run_whose_process_dies_is_tried_again_with_the_same_numbers(engine, tmp_path):
    if engine.name not in WITH_PROCESSES:
        pytest.skip("its runs have no process of their own")
    (job,) = jobs_of(engine.store, tmp_path, "dies_once", [1])
    (run,) = engine.run([job])
    (plain,) = engine.run(jobs_of(engine.store, tmp_path, "plain", [1]))
    assert run.status == "done"
    assert run.epochs == plain.epochs
    assert any("the run is tried again" in line for line in engine.said)
