"""Runs in this process, one after the other: what `adamomentum train` does."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from adamomentum_lab.engine.driver import Driver, Message, stream_job
from adamomentum_lab.engine.job import Job
from adamomentum_lab.engine.store import Store
from adamomentum_lab.errors import LabError, StoppedError
from adamomentum_lab.files import BusyError
from adamomentum_lab.schedules import Moment


class Inline(Driver):
    """The engine of one process. It ends with StoppedError once `stopped` says so."""

    def __init__(
        self,
        store: Store,
        say: Callable[[str], None] = lambda _: None,
        stopped: Callable[[], bool] = lambda: False,
        on_update: Callable[[Moment], None] = lambda _: None,
    ) -> None:
        super().__init__(store, say)
        self._stopped, self._on_update = stopped, on_update
        self._job: Job | None = None
        self.error: LabError | None = None
        """Why the last run failed, with its traceback."""

    def _room(self, waiting: int) -> int:
        return min(waiting, self._job is None)

    def _give(self, job: Job) -> None:
        self._job = job

    def _hear(self) -> Iterator[tuple[Job, Message]]:
        job, last = self._job, ""
        if job is None:
            return
        for message in stream_job(job, self._stopped, self._on_update):
            if message is None:
                continue
            last, content, more = message
            if last == "failed":
                self.error = more
            if last == "run" and content.status == "stopped" and self._stopped():
                self.store.finish(content)
                raise StoppedError
            if last == "busy":
                raise BusyError(f"another process is at work on the run in {job.folder}.")
            yield job, message
        self._job = None
        if last in ("", "epoch"):
            yield job, ("died", "its thread ended", None)

    def close(self) -> None:
        """Nothing is under way between two jobs."""
