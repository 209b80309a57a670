"""The engine of one machine: worker processes that each train one run at a time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import wait
from pathlib import Path

from adamomentum_lab.engine.driver import Driver
from adamomentum_lab.engine.job import Job
from adamomentum_lab.engine.messages import Begun, Died, Message, Progress, Ready, Surroundings
from adamomentum_lab.engine.store import Store
from adamomentum_lab.errors import LabError
from adamomentum_lab.training.feed import CORES, cores

PATIENCE = 20.0  # seconds that workers have to save a checkpoint and stop
_LOOK = 0.5  # seconds between two checks whether workers are alive


class _Worker:
    """The driver's side of a worker process (`worker.py`)."""

    def __init__(self, slot: Mapping[str, str], workers: int) -> None:
        self.job: Job | None = None
        self.slot = slot
        self._begun = False
        self._run: int | None = None  # the process of the run
        # Before torch is loaded. The order of a set of words must not depend on the process.
        environ = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", **os.environ, **slot}
        environ.setdefault(CORES, str(max(1, cores() // workers)))
        environ.pop("PYTHONSAFEPATH", None)  # Python must search the working directory, `cwd` below
        with contextlib.ExitStack() as opened:
            self._errors = opened.enter_context(tempfile.TemporaryFile())
            self.connection, theirs = map(opened.enter_context, Pipe())
            try:
                surroundings = Surroundings(sys.path, sys.argv, os.getcwd())
                # A worker is a program of its own. A fork hangs once OpenMP was used, and
                # multiprocessing's spawn would run the user's script again.
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "adamomentum_lab.engine.worker", str(theirs.fileno())],
                    cwd=Path(__file__).parents[2],
                    env=environ,
                    stdin=subprocess.DEVNULL,
                    stdout=2 if sys.__stderr__ else subprocess.DEVNULL,
                    stderr=self._errors,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            except OSError as error:
                raise LabError(f"cannot start a worker ({error}).") from error
            theirs.close()
            self._opened = opened.pop_all()
        self._send(surroundings)

    @property
    def is_alive(self) -> bool:
        """Whether the process runs. A child that it forked may keep its connection open longer."""
        return self.process.poll() is None

    def give(self, job: Job) -> None:
        """Send it a job."""
        self.job = job
        self._send(job)

    def _send(self, value: object) -> None:
        with contextlib.suppress(BrokenPipeError):  # it is dead, which `hear` reports
            self.connection.send(value)

    def hear(self) -> Message | None:
        """Return its next message, or None. Raises EOFError after the last message of the dead."""
        alive = self.is_alive  # asked first, so that the last messages of a dead worker are read
        try:
            if self.connection.poll():
                message: Message | Ready = self.connection.recv()
                self._begun = True
                if isinstance(message, Begun):
                    self._run = message.process
                elif not isinstance(message, Progress):
                    self._run = None
                return None if isinstance(message, Ready) else message
        except ConnectionResetError as error:
            raise EOFError from error
        if not alive:
            raise EOFError
        return None

    def end(self, patience: float = 1.0) -> Died:
        """Wait for its end, kill the rest of its process group, and return how it ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(patience)  # it may end by itself, with its own exit status
        for group in filter(None, (self._run, self.process.pid)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        status = self.process.wait()
        with self._opened:
            self._errors.seek(0)
            lines = self._errors.read().decode(errors="replace").strip().splitlines()
        if lines and status > 0 and not self._begun:
            raise LabError(f"a worker cannot start: {lines[-1]}")
        if status >= 0:
            return Died(f"its process ended with status {status}", by_machine=False)
        memory = "; memory may have run out" if status == -signal.SIGKILL else ""
        return Died(f"its process was ended by {signal.Signals(-status).name}{memory}")


class Local(Driver):
    """The engine of one machine, with at most `workers` processes.

    Each has one of the `slots`: variables to set before it starts, which give it a device.
    """

    def __init__(self, store: Store, workers: int, say: Callable[[str], None]) -> None:
        super().__init__(store, say)
        self._workers = workers
        self.slots: Sequence[Mapping[str, str]] = [{}] * workers
        self._running: list[_Worker] = []

    def _room(self, waiting: int) -> int:
        return min(waiting, self._workers - sum(worker.job is not None for worker in self._running))

    def _give(self, job: Job) -> None:
        self._free().give(job)

    def _free(self) -> _Worker:
        """An idle worker, or a new one."""
        for worker in [worker for worker in self._running if worker.job is None]:
            if worker.is_alive:
                return worker
            self._running.remove(worker)
            worker.end()
        free = [*self.slots]
        for worker in self._running:
            free.remove(worker.slot)
        self._running.append(_Worker(free[0], len(self.slots)))
        return self._running[-1]

    def _hear(self) -> Iterator[tuple[Job, Message]]:
        busy = [(worker, worker.job) for worker in self._running if worker.job]
        if busy:
            wait([worker.connection for worker, _ in busy], _LOOK)
        for worker, job in busy:
            try:
                message = worker.hear()
            except EOFError:
                self._running.remove(worker)
                message = worker.end()
            if message is None:
                continue
            if not isinstance(message, Progress):
                worker.job = None
            yield job, message

    def _end(self, job: Job) -> None:
        [worker] = [one for one in self._running if one.job is job]
        self._running.remove(worker)
        with contextlib.suppress(LabError):
            worker.end(0)

    def close(self) -> None:
        """Ask the workers to stop at their next update, with a checkpoint."""
        for worker in self._running:
            worker.process.terminate()
        end = time.monotonic() + PATIENCE
        for worker in self._running:
            while worker.is_alive and time.monotonic() < end:
                with contextlib.suppress(EOFError, OSError):  # a full pipe would block the worker
                    while worker.connection.poll(0.05):
                        worker.connection.recv()
                time.sleep(0.01)
            with contextlib.suppress(LabError):
                worker.end(0)
        self._running.clear()
