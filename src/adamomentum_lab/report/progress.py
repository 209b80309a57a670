"""Progress on standard error: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from rich import progress
from rich.console import Console

from adamomentum_lab.engine.events import EpochEnded, RunEnded, RunsAdded, RunsDropped
from adamomentum_lab.report import notebook
from adamomentum_lab.report.settings import settings_in_words
from adamomentum_lab.words import duration

if TYPE_CHECKING:
    from adamomentum_lab.engine.events import Event, Stage
    from adamomentum_lab.engine.store import Run
    from adamomentum_lab.race.plan import Plan
    from adamomentum_lab.workload import Workload


T = TypeVar("T", bound="Display")


class Display:
    """A bar for each part of the work and one for the whole, and lines above them."""

    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False)
        self._bars: progress.Progress | None = None
        self._block = notebook.Block() if notebook.is_here() else None
        self._lines: list[str] = []
        self._shown = 0.0
        if self._block is not None:
            self._bars = progress.Progress(disable=True)  # it counts; the block shows
        elif self.console.is_terminal:
            self._bars = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(bar_width=None),
                progress.MofNCompleteColumn(),
                progress.TextColumn("{task.fields[note]}"),
                progress.TimeElapsedColumn(),
                progress.TextColumn("left"),
                progress.TimeRemainingColumn(elapsed_when_finished=False),
                console=self.console,
                expand=True,
            )
        self._tasks: dict[str, progress.TaskID] = {}
        self._total = self._done = 0
        self._heard = 0.0

    def begin(self, whole: str, total: int, parts: Mapping[str, int]) -> None:
        """What is to be done: so many steps in all, and of each part."""
        self._total = total
        if self._bars is not None:
            for name, size in (*parts.items(), (whole, total)):
                self._tasks[name] = self._bars.add_task(name, total=size, note="", start=False)
            self._whole = self._tasks[whole]
            self._bars.start_task(self._whole)

    def advance(self, line: str, part: str | None = None, note: str = "") -> None:
        """One more is done. `line` says what, where there are no bars; `note` stands at the bar."""
        self._done += 1
        if self._bars is None:
            self.console.print(f"[{self._done}/{self._total}] {line}", markup=False, soft_wrap=True)
            return
        self._bars.update(self._whole, completed=self._done)
        if part is not None:
            self._bars.start_task(self._tasks[part])
            self._bars.update(self._tasks[part], advance=1, note=note)
        self._refresh()

    def drop(self, part: str, steps: int) -> None:
        """So many of a part are not to be done after all."""
        self._total -= steps
        if self._bars is not None:
            for task in (self._tasks[part], self._whole):
                total = next(one.total for one in self._bars.tasks if one.id == task)
                self._bars.update(task, total=(total or 0) - steps)

    def at(self, step: float) -> None:
        """How far the whole is, where steps are long; heard at most ten times a second."""
        if self._bars is not None and (time.monotonic() - self._heard > 0.1 or step >= self._total):
            self._heard = time.monotonic()
            self._bars.update(self._whole, completed=step)

    def already(self, steps: int) -> None:
        """So many were done before."""
        self._done = steps
        self.at(steps)

    def say(self, line: str) -> None:
        """A line that stays."""
        if self._block is not None:
            self._lines.append(line)
            self._refresh(anyway=True)
            return
        self.console.print(line, markup=False, soft_wrap=not self.console.is_terminal)

    def __enter__(self: T) -> T:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()
        self._refresh(anyway=True)

    def _refresh(self, anyway: bool = False) -> None:
        """Show the bars in a notebook, at most four times a second."""
        if self._block is None or self._bars is None:
            return
        if anyway or time.monotonic() - self._shown > 0.25:
            self._shown = time.monotonic()
            tasks = self._bars.tasks
            self._block.show(
                self._lines,
                [
                    (
                        task.description,
                        int(task.completed),
                        int(task.total or 0),
                        task.fields["note"],
                    )
                    for task in tasks
                ],
                duration(tasks[-1].elapsed or 0.0) if tasks else "",
            )


class Pace:
    """How many epochs of a race were computed so far, and how many are left."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.computed = 0
        self._accounted: dict[str, int] = {}  # by run, the epochs that it has or will not have
        self._under_way: dict[str, int] = {}
        self._dropped = 0

    def hear(self, event: Event) -> None:
        """A listener."""
        match event:
            case EpochEnded(spec=spec):
                self.computed += 1
                self._under_way[spec.id] = self._under_way.get(spec.id, 0) + 1
            case RunEnded(spec=spec, epochs=epochs):
                self._under_way.pop(spec.id, None)
                self._accounted[spec.id] = epochs or spec.epochs or self._plan.epochs
            case RunsDropped(epochs=epochs):
                self._dropped += epochs
            case RunsAdded(epochs=epochs):
                self._dropped -= epochs

    @property
    def left(self) -> int:
        """Epochs that are still to be computed, if no run diverges."""
        done = sum(self._accounted.values()) + sum(self._under_way.values())
        return max(0, self._plan.all_epochs - done - self._dropped)


class RaceDisplay(Display):
    """A race: a bar for each contender, a line for each run, and how long the rest will take."""

    def __init__(self, plan: Plan, workload: Workload) -> None:
        super().__init__()
        self._plan, self._workload = plan, workload
        self._pace = Pace(plan)
        self._first_epoch: float | None = None
        self._estimated: float | None = None

    def start(self) -> None:
        """Show the bars, once what stands above them is said."""
        parts = {name: self._plan.runs_of(name) for name in self._plan.race.optimizers}
        self.begin("all", sum(parts.values()), parts)

    def hear(self, event: Event) -> None:
        """A listener."""
        self._pace.hear(event)
        match event:
            case EpochEnded() if self._first_epoch is None:  # workers have started by now
                self._first_epoch = time.monotonic()
            case RunEnded():
                self._show(event.stage, event.run)
            case RunsDropped():
                self.drop(event.optimizer, event.runs)
            case RunsAdded():
                self.drop(event.optimizer, -event.runs)

    def _show(self, stage: Stage, run: Run) -> None:
        """A run that has ended. Only validation scores of trials are shown: whoever sees test
        scores one by one can stop where they please."""
        from adamomentum_lab.selection import reported_epoch

        trial = reported_epoch(run, self._workload).get("validation", {})
        score = trial.get(self._workload.metric) if stage == "tuning" else None
        result = f"validation {score:.4g}" if score is not None else run.status
        settings, entries = run.spec.as_json()["settings"], self._plan.race.entries
        words = settings_in_words(settings, run.spec.optimizer, entries=entries)
        line = f"{stage}: {run.spec.optimizer}, {words}, seed {run.spec.seed}: {result}"
        if run.status == "stopped":
            line += f" after {len(run.epochs)} epochs"
        self.advance(f"{line}{self._time_left()}", run.spec.optimizer, result)

    def _time_left(self) -> str:
        """For the line of a run, now and then; the first time it is a line of its own."""
        now, pace = time.monotonic(), self._pace
        if self._first_epoch is None or pace.computed < 2 or now - self._first_epoch < 2:
            return ""
        if self._estimated is not None and now - self._estimated < 30:
            return ""
        first, self._estimated = self._estimated is None, now
        seconds = (now - self._first_epoch) / (pace.computed - 1) * pace.left
        if not first:
            return f" (about {duration(seconds)} left)"
        if seconds > 5:
            self.say(f"By the first runs, the rest will take about {duration(seconds)}.")
        return ""
