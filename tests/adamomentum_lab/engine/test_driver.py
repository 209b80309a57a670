"""What every engine makes of the ends of its runs: whose fault they are, and what follows."""

import errno
import os

import pytest

from adamomentum_lab.engine.driver import Driver
from adamomentum_lab.engine.events import RunEnded
from adamomentum_lab.engine.messages import Died, Failed
from adamomentum_lab.engine.store import Run, Store
from adamomentum_lab.errors import DiskError, LabError, MachineError, fault_of
from adamomentum_lab.files import translate_errors
from tests.adamomentum_lab.engine.test_local import jobs_of


class Scripted(Driver):
    """An engine whose runs end as a list says."""

    def __init__(self, store, script):
        self.said = []
        super().__init__(store, self.said.append)
        self.script, self.job = list(script), None

    def _room(self, waiting):
        return min(waiting, self.job is None)

    def _give(self, job):
        self.job = job

    def _hear(self):
        job, self.job = self.job, None
        message = self.script.pop(0)
        if message == "done":
            epochs = [{"epoch": 1, "train": {"loss": 1.0}}]
            message = RunEnded(job.stage, Run(job.spec, "done", epochs, [0.1]), None)
        yield job, message

    def close(self):
        pass


def run(tmp_path, *script, seeds=(1,)):
    store = Store(tmp_path / "runs")
    engine = Scripted(store, script)
    return engine, store, lambda: engine.run(jobs_of(store, tmp_path, "plain", seeds))


KILLED = Died("its process was ended by SIGKILL")


@pytest.mark.parametrize(
    ("ends", "status", "error"),
    [
        ((KILLED, "done"), "done", None),
        ((KILLED, KILLED), "lost", "its process was ended by SIGKILL, 2 times."),
        ((Failed(MachineError("no memory.")), "done"), "done", None),
        ((Failed(MachineError("no memory.")),) * 2, "lost", "no memory, 2 times."),
        ((Died("it ended with status 3", by_machine=False),) * 2, "failed", None),
        ((Failed(LabError("mine.py:3: no")),), "failed", "mine.py:3: no"),
    ],
)
def test_faults_of_the_machine_are_told_from_those_of_the_problem(tmp_path, ends, status, error):
    engine, store, do = run(tmp_path, *ends)
    [found] = do()
    assert (found.status, engine.script) == (status, [])
    assert error is None or found.error == error
    assert store.get(found.spec).status == status
    # What has no result is tried again when it is asked for again, and only that.
    engine.script = ["done"]
    assert [one.status for one in do()] == ["done"]
    assert engine.script == ([] if status != "done" else ["done"])


def test_a_full_disk_ends_the_race_and_says_how_to_go_on(tmp_path):
    full = Failed(DiskError("cannot write the checkpoint (No space left on device)."))
    engine, store, do = run(tmp_path, "done", full, "done", "done", seeds=(1, 2, 3))
    with pytest.raises(DiskError, match=r"left on device\)\. Then run the same command again"):
        do()
    assert [one.status for one in store.all()] == ["done", "lost"]
    assert [one.status for one in do()] == ["done"] * 3
    assert "1 of 3 runs were already finished." in engine.said


def test_runs_that_are_all_lost_alike_end_the_race(tmp_path):
    _, _, do = run(tmp_path, *[KILLED] * 40, seeds=range(20))
    with pytest.raises(LabError, match=r"2 times\. \(The first 4 runs all failed this way\.\)"):
        do()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(errno.ENOSPC, "full"), DiskError),
        (OSError(errno.ENOENT, "gone"), LabError),
        (OSError(errno.EMFILE, "too many open files"), MachineError),
        (MemoryError(), MachineError),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 8 bytes"),
            MachineError,
        ),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), MachineError),
        (RuntimeError("CUDA error: an uncorrectable ECC error was encountered"), MachineError),
        (RuntimeError("CUDA error: device-side assert triggered"), LabError),
        (ValueError("out of memory"), LabError),
    ],
)
def test_whose_fault_an_exception_is(error, kind):
    assert fault_of(error) is kind
    if isinstance(error, OSError):
        with pytest.raises(LabError) as told, translate_errors(os.devnull, "cannot write"):
            raise error
        assert type(told.value) is kind
