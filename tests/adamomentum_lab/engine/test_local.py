"""The engine of worker processes: what happens when work goes wrong."""

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest

from adamomentum_lab.catalog import find_workload
from adamomentum_lab.engine import driver, local
from adamomentum_lab.engine.events import RunBegun, RunEnded, RunUpdated
from adamomentum_lab.engine.job import Job, execute
from adamomentum_lab.engine.local import Local
from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.engine.store import Run, Store
from adamomentum_lab.errors import LabError
from tests.adamomentum_lab.problems import write_problem

pytestmark = pytest.mark.slow


def jobs_of(store, folder, problem, seeds, more=""):
    file = write_problem(folder, problem)
    file.write_text(file.read_text() + more)
    origin = find_workload(str(file))
    specs = [
        Spec.of(
            {"lr": 1e-2},
            workload=origin.name,
            code=origin.code,
            optimizer="adamomentum",
            seed=seed,
            scale="mini",
            protocol="fair",
        )
        for seed in seeds
    ]
    return [Job(spec, origin, store.folder_of(spec)) for spec in specs]


@pytest.fixture(scope="module")
def pool():
    """Two workers for all tests: each takes seconds to start."""
    with Local(None, 2, lambda _: None) as engine:
        yield engine


@pytest.fixture
def engine(pool, tmp_path):
    """On a store of its own, and a list of what it says."""
    pool.store, pool.said = Store(tmp_path / "runs"), []
    pool.say = pool.said.append
    return pool


@pytest.fixture
def one_at_a_time(engine, monkeypatch):
    monkeypatch.setattr(engine, "_workers", 1)
    return engine


def test_many_runs_are_those_of_one_process(engine, tmp_path):
    store = engine.store
    jobs = jobs_of(store, tmp_path, "plain", range(5))
    events = []
    runs = engine.run(jobs, events.append)
    assert [run.spec for run in runs] == [job.spec for job in jobs]
    assert {run.status for run in runs} == {"done"}
    events = [event for event in events if not isinstance(event, RunUpdated)]  # in slow epochs
    for run in runs:  # each begins, has its epochs, and ends
        own = [event for event in events if event.spec == run.spec]
        assert own[0] == RunBegun("final", run.spec)
        assert [event.record for event in own[1:-1]] == run.epochs
        assert [event.epoch for event in own[1:-1]] == [1, 2, 3, 4]
        assert own[-1] == RunEnded("final", run, None)
    alone = Job(jobs[3].spec, jobs[3].reference, tmp_path)
    assert execute(alone).epochs == runs[3].epochs == store.get(jobs[3].spec).epochs
    # Again costs nothing, and more may be asked of the same workers.
    events.clear()
    again = engine.run([*jobs, *jobs_of(store, tmp_path, "plain", [9])], events.append)
    assert [run.epochs for run in again[:5]] == [run.epochs for run in runs]
    assert engine.said == ["5 of 6 runs were already finished."]
    assert events[:5] == [RunEnded("final", run, None) for run in runs]
    assert {event.spec.seed for event in events[5:]} == {9}
    assert len(store.all()) == 6


def test_finished_runs_cost_two_queries_and_no_worker(tmp_path):
    store = Store(tmp_path / "runs")
    jobs = jobs_of(store, tmp_path, "plain", range(200))
    for job in jobs:
        store.finish(Run(job.spec, "done", [{"epoch": 1}], [0.1]))
    asked, events = [], []
    store._db.set_trace_callback(asked.append)
    engine = Local(store, 2, lambda line: None)
    runs = engine.run(jobs, events.append)
    assert runs == [event.run for event in events]
    assert [run.spec for run in runs] == [job.spec for job in jobs]
    assert sum(text.startswith("SELECT") for text in asked) == 2
    assert engine._running == []
    assert [path.name for path in store.folder.iterdir() if path.is_dir()] == []


def test_a_worker_that_dies_is_replaced_and_its_run_tried_again(one_at_a_time, tmp_path):
    engine = one_at_a_time
    runs = engine.run(jobs_of(engine.store, tmp_path, "dies_once", [1, 2]))
    assert [run.status for run in runs] == ["done", "done"]
    assert engine.said == [
        "adamomentum on dies_once, seed 1: its process ended with status 9; the run is tried again."
    ]


