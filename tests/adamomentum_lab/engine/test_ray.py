"""The engine of a Ray cluster: the numbers of the local one, whatever dies."""

import json
import os
import signal
import sqlite3
import time
from dataclasses import replace

import pytest

from adamomentum_lab import contenders
from adamomentum_lab.catalog import find_workload
from adamomentum_lab.contenders import find
from adamomentum_lab.engine.events import EpochEnded, RunBegun, RunEnded
from adamomentum_lab.engine.job import Job
from adamomentum_lab.engine.local import Local
from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.engine.store import Store
from adamomentum_lab.errors import LabError
from tests.adamomentum_lab.command_line import run_here, start_process, without_machine
from tests.adamomentum_lab.contenders.user_optimizers import write_lion
from tests.adamomentum_lab.engine.test_local import jobs_of
from tests.adamomentum_lab.problems import HEAD

pytest.importorskip("ray", reason="needs Ray: pip install 'adamomentum[ray]'")

from ray.cluster_utils import Cluster

from adamomentum_lab.engine import ray as engines
from adamomentum_lab.engine.ray import Ray

pytestmark = [
    pytest.mark.slow,
    # Ray's own, of files and processes that it leaves to the end of the interpreter
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
# Its worker is killed once, in the second epoch.
KILLED = """
    updates_done = 0

    def loss(self, model, batch):
        import signal
        mark = pathlib.Path(__file__).with_suffix(".died")
        Problem.updates_done += 1
        if Problem.updates_done == 10 and not mark.exists():
            mark.write_text("")
            os.kill(os.getpid(), signal.SIGKILL)
        return super().loss(model, batch)
"""
SMALL = {"num_cpus": 2, "object_store_memory": engines.STORE_BYTES, "include_dashboard": False}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("RAY_ADDRESS", raising=False)
        cluster = Cluster(initialize_head=True, head_node_args=SMALL)
        yield cluster
        cluster.shutdown()


@pytest.fixture(scope="module")
def connected(cluster):
    with Ray(None, None, cluster.address) as engine:
        yield engine


@pytest.fixture
def engine(connected, tmp_path):
    """On a store of its own, and a list of what it says."""
    connected.store, said = Store(tmp_path / "runs"), []
    connected.say = said.append
    connected.said = said
    return connected


def local(jobs, folder):
    """The same jobs by the local engine, in another folder."""
    store = Store(folder)
    with Local(store, 2, pytest.fail) as engine:
        return engine.run([replace(job, folder=store.folder_of(job.spec)) for job in jobs])


def test_the_numbers_are_those_of_the_local_engine(engine, tmp_path):
    origin = find_workload("digits_mlp")
    specs = [
        Spec.of(
            {"lr": 1e-3},
            workload=origin.name,
            code=origin.code,
            optimizer=name,
            seed=1,
            scale="smoke",
            protocol="fair",
        )
        for name in ("adam", "adamomentum", "sgdm")
    ]
    store = engine.store
    jobs = [Job(spec, origin, store.folder_of(spec)) for spec in specs]
    # One more, of a user's file and a folder that the node cannot reach.
    (far,) = jobs_of(store, tmp_path, "plain", [1])
    jobs.append(replace(far, folder=tmp_path / "not there" / far.spec.id))
    # And one of a user's optimizer.
    lion = find(f"{write_lion(tmp_path)}:Lion")
    own = {"optimizer": "Lion", **contenders.origin("Lion", lion.entry)}
    spec = Spec.of(**{**far.spec.as_json(), "settings": lion.settings, **own})
    jobs.append(Job(spec, far.reference, store.folder_of(spec), entry=lion.entry))
    events = []
    runs = engine.run(jobs, events.append)
    assert [run.spec for run in runs] == [job.spec for job in jobs]
    assert [run.epochs for run in runs] == [run.epochs for run in local(jobs, tmp_path / "local")]
    assert [store.get(run.spec).epochs for run in runs] == [run.epochs for run in runs]
    assert {run.status for run in store.all()} == {"done"}
    for run in runs:
        own = [event for event in events if event.spec == run.spec]
        records = [event.record for event in own if isinstance(event, EpochEnded)]
        assert records == run.epochs
        assert (own[0], own[-1]) == (RunBegun("final", run.spec), RunEnded("final", run, None))
    assert (runs[0].machine["engine"], runs[0].machine["threads"]) == ("ray", 1)
    assert (jobs[0].folder / "last.ckpt").exists()
    assert runs[3].machine["folder"].startswith(os.environ["XDG_CACHE_HOME"])
    # Again costs nothing.
    assert [run.epochs for run in engine.run(jobs)] == [run.epochs for run in runs]
    assert engine.said == ["5 of 5 runs were already finished."]


def test_a_worker_that_is_killed_is_replaced_and_its_run_goes_on(engine, tmp_path):
    file = tmp_path / "killed.py"
    file.write_text(HEAD + KILLED)
    origin = find_workload(str(file))
    (like,) = jobs_of(engine.store, tmp_path, "plain", [1])
    spec = replace(like.spec, workload=origin.name, code=origin.code)
    job = Job(spec, origin, engine.store.folder_of(spec), checkpoint_seconds=0)
    (run,) = engine.run([job])
    assert engine.said == [
        "adamomentum on killed, seed 1: its process ended; the run is tried again."
    ]
    assert run.status == "done"
    assert run.epochs == local([job], tmp_path / "local")[0].epochs


def test_what_always_dies_or_fails_is_marked_while_the_others_go_on(engine, tmp_path):
    problems = [("dies", [1]), ("raises", [1]), ("plain", [1, 2]), ("diverges", [1])]
    jobs = [job for name, seeds in problems for job in jobs_of(engine.store, tmp_path, name, seeds)]
    runs = engine.run(jobs)
    assert [run.status for run in runs] == ["lost", "failed", "done", "done", "diverged"]
    assert runs[0].error == "its process ended, 2 times."
    line = next(
        i for i, text in enumerate((tmp_path / "raises.py").read_text().splitlines(), 1)
        if "raise" in text
    )  # fmt: skip
    assert runs[1].error == (
        f"{tmp_path / 'raises.py'}:{line}: RuntimeError: this is the user's own fault"
    )
    assert [run.status for run in engine.store.get_all(job.spec for job in jobs).values()] == [
        run.status for run in runs
    ]


def test_room_is_counted_by_the_node(connected):
    def slots(cpus, gpus=0.0):
        asking = Ray(None, None, cpus=cpus, gpus=gpus)
        asking._look()
        return asking._slots

    assert [slots(0.1), slots(0.5), slots(1), slots(1.5), slots(2)] == [20, 4, 2, 1, 1]
    with pytest.raises(
        LabError, match=r"no node .* has 3 CPU, .* have 2 CPU, 0 GPU.; lower --cpus-per-run"
    ):
        slots(3)
    with pytest.raises(LabError, match=r"no node of the Ray cluster has 1 CPU and 0\.5 GPU"):
        slots(1, 0.5)


def race(folder, *more):
    args = ["--optimizers", "adam,adamomentum", "--trials", "0", "--seeds", "2"]
    return ["race", folder / "slow.py", *args, "--scale", "mini", "--json", *more]


def wait_for(condition, process):
    deadline = time.monotonic() + 300
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def rows(folder, query):
    with sqlite3.connect(f"file:{folder / 'runs.sqlite'}?mode=ro", uri=True) as db:
        found = db.execute(query).fetchall()
    db.close()
    return found


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The race of the next two tests, by the local engine."""
    folder = tmp_path_factory.mktemp("local")
    jobs_of(Store(folder / "runs"), folder, "slow", [1])
    done = run_here(*race(folder), "--runs", folder / "runs", env={"SECONDS_PER_UPDATE": "0"})
    assert done.returncode == 0, done.stderr
    return without_machine(json.loads(done.stdout))


@pytest.mark.full
def test_a_driver_that_is_killed_starts_again(cluster, tmp_path, expected):
    runs = tmp_path / "runs"
    jobs_of(Store(runs), tmp_path, "slow", [1])
    args = [*race(tmp_path), "--engine", "ray", "--address", cluster.address, "--runs", runs]
    process = start_process(*args, env={"SECONDS_PER_UPDATE": "0.05"})
    # Two runs are done and two have begun.
    done = "SELECT id, updated FROM runs WHERE status = 'done'"
    wait_for(lambda: len(rows(runs, done)) == 2 and len(list(runs.glob("*/lock"))) > 2, process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    before = rows(runs, done)
    again = start_process(*args, env={"SECONDS_PER_UPDATE": "0.05"})
    out, err = again.communicate(timeout=300)
    assert again.returncode == 0, err
    assert f"{len(before)} of 4 runs were already finished." in err
    assert without_machine(json.loads(out)) == expected
    # Every run was finished once, and has each epoch once.
    assert set(before) <= set(rows(runs, done))
    assert rows(runs, "SELECT status, count(*) FROM runs GROUP BY status") == [("done", 4)]
    assert rows(runs, "SELECT count(*) FROM epochs GROUP BY run") == [(4,)] * 4
    assert rows(runs, "PRAGMA integrity_check") == [("ok",)]


def test_an_interrupted_race_on_a_ray_of_its_own_continues(no_workers, tmp_path, expected):
    runs = tmp_path / "runs"
    jobs_of(Store(runs), tmp_path, "slow", [1])
    args = [*race(tmp_path), "--runs", runs]
    process = start_process(
        *args, "--engine", "ray", "--jobs", "2", env={"SECONDS_PER_UPDATE": "0.1"}
    )
    wait_for(lambda: len(list(runs.glob("*/lock"))) == 2, process)
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to all of them
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert out == ""
    assert err.splitlines()[-1] == "interrupted; run the same command to resume"
    assert "Traceback" not in err
    assert len(list(runs.glob("*/last.ckpt"))) == 2
    done = run_here(*args, env={"SECONDS_PER_UPDATE": "0"})
    assert without_machine(json.loads(done.stdout)) == expected


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        (
            "127.0.0.1:1",
            r"no Ray cluster answers at 127.0.0.1:1 .*\. `ray start --head` on one mach",
        ),
        ("127.0.0.1:99999999", "no Ray cluster answers"),
        (
            "nowhere",
            "'nowhere' is not the address of a Ray cluster. Use one such as 10.0.0.1:6379",
        ),
        ("ray://127.0.0.1:10001", "is not the address of a Ray cluster"),
    ],
)
def test_a_wrong_address(address, sentence):
    with pytest.raises(LabError, match=sentence), Ray(None, None, address):
        pass


def test_a_node_runs_the_drivers_code_or_none(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (job,) = jobs_of(Store(tmp_path / "runs"), tmp_path, "plain", [1])
    content = job.reference.file.read_bytes()
    parcel = engines._Parcel(job, content, None, {"ADAMOMENTUM_OF_A_TEST": "1"})
    monkeypatch.delenv("ADAMOMENTUM_OF_A_TEST", raising=False)
    assert engines._unpack_job(parcel).reference == job.reference  # the same file is there
    assert os.environ["ADAMOMENTUM_OF_A_TEST"] == "1"
    job.reference.file.write_text("another problem, on this node")
    here = engines._unpack_job(parcel).reference
    assert here.file.is_relative_to(tmp_path / "cache")
    assert (here.file.read_bytes(), here.code) == (content, job.reference.code)
    file = write_lion(tmp_path)
    lion, code = find(f"{file}:Lion"), file.read_bytes()
    assert engines._unpack_entry(lion.entry, code) == lion.entry
    file.write_text("another optimizer, on this node")
    there = engines._unpack_entry(lion.entry, code)
    assert there.file.is_relative_to(tmp_path / "cache")
    contenders._make.cache_clear()
    assert contenders.load("Lion", there).settings == lion.settings
    with pytest.raises(LabError, match=r"lion\.py:Lion imports modules that .*; install the same"):
        engines._unpack_entry(replace(lion.entry, code="0123456789ab"), code)
    other = replace(job, reference=replace(job.reference, code="0123456789ab"))
    with pytest.raises(
        LabError, match=r"code of plain on .* differs .*\. Install the same version"
    ):
        engines._unpack_job(replace(parcel, job=other))
    with pytest.raises(LabError, match=r"code of digits_mlp on .* differs"):
        engines._unpack(replace(find_workload("digits_mlp"), code="0123456789ab"), None)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    lost = replace(job, folder=tmp_path / "not there")
    with pytest.raises(LabError, match=r"cannot write to .* on "):
        engines._unpack_job(replace(parcel, job=lost))
