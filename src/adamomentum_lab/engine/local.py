"""Many runs on this machine: worker processes, each one run at a time."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from adamomentum_lab.engine.driver import Driver, Message, run_job
from adamomentum_lab.engine.job import Job
from adamomentum_lab.engine.store import Store

# Forking a process that has used OpenMP hangs, so workers are started anew.
_CONTEXT = multiprocessing.get_context("spawn")


def _work(connection: Connection) -> None:
    """A worker: jobs come in, epochs and results go out, until the other side is gone."""
    stopping = False
    sys.stdout = sys.stderr  # standard output is for results

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver hears it too, and decides
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGTERM, stop)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while not stopping:
            if connection.poll(0.2):
                run_job(connection.recv(), connection.send, lambda: stopping)


@dataclass
class _Worker:
    process: Any
    connection: Connection
    job: Job | None = None


class Local(Driver):
    """The engine of one machine: so many worker processes at most."""

    def __init__(self, store: Store, workers: int, say: Callable[[str], None]) -> None:
        super().__init__(store, say)
        self._workers = workers
        self._running: list[_Worker] = []

    def _room(self, waiting: int) -> int:
        return min(waiting, self._workers - sum(worker.job is not None for worker in self._running))

    def _give(self, job: Job) -> None:
        worker = self._free()
        worker.job = job
        with contextlib.suppress(BrokenPipeError):  # it is gone, as will be heard
            worker.connection.send(job)

    def _free(self) -> _Worker:
        """An idle worker, or a new one."""
        for worker in [worker for worker in self._running if worker.job is None]:
            if worker.process.is_alive():
                return worker
            self._bury(worker)
        ours, theirs = _CONTEXT.Pipe()
        process = _CONTEXT.Process(target=_work, args=(theirs,))
        # Inherited, so that Ctrl-C does not reach a worker that is still starting; here it is
        # only heard a little later.
        resource_tracker.ensure_running()  # to start it later would unblock SIGINT again
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        worker = _Worker(process, ours)
        self._running.append(worker)
        return worker

    def _hear(self) -> Iterator[tuple[Job, Message]]:
        busy = {worker.connection: worker for worker in self._running if worker.job}
        for connection in wait(list(busy)) if busy else ():
            assert isinstance(connection, Connection)
            worker = busy[connection]
            assert worker.job is not None
            job = worker.job
            try:
                message: Message = connection.recv()
            except (EOFError, ConnectionResetError):
                self._bury(worker)
                message = "died", f"its process ended with status {worker.process.exitcode}", None
            if message[0] != "epoch":
                worker.job = None
            yield job, message

    def _bury(self, worker: _Worker) -> None:
        self._running.remove(worker)
        worker.process.join()
        worker.connection.close()

    def close(self) -> None:
        """Ask the workers to stop at their next update, with a checkpoint."""
        for worker in self._running:
            worker.process.terminate()
        end = time.monotonic() + 20
        for worker in self._running:
            while worker.process.is_alive() and time.monotonic() < end:
                with contextlib.suppress(EOFError, OSError):  # or it could wait to be heard
                    while worker.connection.poll(0.05):
                        worker.connection.recv()
                worker.process.join(0.05)
            worker.process.kill()
            worker.process.join()
            worker.connection.close()
        self._running.clear()

    def __enter__(self) -> Local:
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded by a worker
        return self
