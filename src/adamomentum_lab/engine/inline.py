"""The engine of `adamomentum train`: runs in this process, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from adamomentum_lab.engine.driver import Driver, stream_job
from adamomentum_lab.engine.events import RunEnded
from adamomentum_lab.engine.job import Job
from adamomentum_lab.engine.messages import Busy, Died, Failed, Message, Progress
from adamomentum_lab.engine.store import Store
from adamomentum_lab.errors import LabError, StoppedError
from adamomentum_lab.files import BusyError


class Inline(Driver):
    """Does runs in this process. Raises StoppedError once `stopped` returns True."""

    def __init__(
        self,
        store: Store,
        say: Callable[[str], None] = lambda _: None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(store, say)
        self._stopped = stopped
        self._job: Job | None = None
        self.error: LabError | None = None
        """The error of the last failed run, with its traceback."""

    def _room(self, waiting: int) -> int:
        return min(waiting, self._job is None)

    def _give(self, job: Job) -> None:
        self._job = job

    def _hear(self) -> Iterator[tuple[Job, Message]]:
        job, ended = self._job, False
        if job is None:
            return
        for message in stream_job(job, self._stopped):
            match message:
                case None:
                    continue
                case Failed(error):
                    self.error = error
                case RunEnded(run=run) if run.status == "stopped" and self._stopped():
                    self.store.finish(run)
                    raise StoppedError
                case Busy(who):
                    raise BusyError(who)
            ended = not isinstance(message, Progress)
            yield job, message
        self._job = None
        if not ended:
            yield job, Died("its thread ended", by_machine=False)

    def close(self) -> None:
        """Do nothing: no job is running between two messages."""
