"""The command `adamomentum`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

try:
    import typer
except ModuleNotFoundError as error:
    if error.name != "typer":
        raise
    sys.exit("adamomentum needs the lab: pip install 'adamomentum[lab]'")

if TYPE_CHECKING:
    from adamomentum_lab.landscape.solutions import Found
    from adamomentum_lab.progress import Display
    from adamomentum_lab.race import Result
    from adamomentum_lab.runs.store import Run
    from adamomentum_lab.workloads import Origin, Workload

# torch and the rest are imported by the commands that need them: --help answers at once.
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
_debug = False

WorkloadOption = Annotated[
    str, typer.Argument(metavar="WORKLOAD", help="A name from `adamomentum list`, or your file.")
]
ScaleOption = Annotated[str, typer.Option(help="smoke, mini or full (the paper's own).")]
ProtocolOption = Annotated[str, typer.Option(help="fair, paper or as-run.")]
RunsOption = Annotated[Path, typer.Option(help="Folder of results.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, nothing else.")]


@app.callback()
def adamomentum(
    debug: Annotated[bool, typer.Option(help="Show tracebacks.")] = False,
) -> None:
    """AdaMomentum, measured: race optimizers on a real problem, yours if you like."""
    global _debug
    _debug = debug


def _found(find: Callable[[], Any]) -> Any:
    """What was named on the command line; a wrong name is wrong usage."""
    from adamomentum_lab.errors import LabError

    try:
        return find()
    except LabError as error:
        raise typer.BadParameter(str(error)) from error


def _one_of(kind: str, value: str, known: tuple[str, ...]) -> Any:
    from adamomentum_lab.errors import unknown

    if value not in known:
        raise typer.BadParameter(unknown(kind, value, known))
    return value


def _loaded(origin: Origin) -> type[Workload]:
    """The workload; errors in the user's file are told as the user's."""
    from adamomentum_lab.errors import LabError
    from adamomentum_lab.runs.execute import line_of

    try:
        with contextlib.redirect_stdout(sys.stderr):  # standard output is for results
            return origin.load()
    except LabError:
        raise
    except Exception as error:
        line = getattr(error, "lineno", None) or line_of(origin.file, error)
        where = f"{origin.file}:{line}" if line else str(origin.file)
        raise LabError(f"{where}: {type(error).__name__}: {error}") from error


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

    origin = _found(lambda: workloads.find(workload))
    rules = _one_of("protocol", protocol, workloads.PROTOCOLS)
    size = _one_of("scale", scale, workloads.SCALES)
    _one_of("engine", engine, ("local",))
    paper = [name for name in contenders.names() if contenders.get(name).role == "paper"]
    cls = _loaded(origin)
    stated = cls.settings.get(rules)  # under `paper`, those that the paper ran
    ran = [name for name in paper if not stated or name in stated]
    chosen = [name.strip() for name in optimizers.split(",") if name.strip()] or ran
    _found(lambda: [contenders.get(name) for name in chosen])
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
    from adamomentum_lab.analysis.table import ranking_table

    race, workload = result.race, result.workload
    out = Console(highlight=False)
    out.print(ranking_table(result.rows, workload))
    if all(value is None for row in result.rows for value in row.values):
        out.print("\nNo run ended with a score: look at the loss, or at smaller learning rates.")
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
            f"Differences are to {OURS}, paired by seed; an interval that holds 0 shows no "
            "difference. "
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


@app.command(epilog="Example: adamomentum train digits_cnn --optimizer adamomentum --lr 1e-3")
def train(
    workload: WorkloadOption,
    optimizer: Annotated[str, typer.Option(help="A name from `adamomentum list`.")],
    lr: Annotated[float | None, typer.Option(help="Learning rate.")] = None,
    weight_decay: Annotated[float | None, typer.Option()] = None,
    eps: Annotated[float | None, typer.Option()] = None,
    betas: Annotated[str | None, typer.Option(help="Two numbers, as 0.9,0.999.")] = None,
    momentum: Annotated[float | None, typer.Option()] = None,
    final_lr: Annotated[float | None, typer.Option(help="Of AdaBound.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1)] = 1,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many; the schedule stays as it is.")
    ] = None,
    scale: ScaleOption = "mini",
    protocol: ProtocolOption = "fair",
    device: Annotated[str, typer.Option(help="cpu, cuda, mps or auto.")] = "cpu",
    devices: Annotated[int, typer.Option(min=1, help="How many of them.")] = 1,
    strategy: Annotated[str, typer.Option(help="auto, ddp or fsdp.")] = "auto",
    precision: Annotated[
        str, typer.Option(help="32-true, bf16-mixed, 16-mixed, bf16-true, 64-true.")
    ] = "32-true",
    threads: Annotated[int, typer.Option(min=1, help="Of the CPU.")] = 1,
    runs: RunsOption = Path("runs"),
    as_json: JsonOption = False,
) -> None:
    """One run. Again continues it where it stopped, or shows it if it is finished."""
    import torch
    from torch import nn

    from adamomentum_lab import contenders, workloads
    from adamomentum_lab.errors import LabError, StoppedError
    from adamomentum_lab.output import dumps
    from adamomentum_lab.progress import Display
    from adamomentum_lab.race import base_settings, caveats_of, run_as_json
    from adamomentum_lab.runs.execute import Job, execute
    from adamomentum_lab.runs.spec import Spec
    from adamomentum_lab.runs.store import Store
    from adamomentum_lab.training.supervised import chosen, shown_in

    origin = _found(lambda: workloads.find(workload))
    rules = _one_of("protocol", protocol, workloads.PROTOCOLS)
    size = _one_of("scale", scale, workloads.SCALES)
    contender = _found(lambda: contenders.get(optimizer))
    cls = _loaded(origin)
    given = {
        "lr": lr,
        "weight_decay": weight_decay,
        "eps": eps,
        "betas": _numbers(betas),
        "momentum": momentum,
        "final_lr": final_lr,
    }
    given = {name: value for name, value in given.items() if value is not None}
    _found(lambda: contender.check(given))
    settings = base_settings(optimizer, cls, rules) | given
    try:
        contender.build([nn.Parameter(torch.zeros(1))], **settings)
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(str(error)) from error
    spec = Spec.of(
        settings,
        workload=origin.name,
        code=origin.code,
        optimizer=optimizer,
        seed=seed,
        scale=size,
        protocol=rules,
        precision=precision,
    )
    problem = cls(size, rules)
    if epochs and epochs > cls.epochs[size]:
        typer.echo(f"{origin.name} has {cls.epochs[size]} epochs at the scale {size}.", err=True)
    total = min(epochs or cls.epochs[size], cls.epochs[size])
    store = Store(runs)
    run = store.get(spec)
    # Of the processes of a distributed run only one writes and speaks.
    leader = os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")) == "0"
    if run is None or (run.status not in ("done", "diverged") and len(run.epochs) < total):
        stop = _Stop()
        with Display() as display:
            display.begin("epochs", total, {})
            display.already(len(run.epochs) if run else 0)

            def on_epoch(record: dict[str, Any], seconds: float) -> None:
                if leader:
                    store.epoch(spec, record, seconds)
                    display.advance(_epoch_line(record))

            if leader:
                store.begin(spec, run.machine if run else {})
            job = Job(
                spec, origin, store.folder_of(spec), total, device, devices, strategy, threads
            )
            with contextlib.redirect_stdout(sys.stderr):
                run = execute(job, on_epoch, lambda now: display.at(now.epoch), stop)
        if not leader:
            return
        finished = run.status != "done" or len(run.epochs) == cls.epochs[size]
        status, run.status = run.status, run.status if finished else "stopped"
        store.finish(run)
        run.status = status
        if stop():
            raise StoppedError
    elif run.status != "diverged" or len(run.epochs) >= total:
        run.status = "done"
    if as_json:
        typer.echo(dumps(run_as_json(run, problem, total)))
    else:
        typer.echo(_summary(run, problem, total))
        reported = chosen(run.epochs[:total], problem)
        shown = shown_in(store.folder_of(spec), reported["epoch"] if reported else 0)
        if shown.exists():
            typer.echo(shown.read_text(encoding="utf-8"))
        for caveat in caveats_of(spec, problem):
            typer.echo(f"Note: {caveat}.")
    if run.status == "failed":
        raise LabError(run.error or "the run failed.")


class _Stop:
    """Whether SIGINT or SIGTERM came. The second time it ends the process at once."""

    def __init__(self) -> None:
        self._came = False
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, self._hear)

    def _hear(self, *_: object) -> None:
        if self._came:
            raise KeyboardInterrupt
        self._came = True

    def __call__(self) -> bool:
        return self._came


def _numbers(text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        first, second = map(float, text.split(","))
    except ValueError as error:
        raise typer.BadParameter(f"betas are two numbers, as 0.9,0.999, not {text!r}") from error
    return first, second


def _epoch_line(record: dict[str, Any]) -> str:
    parts = [
        f"{split} " + ", ".join(f"{name} {value:.4g}" for name, value in scores.items())
        for split, scores in record.items()
        if split != "epoch"
    ]
    return f"epoch {record['epoch']}: " + "; ".join(parts)


def _summary(run: Run, workload: Workload, epochs: int) -> str:
    from adamomentum_lab.analysis.ranking import final

    end = final(run, workload, epochs)
    if not end:
        return f"{run.spec}: {run.status} after {len(run.epochs)} epochs"
    return (
        f"{run.spec}: {run.status}; {_epoch_line(end)} (of {len(run.epochs[:epochs])}, "
        f"{run.machine.get('ms_per_update', float('nan')):.2f} ms per update)"
    )


@app.command("list", epilog="Example: adamomentum list --json")
def list_(as_json: JsonOption = False) -> None:
    """Optimizers with their settings, workloads with their scales."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from adamomentum_lab import contenders, workloads
    from adamomentum_lab.analysis.table import settings_in_words

    entrants = [contenders.get(name) for name in contenders.names()]
    problems = {name: workloads.find(name).load() for name in workloads.names()}
    if as_json:
        listed = {
            "contenders": {
                c.name: {
                    "role": c.role,
                    "summary": c.summary,
                    "defaults": c.defaults,
                    "source": c.source,
                }
                for c in entrants
            },
            "workloads": {
                name: {
                    "summary": (cls.__doc__ or "").strip(),
                    "metric": cls.metric,
                    "larger_is_better": cls.larger_is_better,
                    "target": {scale: cls(scale).target for scale in workloads.SCALES},
                    "epochs": dict(cls.epochs),
                    "batch": {scale: cls(scale).batch for scale in workloads.SCALES},
                    "grid": cls.grid,
                    "settings": cls.settings,
                }
                for name, cls in problems.items()
            },
            "scales": list(workloads.SCALES),
            "protocols": list(workloads.PROTOCOLS),
        }
        typer.echo(json.dumps(listed))
        return
    out = Console(highlight=False)
    table = Table("optimizer", "role", "what it is, and its defaults", box=None, pad_edge=False)
    for c in entrants:
        words = settings_in_words(c.defaults, c.name, only_changed=False)
        table.add_row(c.name, c.role, f"{c.summary}\n[dim]{words}[/dim]")
    out.print(table)
    out.print()
    table = Table("workload", "what it is", box=None, pad_edge=False)
    table.columns[0].no_wrap = True
    for name, cls in problems.items():
        lengths = ", ".join(str(cls.epochs[scale]) for scale in workloads.SCALES)
        target = "" if cls.target is None else f", target {cls.target:g}"
        words = f"{cls.metric}{target}; epochs at smoke, mini, full: {lengths}"
        summary = " ".join((cls.__doc__ or "").split())
        table.add_row(name, f"{escape(summary)}\n[dim]{words}[/dim]")
    out.print(table)
    out.print(
        "\nProtocols: fair (equal tuning, validation chooses), paper (its settings, last epoch), "
        "as-run (what the authors' scripts do).",
        markup=False,
    )


