"""The base class of engines: one process hands out jobs, gets their messages, and writes the store.

No other process writes the store.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from adamomentum_lab import contenders
from adamomentum_lab.engine.events import EpochEnded, Listener, RunBegun, RunEnded, RunUpdated
from adamomentum_lab.engine.job import Job, execute, mark_stopped
from adamomentum_lab.engine.messages import Begun, Busy, Died, Failed, Message, Progress
from adamomentum_lab.engine.reuse import Decision, Reuse
from adamomentum_lab.engine.store import Run, Store
from adamomentum_lab.engine.watch import Watch
from adamomentum_lab.errors import DiskError, LabError, MachineError
from adamomentum_lab.files import BusyError, Waits
from adamomentum_lab.schedules import Moment
from adamomentum_lab.selection import EpochRecord

ATTEMPTS = 2
"""How often a run is tried if its worker dies or its machine fails. The first time may be a lack of
memory; a second time on the same run is no accident."""
ALIKE = 4
"""The race ends if this many runs have ended and all of them failed with the same error."""
RESUME = "Then run the same command again: it goes on from here."
UPDATE_SECONDS = 0.5
"""Time between two messages about the updates of a run."""


def run_job(job: Job, send: Callable[[Message], None], stopped: Callable[[], bool]) -> None:
    """Do a job in a worker, and send messages about its progress and its end."""
    sent = time.monotonic()

    def on_update(now: Moment) -> None:
        nonlocal sent
        if time.monotonic() - sent >= UPDATE_SECONDS:
            sent = time.monotonic()
            send(RunUpdated(job.stage, job.spec, now.epoch))

    def on_epoch(record: EpochRecord, seconds: float) -> None:
        send(EpochEnded(job.stage, job.spec, record, seconds))

    try:
        run = execute(job, on_epoch, on_update, stopped)
    except BusyError as error:
        send(Busy(str(error)))
    except LabError as error:
        send(Failed(error))
    else:
        send(RunEnded(job.stage, run, job.epochs))


def stream_job(job: Job, stopped: Callable[[], bool]) -> Iterator[Message | None]:
    """Do a job in another thread, and yield its messages as they come.

    It yields None a few times a second, so that the caller can do other work. If the messages end
    without a last one, the thread died, for example of SystemExit.
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
    """An engine: executes jobs, emits events about them, and returns every run.

    Runs that are finished in the store are not repeated, if nothing that their numbers depend on
    has changed.
    """

    here = True
    """Whether all runs are done by this machine's processors."""
    fresh = False
    """Whether runs are repeated all the same."""
    explain = False
    """Whether it is said of each run why it is repeated or not."""

    limit: float | None = None
    """Seconds after which a run hangs; None goes by those that have finished (`watch.py`)."""

    def __init__(self, store: Store, say: Callable[[str], None]) -> None:
        self.store, self.say = store, say
        self._tried: set[str] = set()

    @abstractmethod
    def _room(self, waiting: int) -> int:
        """Return how many of the waiting jobs can start now."""

    @abstractmethod
    def _give(self, job: Job) -> None:
        """Give a job to a worker."""

    @abstractmethod
    def _hear(self) -> Iterable[tuple[Job, Message]]:
        """Wait for messages of the workers, and yield them with their jobs.

        The last message of a job frees its worker. Without running jobs, there are no messages.
        """

    def _end(self, job: Job) -> None:
        """End the run of this job at once, with all that it has started, and free its worker."""
        raise NotImplementedError

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
        """Do all jobs.

        Args:
            jobs: jobs with the same specification are done once.
            emit: called with every event.
            follow: called with each job that ended and its run. Returns jobs to do next, whose runs
                are not part of the result.

        Returns:
            The runs of `jobs`, in their order.
        """
        results: dict[str, Run] = {}
        attempts: dict[str, int] = {}
        waiting = deque({job.spec.id: job for job in jobs}.values())
        reuse = Reuse(self.store, self.fresh, self._tried)
        prints: dict[str, dict[str, str]] = {}  # by workload, what its runs read

        def finish(job: Job, run: Run) -> None:
            results[job.spec.id] = run
            _agree(run, prints.setdefault(run.spec.code, {}))
            emit(RunEnded(job.stage, run, job.epochs))
            for new in follow(job, run):
                if new.spec.id in results:
                    raise LabError(f"the run {new.spec} was requested twice.")
                waiting.append(new)

        def fail(job: Job, error: str, status: str = "failed") -> None:
            run = self._note_fault(job, error, status)
            self.say(f"{job.spec} {'failed' if status == 'failed' else 'was lost'}: {error}")
            finish(job, run)
            count, errors = len(results), {run.error for run in results.values()}
            if count >= ALIKE and errors == {error}:
                raise LabError(f"{error} (The first {count} runs all failed this way.)")

        def try_again(job: Job, how: str, status: str) -> None:
            if attempts[job.spec.id] >= ATTEMPTS:
                fail(job, f"{how}, {ATTEMPTS} times.", status)
                return
            self.say(f"{job.spec}: {how}; the run is tried again.")
            waiting.appendleft(job)

        self._note_parts(waiting)
        known = self.store.get_all(job.spec for job in waiting)
        decisions = {job.spec.id: reuse.decide(job, known.get(job.spec.id)) for job in waiting}
        before = [job for job in waiting if decisions[job.spec.id].use == "reuse"]
        if before:
            self.say(f"{len(before)} of {len(waiting)} runs were already finished.")
        for job in before:
            self._explain(job, decisions[job.spec.id])
            finish(job, known[job.spec.id])
        waiting = deque(job for job in waiting if job.spec.id not in results)
        out = 0  # jobs that workers have
        watch = Watch(self.limit)
        waits = Waits(self.say)
        while waiting or out:
            for _ in range(self._room(len(waiting))):
                new = self._next(waiting, finish, reuse)
                if new is None:
                    break
                attempts[new.spec.id] = attempts.get(new.spec.id, 0) + 1
                self._give(new)
                watch.begin(new)
                emit(RunBegun(new.stage, new.spec))
                out += 1
            for job, message in self._messages(watch):
                out -= not isinstance(message, Progress)
                match message:
                    case RunUpdated():
                        emit(message)
                    case EpochEnded():
                        self.store.epoch(job.spec, message.record, message.seconds)
                        emit(message)
                    case RunEnded(run=run) if run.status == "stopped":  # the worker was terminated
                        waiting.append(job)
                    case RunEnded():
                        run = mark_stopped(job, message.run)
                        self.store.finish(run)
                        finish(job, run)
                    case Failed(DiskError() as error):
                        with contextlib.suppress(LabError):  # the store may be on the same disk
                            self._note_fault(job, str(error), "lost")
                        raise DiskError(f"{error} {RESUME}")
                    case Failed(MachineError() as error):
                        try_again(job, str(error).rstrip("."), "lost")
                    case Failed():
                        fail(job, str(message.error))
                    case Busy(who):  # try again later
                        attempts[job.spec.id] -= 1
                        waiting.append(job)
                        waits.tell(job.spec.id, f"{who} This race waits for it.")
                        time.sleep(0.5)
                    case Died(how, by_machine):
                        try_again(job, how, "lost" if by_machine else "failed")
        return [results[job.spec.id] for job in jobs]

    def _messages(self, watch: Watch) -> Iterator[tuple[Job, Message]]:
        """What the engine hears, and that it has ended runs that hang."""
        for job, message in self._hear():
            if isinstance(message, Begun):
                watch.start(job)
                continue
            if isinstance(message, Progress):
                watch.hear(job)
            else:
                watch.end(job, isinstance(message, RunEnded) and message.run.status == "done")
            yield job, message
        for job, why in watch.hanging():
            with contextlib.suppress(NotImplementedError):
                self._end(job)
                watch.end(job, finished=False)
                yield job, Died(why)

    def _next(
        self, waiting: deque[Job], finish: Callable[[Job, Run], None], reuse: Reuse
    ) -> Job | None:
        """Return the next job and mark its run as begun.

        Another process may have finished a run in the meantime; such jobs are skipped.
        """
        while waiting:
            job = waiting.popleft()
            known = self.store.get(job.spec)
            decision = reuse.decide(job, known)
            if job.spec.id not in self._tried:
                self._explain(job, decision)
            if known is not None and decision.use == "reuse":
                finish(job, known)
                continue
            anew = decision.use == "begin anew"
            self.store.begin(job.spec, known.machine if known else {}, anew)
            self._tried.add(job.spec.id)
            return replace(job, anew=job.anew or anew)
        return None

    def _note_fault(self, job: Job, error: str, status: str) -> Run:
        """Store a run that ended without a result, with the epochs that it had."""
        run = self.store.get(job.spec) or Run(job.spec, status)
        run.status, run.error = status, error
        self.store.finish(run)
        return run

    def _explain(self, job: Job, decision: Decision) -> None:
        if self.explain:
            self.say(decision.about(job.spec))

    def _note_parts(self, jobs: Iterable[Job]) -> None:
        """So that it can be told one day what has changed since these runs."""
        references = {job.reference for job in jobs}
        entries = {job.spec.optimizer: job.entry for job in jobs}
        parts = [reference.parts for reference in references]
        self.store.add_parts([*parts, *(contenders.parts_for(*one) for one in entries.items())])


def _agree(run: Run, prints: dict[str, str]) -> None:
    """Refuse a run that has read other content than those before it, which are compared with it."""
    inputs = run.inputs or {}
    if changed := [name for name in inputs if prints.get(name, inputs[name]) != inputs[name]]:
        raise LabError(
            f"{changed[0]} changed while runs were under way; start again: those that read it "
            "before do not count."
        )
    prints |= inputs
