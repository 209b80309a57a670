"""Progress on standard error: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class Display:
    """One bar at a time, and lines above it."""

    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False)
        self._bars: Progress | None = None
        if self.console.is_terminal:
            self._bars = Progress(
                TextColumn("{task.description:8}"),
                BarColumn(bar_width=None),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=self.console,
                expand=True,
            )
        self._task: TaskID | None = None
        self._total = self._done = 0
        self._heard = 0.0

    def stage(self, name: str, total: int) -> None:
        """Begin a stage of so many parts."""
        self._total, self._done = total, 0
        if self._bars is not None:
            self._task = self._bars.add_task(name, total=total)

    def advance(self, line: str | None = None) -> None:
        """Another part is done; `line` says what, and is always shown where there are no bars."""
        self._done += 1
        if self._bars is not None and self._task is not None:
            self._bars.update(self._task, completed=self._done)
        elif line:
            self.console.print(f"[{self._done}/{self._total}] {line}", markup=False, soft_wrap=True)

    def at(self, part: float) -> None:
        """How far the stage is, where parts are long; heard at most ten times a second."""
        if self._bars is not None and self._task is not None:
            now = time.monotonic()
            if now - self._heard > 0.1:
                self._heard = now
                self._bars.update(self._task, completed=part)

    def say(self, line: str) -> None:
        """A line that stays."""
        self.console.print(line, markup=False, soft_wrap=True)

    def __enter__(self) -> Display:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bars is not None:
            self._bars.stop()