data_app = typer.Typer(invoke_without_command=True, rich_markup_mode=None)
app.add_typer(data_app, name="data", epilog="Example: adamomentum data fetch cifar10")


@data_app.callback()
def data(context: typer.Context, as_json: JsonOption = False) -> None:
    """Data sets: what is there, whole or damaged, and where the rest is to be had."""
    if context.invoked_subcommand:
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from adamomentum_lab.data import sets
    from adamomentum_lab.data.files import root
    from adamomentum_lab.errors import LabError

    if root().exists() and not root().is_dir():
        raise LabError(f"{root()} is not a folder; ADAMOMENTUM_DATA must name one.")
    states = {name: dataset.state() for name, dataset in sets.known().items()}
    if as_json:
        listed = {
            name: {
                "state": states[name][0],
                "detail": states[name][1],
                "summary": dataset.summary,
                "terms": dataset.terms,
                "downloads": [download.url for download in dataset.downloads],
            }
            for name, dataset in sets.known().items()
        }
        typer.echo(json.dumps({"data": listed, "machine": {"root": str(root())}}))
        return
    out = Console(highlight=False)
    table = Table("data set", "state", "what it is, and where", box=None, pad_edge=False)
    for name, dataset in sets.known().items():
        state, detail = states[name]
        words = f"{dataset.summary}. Terms: {dataset.terms}."
        table.add_row(name, state, f"{words}\n[dim]{escape(detail)}[/dim]")
    out.print(table)
    out.print(f"\nAll in {root()}; the variable ADAMOMENTUM_DATA changes that.", markup=False)


