"""What every engine shares: one process hands out the jobs, hears of them, and alone writes."""

from __future__ import annotations

import queue
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from adamomentum_lab.engine.events import EpochEnded, Listener, RunBegun, RunEnded, RunUpdated
from adamomentum_lab.engine.job import Job, execute, is_complete, mark_stopped
from adamomentum_lab.engine.messages import Busy, Died, Failed, Message, Progress
from adamomentum_lab.engine.store import Run, Store
from adamomentum_lab.errors import LabError
from adamomentum_lab.files import BusyError
from adamomentum_lab.schedules import Moment
from adamomentum_lab.selection import EpochRecord

ATTEMPTS = 2  # a worker may be killed for want of memory; twice on the same run is no accident
ALIKE = 4  # an error that so many runs share, and no run escapes, is not the optimizer's
UPDATE_SECONDS = 0.5
"""Between two messages about the updates of a run."""


def run_job(job: Job, send: Callable[[Message], None], stopped: Callable[[], bool]) -> None:
    """A worker's part: do a job, and tell of its progress and its end."""
    told = time.monotonic()

    def on_update(now: Moment) -> None:
        nonlocal told
        if time.monotonic() - told >= UPDATE_SECONDS:
            told = time.monotonic()
            send(RunUpdated(job.stage, job.spec, now.epoch))

    def on_epoch(record: EpochRecord, seconds: float) -> None:
        send(EpochEnded(job.stage, job.spec, record, seconds))

    try:
        run = execute(job, on_epoch, on_update, stopped)
    except BusyError:
        send(Busy())
    except LabError as error:
        send(Failed(error))
    else:
        send(RunEnded(job.stage, run, job.epochs))


def stream_job(job: Job, stopped: Callable[[], bool]) -> Iterator[Message | None]:
    """Do a job in a thread of its own, and yield its messages as they come.

    None comes a few times a second, so that the caller can look around. Without a last message the
    thread ended by itself, as by SystemExit.
    """
    messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
    thread = threading.Thread(target=run_job, args=(job, messages.put, stopped), daemon=True)
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
            if not isinstance(message, Progress):
                return


class Driver(ABC):
    """An engine: executes jobs, emits events about them, returns every run.

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
        emit: Listener = lambda _: None,
        follow: Callable[[Job, Run], list[Job]] = lambda *_: [],
    ) -> list[Run]:
        """Do all jobs; the result is in their order.

        `follow` is called with each job that ended and returns the jobs that follow from it. Their
        runs are not part of the result.
        """
        results: dict[str, Run] = {}
        attempts: dict[str, int] = {}
        waiting = deque({job.spec.id: job for job in jobs}.values())

        def finish(job: Job, run: Run) -> None:
            results[job.spec.id] = run
            emit(RunEnded(job.stage, run, job.epochs))
            for new in follow(job, run):
                if new.spec.id in results:
                    raise LabError(f"{new.spec} was asked for twice.")
                waiting.append(new)

        def fail(job: Job, error: str) -> None:
            run = self.store.get(job.spec) or Run(job.spec, "failed")
            run.status, run.error = "failed", error
            self.store.finish(run)
            self.say(f"{job.spec} failed: {error}")
            finish(job, run)

        known = self.store.get_all(job.spec for job in waiting)
        before = [job for job in waiting if is_complete(job, known.get(job.spec.id))]
        if before:
            self.say(f"{len(before)} of {len(waiting)} runs were finished before.")
        for job in before:
            finish(job, known[job.spec.id])
        waiting = deque(job for job in waiting if job.spec.id not in results)
        out = 0  # jobs given out
        while waiting or out:
            for _ in range(self._room(len(waiting))):
                new = self._next(waiting, finish)
                if new is None:
                    break
                attempts[new.spec.id] = attempts.get(new.spec.id, 0) + 1
                self._give(new)
                emit(RunBegun(new.stage, new.spec))
                out += 1
            for job, message in self._hear():
                out -= not isinstance(message, Progress)
                match message:
                    case RunUpdated():
                        emit(message)
                    case EpochEnded():
                        self.store.epoch(job.spec, message.record, message.seconds)
                        emit(message)
                    case RunEnded(run=run) if run.status == "stopped":  # somebody ended the worker
                        waiting.append(job)
                    case RunEnded():
                        run = mark_stopped(job, message.run)
                        self.store.finish(run)
                        finish(job, run)
                    case Failed():
                        why = str(message.error)
                        fail(job, why)
                        count, errors = len(results), {run.error for run in results.values()}
                        if count >= ALIKE and errors == {why}:
                            raise LabError(f"{why} (So ended all of the first {count} runs.)")
                    case Busy():  # look again later
                        attempts[job.spec.id] -= 1
                        waiting.append(job)
                        time.sleep(0.5)
                    case Died(how) if attempts[job.spec.id] < ATTEMPTS:
                        self.say(f"{job.spec}: {how}; it is tried again.")
                        waiting.appendleft(job)
                    case Died(how):
                        fail(job, f"{how}, {ATTEMPTS} times.")
        return [results[job.spec.id] for job in jobs]

    def _next(self, waiting: deque[Job], finish: Callable[[Job, Run], None]) -> Job | None:
        """The next job that nobody has finished in the meantime, noted as begun."""
        while waiting:
            job = waiting.popleft()
            known = self.store.get(job.spec)
            if known is None or not is_complete(job, known):
                self.store.begin(job.spec, known.machine if known else {})
                return job
            finish(job, known)
        return None
