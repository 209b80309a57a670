"""`adamomentum race`."""

from __future__ import annotations

import os
import signal
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
    from adamomentum_lab.race import Result
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
    scale: ScaleOption = "mini",
    protocol: ProtocolOption = "fair",
    engine: Annotated[str, typer.Option(help="local.")] = "local",
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Runs at a time, a thread each; all cores.")
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
    from adamomentum_lab.race import Race, hold, write
    from adamomentum_lab.runs.local import Local
    from adamomentum_lab.runs.store import Store

    origin = named(lambda: workloads.find(workload))
    rules = one_of("protocol", protocol, workloads.PROTOCOLS)
    size = one_of("scale", scale, workloads.SCALES)
    one_of("engine", engine, ("local",))
    paper = [name for name in contenders.names() if contenders.get(name).role == "paper"]
    cls = loaded(origin)
    stated = cls.settings.get(rules)  # under `paper`, those that the paper ran
    ran = [name for name in paper if not stated or name in stated]
    chosen = [name.strip() for name in optimizers.split(",") if name.strip()] or ran
    named(lambda: [contenders.get(name) for name in chosen])
    if rules != "fair" and trials:
        raise typer.BadParameter(f"the protocol {rules!r} has its settings; --trials 0 is right")
    trials = (6 if rules == "fair" else 0) if trials is None else trials
    what = Race(origin.name, origin.code, tuple(dict.fromkeys(chosen)), trials, seeds, size, rules)
    store = Store(runs)
    folder = runs / "races" / what.id
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Display() as display, Local(store, jobs or os.cpu_count() or 1, display.say) as local:
        total = len(what.optimizers) * (trials + seeds)
        display.say(
            f"{len(what.optimizers)} optimizers on {what.workload} ({scale}, {protocol}): "
            f"{trials} tuning and {seeds} final runs each, {total} in all."
        )

        display.begin("all", total, dict.fromkeys(what.optimizers, trials + seeds))

        def on_run(stage: str, run: Run, problem: Workload) -> None:
            result = _result(stage, run, problem)
            words = settings_in_words(run.spec.as_json()["settings"], run.spec.optimizer)
            line = f"{run.spec.optimizer}, {words}, seed {run.spec.seed}: {result}"
            display.advance(f"{stage}: {line}", run.spec.optimizer, result)

        try:
            result = hold(what, origin, store, local, on_run)
        except KeyboardInterrupt as error:
            raise StoppedError from error
        write(result, folder)
        if tensorboard:
            _tensorboard(result, folder / "tensorboard")
    if as_json:
        typer.echo(dumps(result.as_json()))
    else:
        _show(result, folder)


def _result(stage: str, run: Run, workload: Workload) -> str:
    """A finished run in two words. Of a trial, only validation is shown."""
    from adamomentum_lab.analysis.ranking import final

    split = "validation" if stage == "tuning" else "test"
    score = final(run, workload).get(split, {}).get(workload.metric)
    return f"{split} {score:.4g}" if score is not None else run.status


def _show(result: Result, folder: Path) -> None:
    from rich.console import Console

    from adamomentum_lab.analysis.ranking import OURS
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
