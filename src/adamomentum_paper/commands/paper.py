"""`adamomentum paper list`, `run` and `show`."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adamomentum_lab import commands
from adamomentum_lab.commands import JsonOption, RunsOption, app, one_of, parse_or_exit
from adamomentum_lab.engine.factory import ENGINES

if TYPE_CHECKING:
    from adamomentum_lab.engine.store import Store
    from adamomentum_lab.rules import Scale
    from adamomentum_paper.items.catalog import Item

paper_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Rerun the paper: its tables and figures."
)
app.add_typer(paper_app, name="paper", epilog="Example: adamomentum paper run table2")

ItemArgument = Annotated[
    str, typer.Argument(metavar="ITEM", help="A table or figure from `adamomentum paper list`.")
]
ScaleOption = Annotated[str, typer.Option(help="full (the paper, on GPUs), mini or smoke.")]
ProtocolOption = Annotated[
    str,
    typer.Option(help="paper (its text), as-run (the authors' scripts) or fair (tuned here)."),
]
OutOption = Annotated[Path, typer.Option(help="Folder of the figure.")]


@paper_app.command("list", epilog="Example: adamomentum paper list")
def list_items(as_json: JsonOption = False) -> None:
    """List the tables and figures, and the runs that each needs."""
    from rich.console import Console
    from rich.table import Table

    from adamomentum_lab.files import dumps
    from adamomentum_paper.items import catalog

    if as_json:
        listed = {
            item.name: {
                "title": item.title,
                "workloads": [] if item.kind == "theory" else [*item.rows],
                "optimizers": [*item.columns],
                "runs": _count(item),
            }
            for item in catalog.ITEMS.values()
        }
        typer.echo(dumps({"items": listed}))
        return
    table = Table("item", "runs", "what it shows", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    for item in catalog.ITEMS.values():
        words = item.title + (f" (the runs of {item.needs})" if item.needs else "")
        table.add_row(item.name, str(_count(item) or ""), words)
    out = Console(highlight=False)
    out.print(table)
    out.print(
        "\nNumbered as in arXiv 2106.11514. `paper run ITEM` does the runs, `paper show ITEM` "
        "prints the table or draws the figure.",
        markup=False,
    )


def _count(item: Item) -> int:
    """Return the runs that an item needs under protocols that tune nothing."""
    if item.kind == "scores":
        return len(item.rows) * len(item.columns) * item.seeds
    return len(item.single)


@paper_app.command(epilog="Example: adamomentum paper run table2 --scale mini --protocol paper")
def run(
    item: ItemArgument,
    scale: ScaleOption = "mini",
    protocol: ProtocolOption = "paper",
    optimizers: Annotated[
        str, typer.Option(help="Only these columns, separated by commas. [all]")
    ] = "",
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Runs of each optimizer. [the paper's: 5, ImageNet 3]")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, mps or auto.")] = "cpu",
    engine: Annotated[str, typer.Option(help=f"{' or '.join(ENGINES)}.")] = "local",
    address: Annotated[
        str | None, typer.Option(help="Address of a Ray cluster. [start one here]")
    ] = None,
    cpus_per_run: Annotated[
        float, typer.Option(min=0.01, help="CPUs, and threads, per run (Ray only).")
    ] = 1.0,
    gpus_per_run: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="GPUs per run (Ray only).")
    ] = 0.0,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Runs at a time. [as many as there is room for]")
    ] = None,
    runs: RunsOption = Path("runs"),
    out: OutOption = Path("paper"),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check data, disk and memory, measure; run nothing.")
    ] = False,
    no_check: Annotated[
        bool, typer.Option("--no-check", help="Start at once, without checks and measurements.")
    ] = False,
) -> None:
    """Do all runs of a table or figure, then show it. Run it again to resume.

    Data, disk and memory are checked first, and a few updates of each optimizer are measured.
    """
    from adamomentum_lab import rules
    from adamomentum_lab.engine.devices import choose
    from adamomentum_lab.engine.store import Store
    from adamomentum_lab.errors import StoppedError
    from adamomentum_paper.items import catalog, plans

    one = parse_or_exit(lambda: catalog.get(item))
    size: Scale = one_of("scale", scale, rules.SCALES)
    parse_or_exit(lambda: rules.get(protocol))
    one_of("engine", engine, ENGINES)
    if engine != "ray" and (address or cpus_per_run != 1.0 or gpus_per_run):
        options = "--address, --cpus-per-run and --gpus-per-run"
        raise typer.BadParameter(f"{options} belong to --engine ray")
    kind = "cuda" if gpus_per_run else parse_or_exit(lambda: choose(device))
    kind_in_spec = "" if kind == "cpu" else kind
    chosen = tuple(name.strip() for name in optimizers.split(",") if name.strip())
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if one.kind == "theory":
            _run_theory(one, size, out)
            return
        races = parse_or_exit(
            lambda: plans.plans_of(one, size, protocol, seeds, chosen, kind_in_spec)
        )
        store = Store(runs)
        if not no_check or dry_run:
            with commands.quiet_output():
                _check(
                    one,
                    size,
                    protocol,
                    store,
                    seeds,
                    chosen,
                    kind_in_spec,
                    jobs or os.cpu_count() or 1,
                )
        if dry_run:
            return
        room = {
            "jobs": jobs,
            "address": address,
            "cpus": cpus_per_run,
            "gpus": gpus_per_run,
            "device": kind,
        }
        for reference, plan in races.values():
            _race(reference, plan, store, engine, room)
        if one.single:
            _do_singles(one, size, protocol, store, engine, room, kind_in_spec)
    except KeyboardInterrupt as error:
        raise StoppedError from error
    _show(one, size, protocol, runs, out, as_json=False)


@paper_app.command(epilog="Example: adamomentum paper show table2 --scale mini")
def show(
    item: ItemArgument,
    scale: ScaleOption = "mini",
    protocol: ProtocolOption = "paper",
    runs: RunsOption = Path("runs"),
    out: OutOption = Path("paper"),
    as_json: JsonOption = False,
) -> None:
    """Print a table in the paper's form, ours beside theirs, or draw a figure.

    It works while runs are under way, and with the records of finished races.
    """
    from adamomentum_lab import rules
    from adamomentum_paper.items import catalog

    one = parse_or_exit(lambda: catalog.get(item))
    size: Scale = one_of("scale", scale, rules.SCALES)
    parse_or_exit(lambda: rules.get(protocol))
    _show(one, size, protocol, runs, out, as_json)


def _say(line: str) -> None:
    typer.echo(line, err=True)


def _check(
    item: Item,
    scale: Scale,
    protocol: str,
    store: Store,
    seeds: int | None,
    optimizers: tuple[str, ...],
    device: str,
    jobs: int,
) -> None:
    """Say what the runs will cost. A LabError if data is missing, or the disk too small."""
    from adamomentum_lab.errors import LabError
    from adamomentum_paper.items import preflight

    cost, missing = preflight.check(
        item, scale, protocol, store, _say, seeds=seeds, optimizers=optimizers, device=device
    )
    if missing:
        raise LabError("\n".join(missing))
    _say(f"In all: {cost.words(jobs)}")
    if short := cost.shortages(store.folder, jobs):
        raise LabError("\n".join(short) + "\nUse --no-check to start all the same.")


def _race(reference: Any, plan: Any, store: Store, engine: str, room: dict[str, Any]) -> None:
    from adamomentum_lab.engine.factory import make_engine
    from adamomentum_lab.race.race import run_race
    from adamomentum_lab.race.result import write
    from adamomentum_lab.report.progress import RaceDisplay

    race = plan.race
    with commands.quiet_output():
        problem = reference.load()(race.scale, race.protocol)
    with RaceDisplay(plan, problem) as display:
        display.say(plan.summary())
        display.start()
        with make_engine(engine, store, display.say, **room) as pool, commands.quiet_output():
            result = run_race(plan, reference, store, pool, [display.hear])
        write(result, store.folder / "races" / race.id)


def _do_singles(
    item: Item,
    scale: Scale,
    protocol: str,
    store: Store,
    engine: str,
    room: dict[str, Any],
    device: str,
) -> None:
    from adamomentum_lab.engine.events import EpochEnded, Event, RunEnded
    from adamomentum_lab.engine.factory import make_engine
    from adamomentum_lab.errors import LabError
    from adamomentum_paper.items import plans

    def hear(event: Event) -> None:
        match event:
            case EpochEnded(spec=spec, record=record):
                _say(f"{spec}: epoch {record['epoch']}, loss {record['train']['loss']:.4g}")
            case RunEnded(spec=spec, run=run):
                _say(f"{spec}: {run.status} after {len(run.epochs)} epochs")

    todo = plans.single_jobs(item, scale, protocol, store, device)
    with make_engine(engine, store, _say, **room) as pool, commands.quiet_output():
        for done in pool.run(todo, hear):
            if done.status == "failed":
                raise LabError(done.error or "a run failed.")


def _run_theory(item: Item, scale: Scale, out: Path) -> None:
    from adamomentum_lab.report.progress import Display
    from adamomentum_paper import theory
    from adamomentum_paper.theory import _pages

    size: Any = {"smoke": "smoke", "mini": "default", "full": "paper"}[scale]
    [name] = item.rows
    with Display() as display:
        display.begin("pages", 1, {})
        report, _ = _pages.make(theory.get(name), size, out, display.at)
    typer.echo(f"{item.name}: {report['verdict']}: {report['summary']}")
    typer.echo(f"The page: {out / f'{name}.html'}; the figure: {out / f'{name}.png'}")


def _show(item: Item, scale: Scale, protocol: str, runs: Path, out: Path, as_json: bool) -> None:
    from rich.console import Console

    from adamomentum_lab.files import dumps
    from adamomentum_paper.items import figures, tables
    from adamomentum_paper.items.cells import collect

    console = Console(highlight=False)
    if item.kind == "theory":
        _run_theory(item, scale, out)
        return
    if item.kind == "formulas":
        if as_json:
            from adamomentum_paper.items.catalog import FORMULAS

            typer.echo(dumps({"name": item.name, "rows": [*FORMULAS]}))
        else:
            console.print(tables.draw_formulas())
        return
    if item.kind == "settings":
        found = tables.settings(item, protocol)
        if as_json:
            typer.echo(dumps(found))
            return
        console.print(f"{item.name}: {item.title}; `here` is the protocol {protocol}", markup=False)
        console.print(tables.draw_settings(item, found))
        return
    if item.kind == "scores":
        cells = collect(item, scale, protocol, runs)
        found = tables.scores(item, cells)
        said = tables.notes(item, found, scale, protocol)
        if as_json:
            typer.echo(dumps({**found, "notes": said}))
            return
        console.print(f"{item.name}: {item.title} ({scale}, {protocol})", markup=False)
        console.print(tables.draw(item, found))
        for line in said:
            console.print(line, markup=False)
        return
    with contextlib.redirect_stdout(sys.stderr):
        found, files = figures.make(item, scale, protocol, runs, out)
    typer.echo(dumps(found) if as_json else "\n".join(map(str, files)))
