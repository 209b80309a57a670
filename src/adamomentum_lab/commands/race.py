"""`adamomentum race`."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adamomentum_lab.commands import (
    JsonOption,
    ProtocolOption,
    RunsOption,
    ScaleOption,
    WorkloadOption,
    app,
    loaded,
    named,
    one_of,
)

if TYPE_CHECKING:
    from adamomentum_lab.budget import Budget
    from adamomentum_lab.progress import Display
    from adamomentum_lab.race import Race
    from adamomentum_lab.result import Result
    from adamomentum_lab.runs.local import Local
    from adamomentum_lab.runs.ray import Ray
    from adamomentum_lab.runs.store import Run
    from adamomentum_lab.workloads import Workload


@app.command(epilog="Example: adamomentum race digits_cnn --optimizers adam,adamomentum --seeds 3")
def race(
    workload: WorkloadOption,
    optimizers: Annotated[
        str, typer.Option(help="Names, separated by commas; the paper's eight by default.")
    ] = "",
    trials: Annotated[
        int | None, typer.Option(min=0, help="Tuning runs for each; 0 races the defaults. [6]")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Final runs for each.")] = 5,
    tune: Annotated[
        str,
        typer.Option(
            help="Settings to search: some of lr,weight_decay,eps,betas,momentum,final_lr; "
            "what the paper searched by default."
        ),
    ] = "",
    search: Annotated[
        str, typer.Option(help="grid: points of the paper's. random: between its ends.")
    ] = "grid",
    halving: Annotated[
        bool,
        typer.Option(
            "--halving",
            help="Trials train a quarter of the epochs, the better half of them one half, the "
            "better quarter all.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the budget and every trial; run nothing.")
    ] = False,
    scale: ScaleOption = "mini",
    protocol: ProtocolOption = "fair",
    engine: Annotated[str, typer.Option(help="local or ray.")] = "local",
    address: Annotated[
        str | None,
        typer.Option(help="Of a Ray cluster, as 10.0.0.1:6379; without, Ray runs here."),
    ] = None,
    cpus_per_run: Annotated[
        float, typer.Option(min=0.01, help="Under Ray; threads too. May be a fraction.")
    ] = 1.0,
    gpus_per_run: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Under Ray. May be a fraction.")
    ] = 0.0,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Runs at a time; as many as there is room for.")
    ] = None,
    runs: RunsOption = Path("runs"),
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write TensorBoard logs.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Tune every optimizer with the same budget, then compare them over the same seeds.

    The same race again costs nothing: runs that are finished are not repeated, and those that
    were interrupted are continued.
    """
    from adamomentum_lab import contenders, workloads
    from adamomentum_lab.analysis.table import settings_in_words
    from adamomentum_lab.errors import StoppedError
    from adamomentum_lab.output import dumps
    from adamomentum_lab.progress import Display
    from adamomentum_lab.race import Race, budget, hold, kept
    from adamomentum_lab.result import write
    from adamomentum_lab.runs.store import Store
    from adamomentum_lab.runs.tuning import SEARCHES

    origin = named(lambda: workloads.find(workload))
    rules = one_of("protocol", protocol, workloads.PROTOCOLS)
    size = one_of("scale", scale, workloads.SCALES)
    one_of("engine", engine, ("local", "ray"))
    if engine == "local" and (address or cpus_per_run != 1.0 or gpus_per_run):
        raise typer.BadParameter(
            "--address, --cpus-per-run and --gpus-per-run belong to --engine ray"
        )
    paper = [name for name in contenders.names() if contenders.get(name).role == "paper"]
    cls = loaded(origin)
    stated = cls.settings.get(rules)  # under `paper`, those that the paper ran
    ran = [name for name in paper if not stated or name in stated]
    chosen = [name.strip() for name in optimizers.split(",") if name.strip()] or ran
    named(lambda: [contenders.get(name) for name in chosen])
    way = one_of("search", search, SEARCHES)
    searched = _tuned(tune, chosen)
    if rules != "fair" and trials:
        raise typer.BadParameter(f"the protocol {rules!r} has its settings; --trials 0 is right")
    trials = (6 if rules == "fair" else 0) if trials is None else trials
    for option, given in (("tune", tune), ("search", way != "grid"), ("halving", halving)):
        if given and not trials:
            why = f"under the protocol {rules!r}" if rules != "fair" else "with --trials 0"
            raise typer.BadParameter(f"nothing is tuned {why}; leave --{option} out")
    what = Race(
        workload=origin.name,
        code=origin.code,
        optimizers=tuple(dict.fromkeys(chosen)),
        trials=trials,
        seeds=seeds,
        scale=size,
        protocol=rules,
        search=way,
        tune=searched,
        halving=halving,
    )
    plan = budget(what, cls)
    if dry_run:
        there = kept(what, plan, Store(runs)) if (runs / "runs.sqlite").exists() else []
        if as_json:
            typer.echo(dumps({"spec": asdict(what), "budget": plan.as_json()}))
        else:
            typer.echo("\n".join([*_budget(what, plan, there), *_trials(plan)]))
        return
    store = Store(runs)
    folder = runs / "races" / what.id
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def started(say: Callable[[str], None]) -> Local | Ray:
        if engine == "local":
            from adamomentum_lab.runs.local import Local

            return Local(store, jobs or os.cpu_count() or 1, say)
        from adamomentum_lab.runs.ray import Ray

        return Ray(store, say, address, cpus_per_run, gpus_per_run, jobs)

    with Display() as display, started(display.say) as pool:
        for line in _budget(what, plan, kept(what, plan, store)):
            display.say(line)
        parts = {name: plan.runs_of(name) for name in what.optimizers}
        display.begin("all", sum(parts.values()), parts)
        pace = _Pace(display)

        def on_run(stage: str, run: Run, problem: Workload) -> None:
            result = _result(stage, run, problem)
            words = settings_in_words(run.spec.as_json()["settings"], run.spec.optimizer)
            line = f"{run.spec.optimizer}, {words}, seed {run.spec.seed}: {result}"
            if run.status == "stopped":
                line += f" after {len(run.epochs)} epochs"
            display.advance(f"{stage}: {line}{pace.left()}", run.spec.optimizer, result)

        def on_drop(optimizer: str, count: int) -> None:
            display.fewer(count, optimizer)

        # Standard output is for results; a user's file may print.
        with contextlib.redirect_stdout(sys.stderr):
            try:
                result = hold(what, origin, store, pool, on_run, pace, on_drop)
            except KeyboardInterrupt as error:
                raise StoppedError from error
            told = result.as_json() if as_json else None
            write(result, folder)
        if tensorboard:
            _tensorboard(result, folder / "tensorboard")
    if told is not None:
        typer.echo(dumps(told))
    else:
        _show(result, folder)


