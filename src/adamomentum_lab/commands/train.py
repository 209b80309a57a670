"""`adamomentum train`."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adamomentum_lab import commands

if TYPE_CHECKING:
    from adamomentum_lab.engine.store import Run
    from adamomentum_lab.selection import EpochRecord
    from adamomentum_lab.workload import Workload


STRATEGIES = ("auto", "ddp", "fsdp")


@commands.app.command(epilog="Example: adamomentum train digits_cnn --optimizer adam --lr 1e-3")
def train(
    workload: commands.WorkloadOption,
    optimizer: Annotated[
        str, typer.Option(help="A name from `adamomentum list`, package.Class or file.py:Class.")
    ],
    lr: Annotated[float | None, typer.Option(help="Learning rate.")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Weight decay.")] = None,
    eps: Annotated[float | None, typer.Option(help="Term in the denominator.")] = None,
    betas: Annotated[str | None, typer.Option(help="Two numbers, such as 0.9,0.999.")] = None,
    momentum: Annotated[float | None, typer.Option(help="Momentum of SGD.")] = None,
    end_lr: Annotated[
        float | None, typer.Option(help="At the end, if the schedule has this setting.")
    ] = None,
    final_lr: Annotated[float | None, typer.Option(help="Final lr of AdaBound.")] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Seed of all random numbers.")
    ] = 1,
    epochs: Annotated[
        int | None,
        typer.Option(min=1, help="Stop after this many epochs; the lr schedule does not change."),
    ] = None,
    scale: commands.ScaleOption = "mini",
    protocol: commands.ProtocolOption = "fair",
    device: Annotated[str, typer.Option(help="cpu, cuda, mps or auto.")] = "cpu",
    devices: Annotated[int, typer.Option(min=1, help="Number of devices.")] = 1,
    strategy: Annotated[str, typer.Option(help="auto, ddp or fsdp.")] = "auto",
    precision: Annotated[
        str, typer.Option(help="32-true, bf16-mixed, 16-mixed, bf16-true or 64-true.")
    ] = "32-true",
    compiled: Annotated[
        bool, typer.Option("--compile", help="Compile the network by torch.compile.")
    ] = False,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 1,
    checkpoint_every: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="Seconds between two checkpoints. [15, or more if they cost over 2 %]"
        ),
    ] = None,
    runs: commands.RunsOption = Path("runs"),
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Ignore what is stored of the run.")
    ] = False,
    as_json: commands.JsonOption = False,
) -> None:
    """Train once. Run it again to resume, or to show a finished run."""
    from adamomentum_lab import catalog, contenders, rules
    from adamomentum_lab.engine.devices import PRECISIONS, choose
    from adamomentum_lab.files import dumps

    reference = commands.parse_or_exit(lambda: catalog.find_workload(workload))
    commands.parse_or_exit(lambda: rules.get(protocol))
    size = commands.one_of("scale", scale, rules.SCALES)
    kind = commands.parse_or_exit(lambda: choose(device))
    commands.one_of("strategy", strategy, STRATEGIES)
    commands.one_of("precision", precision, PRECISIONS)
    found = commands.parse_or_exit(lambda: commands.find_contenders(optimizer))
    if len(found) != 1:
        raise typer.BadParameter(f"--optimizer must be one optimizer, not {optimizer!r}")
    contender = found[0]
    given = {"lr": lr, "weight_decay": weight_decay, "eps": eps, "betas": _pair(betas)}
    given |= {"momentum": momentum, "final_lr": final_lr}
    given = {name: value for name, value in given.items() if value is not None}
    commands.parse_or_exit(lambda: contender.check(given))

    from torch import nn

    from adamomentum_lab.engine.events import EpochEnded, Event, RunUpdated
    from adamomentum_lab.engine.inline import Inline
    from adamomentum_lab.engine.job import Job, check_device, execute
    from adamomentum_lab.engine.reuse import Reuse, tell_changes
    from adamomentum_lab.engine.spec import Spec
    from adamomentum_lab.engine.store import Store
    from adamomentum_lab.errors import LabError
    from adamomentum_lab.race.facts import caveats_of, run_as_json
    from adamomentum_lab.race.plan import base_settings
    from adamomentum_lab.report.progress import Display
    from adamomentum_lab.selection import select_epoch
    from adamomentum_lab.training.outcome import shown_file

    commands.parse_or_exit(lambda: check_device(device))

    cls = commands.load_workload(reference)
    contender = contender.with_schedule(cls.schedule_settings)
    given |= {} if end_lr is None else {"end_lr": end_lr}
    commands.parse_or_exit(lambda: contender.check(given))
    settings = {**base_settings(contender, cls, protocol), **given}
    try:
        if contender.takes != "model":
            with commands.quiet_output():
                contender.build_for(nn.Linear(1, 1), (), **settings)
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(str(error)) from error
    spec = Spec.of(
        settings,
        workload=reference.name,
        code=reference.code,
        optimizer=contender.name,
        **contenders.origin(contender.name, contender.entry),
        seed=seed,
        scale=size,
        protocol=protocol,
        precision=precision,
        device="" if kind == "cpu" else kind,
        compile=compiled,
        devices=f"{devices} {'ddp' if strategy == 'auto' else strategy}" if devices > 1 else "",
    )
    with commands.quiet_output():
        problem = cls(size, protocol)
    length = rules.at_scale(cls.epochs, size)
    if epochs and epochs > length:
        typer.echo(f"{reference.name} has {length} epochs at the scale {size}.", err=True)
    total = min(epochs or length, length)
    store = Store(runs)
    part = total if total < length else None
    folder, entry = store.folder_of(spec), contender.entry
    job = Job(spec, reference, folder, part, devices, strategy, threads, entry=entry)
    job = replace(job, checkpoint_seconds=checkpoint_every)
    # Only one process of a distributed run writes files and prints.
    if os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")) != "0":
        execute(job, stopped=_Stop())
        return
    run = store.get(spec)
    decision = Reuse(store, fresh).decide(job, run)
    if run is None or decision.use != "reuse":
        with Display() as display, commands.quiet_output():
            raced = {contender.name: entry}
            for line in tell_changes(store, reference, size, protocol, raced):
                display.say(line)
            display.begin("epochs", total, {})
            display.already(len(run.epochs) if run and decision.use == "continue" else 0)

            def hear(event: Event) -> None:
                match event:
                    case RunUpdated(epoch=epoch):
                        display.at(epoch)
                    case EpochEnded(record=record):
                        display.advance(_epoch_line(record))

            engine = Inline(store, stopped=_Stop())
            engine.fresh = fresh
            [run] = engine.run([job], hear)
            if run.status == "failed":
                raise LabError(run.error or "the run failed.") from engine.error
    if len(run.epochs) >= total:
        run.status = "done"
    caveats = caveats_of([contender], problem)
    if as_json:
        typer.echo(dumps(run_as_json(run, problem, caveats, total)))
    else:
        typer.echo(_summary(run, problem, total))
        reported = select_epoch(run.epochs[:total], problem)
        shown = shown_file(store.folder_of(spec), reported["epoch"] if reported else 0)
        if shown.exists():
            typer.echo(shown.read_text(encoding="utf-8"))
        for caveat in caveats:
            typer.echo(f"Note: {caveat}.")


class _Stop:
    """Tells whether SIGINT or SIGTERM came. A second Ctrl-C ends the process at once.

    SIGTERM may come twice: from torchrun, and from the cluster to all processes.
    """

    def __init__(self) -> None:
        self._came = False
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, self._hear)

    def _hear(self, number: int, *_: object) -> None:
        if self._came and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._came = True

    def __call__(self) -> bool:
        return self._came


def _pair(text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        first, second = map(float, text.split(","))
    except ValueError as error:
        raise typer.BadParameter(
            f"betas must be two numbers, such as 0.9,0.999, not {text!r}"
        ) from error
    return first, second


def _epoch_line(record: EpochRecord) -> str:
    parts = []
    for split in (key for key in record if key != "epoch"):
        scores = [f"{name} {value:.4g}" for name, value in record[split].items()]
        parts.append(f"{split} {', '.join(scores)}")
    return f"epoch {record['epoch']}: " + "; ".join(parts)


def _summary(run: Run, workload: Workload, epochs: int) -> str:
    from adamomentum_lab.selection import reported_epoch

    end = reported_epoch(run, workload, epochs)
    if not end:
        return f"{run.spec}: {run.status} after {len(run.epochs)} epochs"
    return (
        f"{run.spec}: {run.status}; {_epoch_line(end)} (of {len(run.epochs[:epochs])}, "
        f"{run.machine.get('ms_per_update', float('nan')):.2f} ms per update)"
    )