def test_a_run_that_always_dies_is_marked_while_the_others_go_on(engine, tmp_path, monkeypatch):
    store = engine.store
    jobs = [*jobs_of(store, tmp_path, "dies", [1]), *jobs_of(store, tmp_path, "plain", [1, 2])]
    runs = engine.run(jobs)
    assert [run.status for run in runs] == ["failed", "done", "done"]
    assert runs[0].error == "its process ended with status 9, 2 times."
    assert engine.said[-1] == f"adamomentum on dies, seed 1 failed: {runs[0].error}"
    # Asked for again, it is tried again.
    monkeypatch.setattr(driver, "ATTEMPTS", 1)  # another process takes seconds to start
    said = len(engine.said)
    assert engine.run(jobs[:1])[0].status == "failed"
    assert len(engine.said) > said
    assert store.get(jobs[0].spec).status == "failed"


def test_an_error_in_the_users_file_names_its_line(engine, tmp_path):
    jobs = jobs_of(engine.store, tmp_path, "raises", [1])
    (run,) = engine.run(jobs)
    lines = jobs[0].reference.file.read_text().splitlines()
    line = next(i for i, text in enumerate(lines, 1) if "raise" in text)
    assert (
        run.error == f"{jobs[0].reference.file}:{line}: RuntimeError: this is the user's own fault"
    )


def test_an_error_that_every_run_shares_ends_the_race(one_at_a_time, tmp_path):
    engine = one_at_a_time
    jobs = jobs_of(engine.store, tmp_path, "raises", range(20))
    with pytest.raises(LabError, match=r"own fault \(The first 4 runs all failed this way\.\)"):
        engine.run(jobs)
    assert len(engine.said) == 4


def test_divergence_is_a_result(engine, tmp_path):
    (run,) = engine.run(jobs_of(engine.store, tmp_path, "diverges", [1]))
    assert (run.status, run.epochs) == ("diverged", [])
    assert engine.said == []
    assert engine.store.get(run.spec).status == "diverged"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="an option of glibc")
def test_a_run_uses_its_memory_again():
    script = """
import resource, torch
from adamomentum_lab.engine.job import keep_memory

def new_pages():
    torch.ones(2**24)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(2**24)  # 64 MiB, freed at once
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

usual = new_pages()
keep_memory()
new_pages()  # small blocks may split the first large ones that are freed
print(usual, new_pages())
"""
    done = subprocess.check_output([sys.executable, "-c", script], text=True)
    usual, kept = map(int, done.split())
    assert kept < usual / 10


@pytest.fixture
def worker():
    """One that is only starting."""
    found = local._Worker()
    yield found
    found.end(0)


def test_a_worker_has_a_session_of_its_own(worker):
    """Ctrl-C in a terminal reaches the driver alone, even while a worker is starting."""
    pid = worker.process.pid
    assert os.getsid(pid) == os.getpgid(pid) == pid != os.getpgrp()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_a_worker_inherits_no_open_file(tmp_path):
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        worker = local._Worker()
        folder = Path(f"/proc/{worker.process.pid}/fd")
        found = {int(link.name): os.readlink(link) for link in folder.iterdir()}
        worker.end(0)
    assert found[0] == "/dev/null"
    assert str(tmp_path / "open") not in found.values()


def test_a_worker_that_cannot_start_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch.so is not there')")
    monkeypatch.syspath_prepend(tmp_path)  # of this process, and so of the worker
    store = Store(tmp_path / "runs")
    with (
        Local(store, 1, pytest.fail) as engine,
        pytest.raises(
            LabError, match=r"^a worker cannot start: ImportError: libtorch\.so is not there$"
        ),
    ):
        engine.run(jobs_of(store, tmp_path, "plain", [1]))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(LabError, match=r"^cannot start a worker \(.*No such file"):
        local._Worker()


# Its worker forks and is killed, once; the child lives on, with all that was open.
LEAVES_A_CHILD = """
    def loss(self, model, batch):
        import signal, time
        mark = pathlib.Path(__file__).with_suffix(".child")
        if not mark.exists():
            child = os.fork()
            if child == 0:
                time.sleep(300)
                os._exit(0)
            mark.write_text(str(child))
            os.kill(os.getpid(), signal.SIGKILL)
        return super().loss(model, batch)
"""


def test_the_death_of_a_worker_is_noticed_though_its_child_lives(one_at_a_time, tmp_path):
    engine = one_at_a_time
    (job,) = jobs_of(engine.store, tmp_path, "plain", [1], LEAVES_A_CHILD)
    begun = time.monotonic()
    (run,) = engine.run([job])
    assert run.status == "done"
    assert engine.said == [
        "adamomentum on plain, seed 1: its process ended with status -9; the run is tried again."
    ]
    assert time.monotonic() - begun < 60  # most of it for the new worker
    state = Path(f"/proc/{job.reference.file.with_suffix('.child').read_text()}/stat")
    assert not state.exists() or state.read_text().split()[2] == "Z"