@data_app.command(epilog="Example: adamomentum data fetch cifar10")
def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="From `adamomentum data`.")],
    source: Annotated[
        str | None,
        typer.Option("--from", help="A folder, or its address, that has the same files."),
    ] = None,
) -> None:
    """Download a data set, check it and unpack it. Again continues where it broke off."""
    from adamomentum_lab.data import fetch as fetching
    from adamomentum_lab.data import sets
    from adamomentum_lab.errors import StoppedError
    from adamomentum_lab.progress import Display

    dataset = _found(lambda: sets.get(name))
    if source and Path(source).is_dir():
        source = Path(source).resolve().as_uri()
    elif source is not None and not source.startswith(("http://", "https://", "file://")):
        raise typer.BadParameter(f"{source!r} is no folder and no address (http://, https://)")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Display() as display:
        shown = _Shown(display)
        try:
            folder = fetching.fetch(dataset, source, shown, display.say)
        except KeyboardInterrupt as error:
            raise StoppedError from error
    typer.echo(f"{name} is whole: {folder} (terms: {dataset.terms})")


class _Shown:
    """Bytes as they come: a bar in MB, or a line for every tenth of a file."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._name, self._tenth = "", 0

    def __call__(self, name: str, done: int, size: int) -> None:
        if name != self._name:
            self._name, self._tenth = name, 10 * done // size
            self._display.begin(f"{name}, MB", max(size // 10**6, 1), {})
        self._display.at(done / 10**6)
        if 10 * done // size > self._tenth:
            self._tenth = 10 * done // size
            if not self._display.console.is_terminal:
                self._display.say(f"{name}: {done / 1e6:,.1f} of {size / 1e6:,.1f} MB")


@app.command(epilog="Example: adamomentum bench --model 'DenseNet-121' --model '1,000 x 64'")
def bench(
    model: Annotated[
        list[str] | None, typer.Option(help="Shapes to measure; all by default.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads of torch.")] = 2,
    seconds: Annotated[float, typer.Option(min=0, help="Time for each model.")] = 5.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, and the table elsewhere.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Also write the JSON to this file.")] = None,
) -> None:
    """Step time and memory beside torch.optim.Adam, on the shapes of the paper's models."""
    from adamomentum_lab.bench import shapes, step_time

    unknown = [name for name in model or [] if name not in shapes.MODELS]
    if unknown:
        known = ", ".join(map(repr, shapes.MODELS))
        raise typer.BadParameter(f"there is no {unknown[0]!r}; there are {known}")
    if out and not out.parent.is_dir():
        raise typer.BadParameter(f"the folder of {str(out)!r} does not exist")

    def say(line: str) -> None:
        typer.echo(line, err=as_json)

    report = step_time.main(model, threads, seconds, out, say)
    if as_json:
        typer.echo(json.dumps(report))


