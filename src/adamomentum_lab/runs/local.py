"""Many runs on this machine: worker processes, each one run at a time."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from adamomentum_lab.errors import LabError
from adamomentum_lab.runs.execute import BusyError, Job, as_kept, ended, execute
from adamomentum_lab.runs.store import Run, Store

ATTEMPTS = 2  # a worker may be killed for want of memory; twice on the same run is no accident
ALIKE = 4  # an error that so many runs share, and no run escapes, is not the optimizer's
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
            if not connection.poll(0.2):
                continue
            job: Job = connection.recv()
            try:
                run = execute(
                    job,
                    on_epoch=lambda record, seconds: connection.send(("epoch", record, seconds)),
                    stopped=lambda: stopping,
                )
                connection.send(("run", run, None))
            except (EOFError, BrokenPipeError, ConnectionResetError):
                raise
            except BusyError:
                connection.send(("busy", None, None))
            except LabError as error:
                connection.send(("failed", str(error), None))


@dataclass
class _Worker:
    process: Any
    connection: Connection
    job: Job | None = None


class Local:
    """An engine: executes jobs, tells of their epochs, returns every run.

    The store has one writer, this process. Runs that it knows as finished are not repeated.
    """

    def __init__(self, store: Store, workers: int, say: Callable[[str], None]) -> None:
        self.store, self.say = store, say
        self._workers = workers
        self._running: list[_Worker] = []

    def run(
        self,
        jobs: list[Job],
        on_epoch: Callable[[Job, dict[str, Any]], None] = lambda *_: None,
        on_run: Callable[[Run], None] = lambda *_: None,
    ) -> list[Run]:
        """All jobs; the result is in their order."""
        results: dict[str, Run] = {}
        attempts: dict[str, int] = {}
        waiting = deque({job.spec.id: job for job in jobs}.values())
        before = sum(self._finished(job) is not None for job in waiting)
        if before:
            self.say(f"{before} of {len(waiting)} runs were finished before.")

        def finish(run: Run) -> None:
            results[run.spec.id] = run
            on_run(run)

        def fail(job: Job, error: str) -> None:
            run = self.store.get(job.spec) or Run(job.spec, "failed")
            run.status, run.error = "failed", error
            self.store.finish(run)
            self.say(f"{job.spec} failed: {error}")
            finish(run)

        while waiting or any(worker.job for worker in self._running):
            for worker in self._free(len(waiting)):
                job = self._next(waiting, finish)
                if job is None:
                    break
                known = self.store.get(job.spec)
                self.store.begin(job.spec, known.machine if known else {})
                attempts[job.spec.id] = attempts.get(job.spec.id, 0) + 1
                worker.job = job
                with contextlib.suppress(BrokenPipeError):  # it is gone, as will be heard
                    worker.connection.send(job)
            for worker in self._ready():
                job = worker.job
                try:
                    kind, content, more = worker.connection.recv()
                except (EOFError, ConnectionResetError):
                    self._bury(worker)
                    if job is None:
                        continue
                    ended = f"its process ended with status {worker.process.exitcode}"
                    if attempts[job.spec.id] < ATTEMPTS:
                        self.say(f"{job.spec}: {ended}; it is tried again.")
                        waiting.appendleft(job)
                    else:
                        fail(job, f"{ended}, {ATTEMPTS} times.")
                    continue
                assert job is not None
                if kind == "epoch":
                    self.store.epoch(job.spec, content, more)
                    on_epoch(job, content)
                    continue
                worker.job = None
                if kind == "run" and content.status == "stopped":  # somebody ended the worker
                    waiting.append(job)
                elif kind == "run":
                    run = as_kept(job, content)
                    self.store.finish(run)
                    finish(run)
                elif kind == "failed":
                    fail(job, content)
                    if len(results) >= ALIKE and {run.error for run in results.values()} == {
                        content
                    }:
                        raise LabError(
                            f"{content} (So ended all of the first {len(results)} runs.)"
                        )
                else:  # another process has it: look again later
                    attempts[job.spec.id] -= 1
                    waiting.append(job)
                    time.sleep(0.5)
        return [results[job.spec.id] for job in jobs]

    def _next(self, waiting: deque[Job], finish: Callable[[Run], None]) -> Job | None:
        """The next job that the store does not know as finished."""
        while waiting:
            job = waiting.popleft()
            known = self._finished(job)
            if known is None:
                return job
            finish(known)
        return None

    def _finished(self, job: Job) -> Run | None:
        known = self.store.get(job.spec)
        return known if ended(job, known) else None

    def _free(self, wanted: int) -> Iterator[_Worker]:
        """Idle workers, new ones among them."""
        idle = [worker for worker in self._running if worker.job is None]
        for worker in idle:
            if worker.process.is_alive():
                yield worker
            else:
                self._bury(worker)
        for _ in range(min(self._workers - len(self._running), wanted - len(idle))):
            ours, theirs = _CONTEXT.Pipe()
            process = _CONTEXT.Process(target=_work, args=(theirs,))
            # Inherited, so that Ctrl-C does not reach a worker that is still starting; here it is
            # only heard a little later.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                process.start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
            worker = _Worker(process, ours)
            self._running.append(worker)
            yield worker

    def _ready(self) -> list[_Worker]:
        busy = {worker.connection: worker for worker in self._running if worker.job}
        return [busy[c] for c in wait(list(busy)) if isinstance(c, Connection)] if busy else []

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

    def __exit__(self, *_: object) -> None:
        self.close()
