"""What every engine shares: one process hands out the jobs, hears of them, and alone writes."""

from __future__ import annotations

import queue
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from adamomentum_lab.engine.job import Job, execute, is_complete, mark_stopped
from adamomentum_lab.engine.store import Run, Store
from adamomentum_lab.errors import LabError
from adamomentum_lab.files import BusyError
from adamomentum_lab.schedules import Moment

ATTEMPTS = 2  # a worker may be killed for want of memory; twice on the same run is no accident
ALIKE = 4  # an error that so many runs share, and no run escapes, is not the optimizer's
Message = tuple[str, Any, Any]
"""From a worker: ("epoch", record, seconds), ("run", run, None), ("busy", None, None) where another
process is at work on the run, or ("failed", why, error). The driver adds ("died", how, None)."""


def run_job(
    job: Job,
    send: Callable[[Message], None],
    stopped: Callable[[], bool],
    on_update: Callable[[Moment], None] = lambda _: None,
) -> None:
    """A worker's part: do a job, and tell of its epochs and its end."""
    try:
        run = execute(
            job,
            on_epoch=lambda record, seconds: send(("epoch", record, seconds)),
            on_update=on_update,
            stopped=stopped,
        )
    except BusyError:
        send(("busy", None, None))
    except LabError as error:
        send(("failed", str(error), error))
    else:
        send(("run", run, None))


def stream_job(
    job: Job, stopped: Callable[[], bool], on_update: Callable[[Moment], None] = lambda _: None
) -> Iterator[Message | None]:
    """Do a job in a thread of its own, and yield its messages as they come.

    None comes a few times a second, so that the caller can look around. Without a last message the
    thread ended by itself, as by SystemExit.
    """
    messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
    work = (job, messages.put, stopped, on_update)
    thread = threading.Thread(target=run_job, args=work, daemon=True)
    thread.start()
    while True:
        alive = thread.is_alive()
        try:
            message = messages.get(timeout=0.2)
        except queue.Empty:
            if not alive:
                return
            yield None
        else:
            yield message
            if message[0] != "epoch":
                return


class Driver(ABC):
    """An engine: executes jobs, tells of their epochs, returns every run.

    The store has one writer, this process. Runs that it knows as finished are not repeated.
    """

    def __init__(self, store: Store, say: Callable[[str], None]) -> None:
        self.store, self.say = store, say

    @abstractmethod
    def _room(self, waiting: int) -> int:
        """How many of the waiting jobs can be given out now."""

    @abstractmethod
    def _give(self, job: Job) -> None:
        """Give a job out."""

    @abstractmethod
    def _hear(self) -> Iterable[tuple[Job, Message]]:
        """What the workers say, waited for; a job of which an end was heard is given out no more.
        Nothing, if nothing is given out."""

    @abstractmethod
    def close(self) -> None:
        """Ask the workers to stop at their next update, with a checkpoint."""

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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

        def finish(run: Run) -> None:
            results[run.spec.id] = run
            on_run(run)

        def fail(job: Job, error: str) -> None:
            run = self.store.get(job.spec) or Run(job.spec, "failed")
            run.status, run.error = "failed", error
            self.store.finish(run)
            self.say(f"{job.spec} failed: {error}")
            finish(run)

        known = self.store.get_all(job.spec for job in waiting)
        before = [job.spec.id for job in waiting if is_complete(job, known.get(job.spec.id))]
        if before:
            self.say(f"{len(before)} of {len(waiting)} runs were finished before.")
        for name in before:
            finish(known[name])
        waiting = deque(job for job in waiting if job.spec.id not in results)
        out = 0  # jobs given out
        while waiting or out:
            for _ in range(self._room(len(waiting))):
                job = self._next(waiting, finish)
                if job is None:
                    break
                attempts[job.spec.id] = attempts.get(job.spec.id, 0) + 1
                self._give(job)
                out += 1
            for job, (kind, content, more) in self._hear():
                if kind == "epoch":
                    self.store.epoch(job.spec, content, more)
                    on_epoch(job, content)
                    continue
                out -= 1
                if kind == "run" and content.status == "stopped":  # somebody ended the worker
                    waiting.append(job)
                elif kind == "run":
                    run = mark_stopped(job, content)
                    self.store.finish(run)
                    finish(run)
                elif kind == "failed":
                    fail(job, content)
                    count, errors = len(results), {run.error for run in results.values()}
                    if count >= ALIKE and errors == {content}:
                        raise LabError(f"{content} (So ended all of the first {count} runs.)")
                elif kind == "busy":  # look again later
                    attempts[job.spec.id] -= 1
                    waiting.append(job)
                    time.sleep(0.5)
                elif attempts[job.spec.id] < ATTEMPTS:
                    self.say(f"{job.spec}: {content}; it is tried again.")
                    waiting.appendleft(job)
                else:
                    fail(job, f"{content}, {ATTEMPTS} times.")
        return [results[job.spec.id] for job in jobs]

    def _next(self, waiting: deque[Job], finish: Callable[[Run], None]) -> Job | None:
        """The next job that nobody has finished in the meantime, noted as begun."""
        while waiting:
            job = waiting.popleft()
            known = self.store.get(job.spec)
            if known is None or not is_complete(job, known):
                self.store.begin(job.spec, known.machine if known else {})
                return job
            finish(known)
        return None
