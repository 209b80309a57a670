"""The engine of worker processes: what happens when work goes wrong."""

import contextlib
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
from adamomentum_lab.files import locked
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


def has_ended(mark):
    """Whether the process whose number is in a file is gone, or waits for nothing but that."""
    state = Path(f"/proc/{mark.read_text()}/stat")
    return not state.exists() or state.read_text().split()[2] == "Z"


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
    found = local._Worker({}, 1)
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
        worker = local._Worker({}, 1)
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
        local._Worker({}, 1)


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
    how = "its process was ended by SIGKILL; memory may have run out"
    assert engine.said == [f"adamomentum on plain, seed 1: {how}; the run is tried again."]
    assert time.monotonic() - begun < 60  # most of it for the new worker
    assert has_ended(job.reference.file.with_suffix(".child"))


# Fails if anything is not as in a new process, and leaves everything otherwise when it ends.
LEAVES_A_MESS = """
    epochs = 1

    def data(self):
        import locale, random, signal, sys, threading, warnings
        import numpy
        found = {
            "dtype": torch.get_default_dtype() == torch.float32,
            "threads of torch": torch.get_num_threads() == 1,
            "deterministic": not torch.are_deterministic_algorithms_enabled(),
            "gradients": torch.is_grad_enabled(),
            "anomalies": not torch.is_anomaly_enabled(),
            "precision": torch.get_float32_matmul_precision() == "highest",
            "device": torch.get_default_device().type == "cpu",
            "environment": "MESS" not in os.environ,
            "folder": os.getcwd() != "/",
            "path": "/mess" not in sys.path,
            "module": not hasattr(torch, "mess"),
            "hook": not torch.nn.modules.module._global_forward_hooks,
            "warnings": BytesWarning not in [filter[2] for filter in warnings.filters[:1]],
            "numpy": numpy.geterr()["over"] == "warn",
            "threads": "mess" not in [thread.name for thread in threading.enumerate()],
            "recursion": sys.getrecursionlimit() != 4321,
            "mask": os.umask(0o22) != 0o77,
            "signal": signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL,
        }
        if leaked := [name for name, same in found.items() if not same]:
            raise RuntimeError(f"leaked: {leaked}")
        self.drawn = random.random() + numpy.random.rand()
        self.drawn += 1e-3 * list({"a", "b", "c"}).index("a")
        x = torch.randn(200, 5)
        y = (x[:, 0] > 0).long()
        return Data((x[:100], y[:100]), (x[100:150], y[100:150]), (x[150:], y[150:]))

    def evaluate(self, model, split):
        import random, signal, sys, threading, time, warnings
        import numpy
        if len(split[0]) == 50 and self.evaluated:
            torch.set_default_dtype(torch.float64)
            torch.set_num_threads(2)
            torch.use_deterministic_algorithms(True)
            torch._C._set_grad_enabled(False)
            torch.autograd.set_detect_anomaly(True)
            torch.set_float32_matmul_precision("medium")
            torch.set_default_device("meta")
            os.environ["MESS"] = "1"
            os.chdir("/")
            sys.path.append("/mess")
            torch.mess = True
            torch.nn.modules.module.register_module_forward_hook(lambda *_: None)
            warnings.filterwarnings("error", category=BytesWarning)
            numpy.seterr(over="raise")
            threading.Thread(target=time.sleep, args=(300,), name="mess", daemon=True).start()
            sys.setrecursionlimit(4321)
            os.umask(0o77)
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
            random.seed(7)
            numpy.random.seed(7)
        self.evaluated = True
        return {"loss": 1.0, "accuracy": self.drawn}

    evaluated = False
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_begins_in_a_new_process_whatever_the_one_before_did(engine, tmp_path, workers):
    engine._workers = workers
    runs = engine.run(jobs_of(engine.store, tmp_path, "plain", range(6), LEAVES_A_MESS))
    assert [(run.status, run.error) for run in runs] == [("done", None)] * 6
    # Data is the same for all seeds, also what is drawn with the generators of Python and NumPy.
    assert len({run.epochs[0]["test"]["accuracy"] for run in runs}) == 1


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_a_worker_runs_nothing_itself(one_at_a_time, tmp_path):
    """With a second thread, as OpenMP starts them, its forks might hang."""
    engine = one_at_a_time
    engine.run(jobs_of(engine.store, tmp_path, "plain", range(2)))
    [worker] = [one for one in engine._running if one.is_alive][:1]
    pid = worker.process.pid
    assert len(list(Path(f"/proc/{pid}/task").iterdir())) == 1
    maps = Path(f"/proc/{pid}/environ").read_bytes()
    assert b"PYTHONHASHSEED=0" in maps


LEAVES_A_PROCESS = """
    def loss(self, model, batch):
        import subprocess
        file = pathlib.Path(__file__).with_suffix(".left")
        if not file.exists():
            file.write_text(str(subprocess.Popen(["sleep", "300"]).pid))
        return super().loss(model, batch)