def _tuned(tune: str, optimizers: list[str]) -> tuple[str, ...]:
    """The settings that shall be searched, in the one order."""
    from adamomentum_lab import contenders
    from adamomentum_lab.errors import unknown

    names = [name.strip().replace("-", "_") for name in tune.split(",") if name.strip()]
    there = [
        name
        for name in contenders.TUNABLE
        if any(name in contenders.get(one).defaults for one in optimizers)
    ]
    for name in names:
        if name not in contenders.TUNABLE:
            raise typer.BadParameter(unknown("setting to tune", name, contenders.TUNABLE))
        if name not in there:
            raise typer.BadParameter(
                f"none of these optimizers has a setting {name!r}; there are {', '.join(there)}"
            )
    return tuple(name for name in contenders.TUNABLE if name in names)


def _budget(race: Race, plan: Budget, there: list[Run]) -> list[str]:
    """What will be done, and what of it is done."""
    count = len(race.optimizers)
    runs = sum(map(len, plan.trials.values())) + count * race.seeds
    whole = (
        f"{count} optimizers on {race.workload} ({race.scale}, {race.protocol}): "
        f"{race.trials} tuning and {race.seeds} final runs each, {runs} in all, "
        f"{plan.all_epochs} epochs."
    )
    lines = [whole, *plan.lines()]
    if there:
        finished = sum(run.status in ("done", "diverged") for run in there)
        which = "trials" if race.trials else "runs"
        lines.append(
            f"Of these {which}, {finished} are finished and {len(there) - finished} begun already: "
            f"{sum(len(run.epochs) for run in there)} epochs."
        )
    return lines


