"""Which runs hang: how long each has been under way, and when it last gave a sign of life."""

from __future__ import annotations

import time
from dataclasses import dataclass

from adamomentum_lab.engine.job import Job
from adamomentum_lab.words import duration

TIMES, LEAST = 10.0, 600.0
"""By default a run may take ten times as long as the longest finished run of the race, and at
least so many seconds."""
SILENT = 3600.0
"""Seconds without an update after which a run hangs, if no run has finished yet."""
START = 120.0
"""Seconds that may pass before a run starts, beyond those that it may take itself."""
STEP = 5.0
"""A longer time between two looks counts as so many seconds: the driver itself was stopped."""


@dataclass
class _Times:
    job: Job
    started: bool = False
    total: float = 0.0
    silent: float = 0.0


class Watch:
    """Watches runs.

    Args:
        limit: seconds that a run may take; None goes by the runs that have finished.
    """

    def __init__(self, limit: float | None = None) -> None:
        self.limit, self.longest = limit, 0.0
        self._running: dict[str, _Times] = {}
        self._looked = time.monotonic()

    def begin(self, job: Job) -> None:
        """A worker has got this job."""
        self._running[job.spec.id] = _Times(job)

    def start(self, job: Job) -> None:
        """Its process has started. What was before is no time of the run."""
        self._running[job.spec.id] = _Times(job, started=True)

    def hear(self, job: Job) -> None:
        """A run has made progress."""
        self._running[job.spec.id].silent = 0.0

    def end(self, job: Job, finished: bool) -> None:
        """A job has ended, with its run or without."""
        times = self._running.pop(job.spec.id)
        if finished:
            self.longest = max(self.longest, times.total)

    def hanging(self) -> list[tuple[Job, str]]:
        """The jobs whose runs have taken too long, and how that is told."""
        now = time.monotonic()
        passed, self._looked = min(now - self._looked, STEP), now
        found = []
        for times in self._running.values():
            times.total += passed
            times.silent += passed
            if why := self._fault(times):
                found.append((times.job, why))
        return found

    def _fault(self, times: _Times) -> str | None:
        if not times.started:
            if times.total <= (self.limit or SILENT) + START:
                return None
            return f"it has not started in {duration(times.total)}"
        last = f"its last sign of life is {duration(times.silent)} old"
        limit = self.limit or (max(LEAST, TIMES * self.longest) if self.longest else None)
        if limit is None:
            if times.silent <= SILENT:
                return None
            return f"it hung and was ended: {last}"
        if times.total <= limit:
            return None
        return f"it took longer than {duration(limit)} (--run-timeout) and was ended; {last}"