"""


def test_what_a_run_has_started_ends_with_it(one_at_a_time, tmp_path):
    engine = one_at_a_time
    (job,) = jobs_of(engine.store, tmp_path, "plain", [1], LEAVES_A_PROCESS)
    assert engine.run([job])[0].status == "done"
    engine.run(jobs_of(engine.store, tmp_path, "bowl", [1]))  # the worker has looked after it
    assert has_ended(job.reference.file.with_suffix(".left"))


# Hangs once, in C and with the interpreter's lock, so that no thread of its own could end it.
HANGS_ONCE = """
    def loss(self, model, batch):
        import ctypes
        mark = pathlib.Path(__file__).with_suffix(".hung")
        if not mark.exists():
            mark.write_text(str(os.getpid()))
            ctypes.PyDLL(None).sleep(1000)
        return super().loss(model, batch)
"""


def test_a_run_that_hangs_is_ended_and_tried_again(one_at_a_time, tmp_path, monkeypatch):
    engine = one_at_a_time
    monkeypatch.setattr(engine, "limit", 8.0)
    (job,) = jobs_of(engine.store, tmp_path, "plain", [1], HANGS_ONCE)
    (run,) = engine.run([job])
    assert run.status == "done"
    [said] = engine.said
    assert "it took longer than 8 s (--run-timeout) and was ended; its last sign of life" in said
    assert has_ended(job.reference.file.with_suffix(".hung"))


DRIVER = """
import sys
from pathlib import Path
from adamomentum_lab.engine.local import Local
from adamomentum_lab.engine.store import Store
from tests.adamomentum_lab.engine.test_local import HANGS_ONCE, jobs_of

folder = Path(sys.argv[1])
store = Store(folder / "runs")
with Local(store, 1, print) as engine:
    engine.run(jobs_of(store, folder, "plain", [1], HANGS_ONCE))
"""


def test_a_run_that_hangs_ends_with_its_driver_and_frees_its_lock(engine, tmp_path):
    """Also if it holds the interpreter's lock, and its driver is killed."""
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(tmp_path)])
    mark = tmp_path / "plain.hung"
    while not (mark.exists() and mark.read_text()):
        time.sleep(0.1)
        assert driver.poll() is None
    driver.kill()
    driver.wait()
    (run,) = engine.run(jobs_of(engine.store, tmp_path, "plain", [1], HANGS_ONCE))
    assert run.status == "done"
    deadline = time.monotonic() + 30  # a process frees its lock a moment before it has ended
    while not has_ended(mark):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_race_that_waits_for_a_run_says_for_whom(one_at_a_time, tmp_path, monkeypatch):
    engine = one_at_a_time
    (job,) = jobs_of(engine.store, tmp_path, "plain", [1])
    job.folder.mkdir(parents=True)
    released = []

    def say(line):
        engine.said.append(line)
        holding.close()
        released.append(True)

    holding = contextlib.ExitStack()
    holding.enter_context(locked(job.folder / "lock"))
    monkeypatch.setattr(engine, "say", say)
    (run,) = engine.run([job])
    assert (run.status, released) == ("done", [True])
    [said] = engine.said
    assert said.startswith(f"another process is training the run in {job.folder}. It is process ")
    assert f"process {os.getpid()}, since 20" in said
    assert said.endswith(f"`kill {os.getpid()}` ends it. This race waits for it.")