def _trials(plan: Budget) -> list[str]:
    """Every trial: what is searched, and what else differs from the defaults."""
    from adamomentum_lab import contenders
    from adamomentum_lab.analysis.table import settings_in_words

    lines = []
    for name, start in plan.starts.items():
        defaults, space = contenders.get(name).defaults, plan.spaces[name]
        lines.append(name)
        for i, settings in enumerate(plan.trials[name] or [start], 1):
            shown = {
                key: value
                for key, value in settings.items()
                if key == "lr" or key in space or value != defaults[key]
            }
            lines.append(f"  {i:>3}  {settings_in_words(shown, name, only_changed=False)}")
    return lines


class _Pace:
    """How long the rest will take, by the epochs since the first: without the time that the
    workers need to start."""

    def __init__(self, display: Display) -> None:
        self._say = display.say
        self._computed = self._left = 0
        self._began: float | None = None
        self._told: float | None = None

    def __call__(self, computed: int, left: int) -> None:
        if computed and self._began is None:
            self._began = time.monotonic()
        self._computed, self._left = computed, left

    def left(self) -> str:
        """To be added to the line of a run, now and then; the first time it is a line."""
        from adamomentum_lab.progress import duration

        now = time.monotonic()
        if self._began is None or self._computed < 2 or now - self._began < 2:
            return ""
        if self._told is not None and now - self._told < 30:
            return ""
        first, self._told = self._told is None, now
        seconds = (now - self._began) / (self._computed - 1) * self._left
        if not first:
            return f" (about {duration(seconds)} left)"
        if seconds > 5:
            self._say(f"By the first runs, the rest will take about {duration(seconds)}.")
        return ""


def _result(stage: str, run: Run, workload: Workload) -> str:
    """A finished run in two words. Of a trial, only validation is shown."""
    from adamomentum_lab.analysis.ranking import final

    split = "validation" if stage == "tuning" else "test"
    score = final(run, workload).get(split, {}).get(workload.metric)
    return f"{split} {score:.4g}" if score is not None else run.status


def _show(result: Result, folder: Path) -> None:
    from rich.console import Console

    from adamomentum_lab.analysis.statistics import OURS
    from adamomentum_lab.analysis.table import ranking_table, statements

    race, workload = result.race, result.workload
    out = Console(highlight=False)
    out.print(ranking_table(result.rows, workload))
    words = statements(result.rows, result.effects, workload, width=min(80, out.width))
    out.print(f"\n{words}", markup=False)
    if all(value is None for row in result.rows for value in row.values):
        out.print("Look at the loss, or at smaller learning rates.")
    best = "larger" if workload.larger_is_better else "smaller"
    reported = {
        "validation": "at the epoch that was best on validation",
        "last": "at the last epoch",
        "test": "at the epoch that was best on test",
    }[workload.selection]
    mean = (
        f"Mean over {race.seeds} seeds ± half a 95 % t-interval" if race.seeds > 1 else "One seed"
    )
    words = f"\n{mean}, {reported}; {best} is better. "
    if OURS in race.optimizers and len(race.optimizers) > 1:
        words += (
            f"Differences are to {OURS}, paired by seed, and their intervals each for itself; the "
            "sentences above are corrected for the number of comparisons. "
        )
    out.print(f"{words}All runs: {folder}", markup=False)
    page = shlex.join(["adamomentum", "report", "--runs", str(folder.parents[1])])
    out.print(f"A page of them: {page}", markup=False)
    for caveat in result.caveats:
        out.print(f"Note: {caveat}.", markup=False)


def _tensorboard(result: Result, folder: Path) -> None:
    from adamomentum_lab.errors import LabError

    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise LabError("--tensorboard needs: pip install tensorboard") from error
    for stage, run in result.runs:
        name = f"{stage}-{run.spec.optimizer}-seed{run.spec.seed}-{run.spec.id[:6]}"
        with SummaryWriter(str(folder / name)) as writer:
            for record in run.epochs:
                for split, scores in record.items():
                    if split == "epoch" or (stage == "tuning" and split == "test"):
                        continue
                    for metric, value in scores.items():
                        writer.add_scalar(f"{metric}/{split}", value, record["epoch"])