@app.command(epilog="Example: adamomentum theory escape")
def theory(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="curvature, epsilon, escape, ..., or all.")
    ] = "",
    out: Annotated[Path, typer.Option(help="Folder of the pages.")] = Path("theory"),
    paper: Annotated[
        bool, typer.Option("--paper", help="More trajectories, longer: an hour or more for all.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """The claims of the paper's theory, tested: a page each, with a figure and a verdict.

    Without a name, says which there are. Pages that are there already are not computed again.
    """
    import torch

    from adamomentum_lab import theory as claims
    from adamomentum_lab.errors import StoppedError
    from adamomentum_lab.output import dumps
    from adamomentum_lab.progress import Display
    from adamomentum_lab.theory import _pages

    if not name:
        for claim in map(claims.get, claims.names()):
            typer.echo(f"{claim.name:12} {claim.title} ({claim.place})")
        typer.echo(f"{'all':12} all of them, and an index")
        return
    chosen = claims.names() if name == "all" else [_found(lambda: claims.get(name)).name]
    torch.set_num_threads(1)  # the tensors are small
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    reports = []
    with Display() as display:
        display.begin("pages", len(chosen), {})
        for done, claim in enumerate(map(claims.get, chosen)):
            try:
                report, fresh = _pages.make(
                    claim,
                    "paper" if paper else "default",
                    out,
                    lambda part, done=done: display.at(done + part),  # type: ignore[misc]
                )
            except KeyboardInterrupt as error:
                raise StoppedError from error
            reports.append(report)
            seconds = f"{report['machine']['seconds']:.0f} s" if fresh else "was there"
            display.advance(f"{claim.name}: {report['verdict']} ({seconds})")
    index = _pages.write_index(out)
    if as_json:
        typer.echo(dumps({report.pop("claim"): report for report in reports}))
        return
    for report in reports:
        typer.echo(f"{report['claim']}: {report['verdict']}: {report['summary']}")
        for finding in report["findings"]:
            typer.echo(f"  [{finding['word']}] {finding['statement']} {finding['found']}")
    typer.echo(f"Pages: {index if name == 'all' else out / f'{name}.html'}")


@app.command(epilog="Example: adamomentum landscape 1c9f 77ab --out landscape")
def landscape(
    run: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN]...", help="Ids or folders of runs; none lists them."),
    ] = None,
    runs: RunsOption = Path("runs"),
    out: Annotated[Path, typer.Option(help="Folder of the page.")] = Path("landscape"),
    workload: Annotated[
        Path | None, typer.Option(help="Your file, where the runs are of a problem of your own.")
    ] = None,
    examples: Annotated[int, typer.Option(min=1, help="Of training, the same for all.")] = 300,
    grid: Annotated[int, typer.Option(min=3, help="Points a side of a surface; odd.")] = 15,
    radius: Annotated[float, typer.Option(help="In parts of the length of each filter.")] = 1.0,
    directions: Annotated[int, typer.Option(min=1, help="Pairs of random directions.")] = 5,
    probes: Annotated[int, typer.Option(min=2, help="Of the trace.")] = 10,
    steps: Annotated[int, typer.Option(min=1, help="Of Lanczos' method, at most.")] = 30,
    seed: Annotated[int, typer.Option(min=0, help="Of directions and probes.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="Of the CPU.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Loss surfaces and curvature about the solutions of runs, compared over their seeds."""
    import time

    import torch

    from adamomentum_lab.errors import LabError, StoppedError
    from adamomentum_lab.landscape import draw, solutions
    from adamomentum_lab.landscape.compare import Plan
    from adamomentum_lab.landscape.compare import landscape as measured
    from adamomentum_lab.output import dumps, make_folder
    from adamomentum_lab.progress import Display
    from adamomentum_lab.runs.environment import environment
    from adamomentum_lab.runs.execute import line_of

    if not run:
        _show_runs(solutions.listed(runs), as_json)
        return
    if grid % 2 == 0:
        raise typer.BadParameter(f"--grid {grid} is even; odd, a point of it is the solution")
    if not 0 < radius < float("inf"):
        raise typer.BadParameter(f"--radius {radius} is not a positive number")
    found = _found(lambda: solutions.named(run, runs))
    solutions.comparable(found)
    origin = _found(lambda: solutions.origin_of(found[0].run, workload))
    spec = found[0].run.spec
    make_folder(out)
    plan = Plan(examples, grid, radius, directions, probes, steps, seed)
    torch.set_num_threads(threads)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    started = time.perf_counter()
    with Display() as display, contextlib.redirect_stdout(sys.stderr):
        problem = _loaded(origin)(spec.scale, spec.protocol)
        display.begin("runs", len(found), {})

        def on_run(one: dict[str, Any]) -> None:
            values = ", ".join(f"{key} {m['value']:.4g}" for key, m in one["measures"].items())
            name = f"{one['spec']['optimizer']}, seed {one['spec']['seed']}"
            display.advance(f"{name}: loss {one['loss']:.4g}, {values}")

        try:
            result = measured(found, problem, origin.code, plan, on_run, display.at)
        except KeyboardInterrupt as error:
            raise StoppedError("interrupted; nothing was written") from error
        except LabError:
            raise
        except Exception as error:
            line = line_of(origin.file, error)
            where = f"{origin.file}:{line}: " if line else ""
            raise LabError(f"{where}{type(error).__name__}: {error}") from error
    seconds = time.perf_counter() - started
    machine = {**environment("cpu"), "seconds": seconds, "out": str(out)}
    result = {**result, "machine": machine}
    file = draw.write_all(result, out)
    if as_json:
        typer.echo(dumps(result))
        return
    for sentence in result["verdicts"]:
        typer.echo(sentence)
    typer.echo(f"The page: {file}")


def _show_runs(found: list[Found], as_json: bool) -> None:
    """What there is to draw."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from adamomentum_lab.analysis.table import settings_in_words

    if as_json:
        listed = [
            {
                "id": one.run.spec.id,
                "spec": one.run.spec.as_json(),
                "status": one.run.status,
                "epochs": len(one.run.epochs),
                "checkpoint": one.has_weights,
            }
            for one in found
        ]
        typer.echo(json.dumps({"runs": listed}))
        return
    table = Table("run", "of", "optimizer, its settings", "seed", "state", box=None, pad_edge=False)
    table.columns[0].no_wrap = True
    for one in found:
        spec = one.run.spec
        words = settings_in_words(spec.as_json()["settings"], spec.optimizer)
        state = one.run.status if one.has_weights else f"{one.run.status}, no checkpoint"
        of = escape(f"{spec.workload}, {spec.scale}, {spec.protocol}")
        table.add_row(spec.id, of, f"{spec.optimizer}\n[dim]{words}[/dim]", str(spec.seed), state)
    out = Console(highlight=False)
    out.print(table)
    out.print("\nTo compare some: adamomentum landscape RUN RUN ...", markup=False)


def main() -> None:
    """Run; a fault is one sentence, and an interruption ends with 130."""
    from adamomentum_lab.errors import LabError, StoppedError

    try:
        app()
    except StoppedError as error:
        typer.echo(str(error) or "interrupted; the same command continues", err=True)
        sys.exit(130)
    except LabError as error:
        if _debug:
            traceback.print_exc()
        typer.echo(f"adamomentum: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
