"""`adamomentum runs`: what is stored, checked, repaired and freed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adamomentum_lab.commands import RunsOption, app

runs_app = typer.Typer(no_args_is_help=True, help="Check, repair and tidy a folder of results.")
app.add_typer(runs_app, name="runs")


@runs_app.command(epilog="Example: adamomentum runs check --runs runs")
def check(runs: RunsOption = Path("runs")) -> None:
    """Say what is damaged: the store, its runs, checkpoints, records of races. Changes nothing."""
    from adamomentum_lab.engine import upkeep
    from adamomentum_lab.errors import LabError
    from adamomentum_lab.race.result import Result
    from adamomentum_lab.words import count_noun

    lines = [f"{fault.place} {fault.what}" for fault in upkeep.check(runs)]
    for file in sorted(runs.glob("races/*/race.json")):
        try:
            Result.read(file)
        except LabError as error:
            lines.append(str(error))
    for line in lines:
        typer.echo(line)
    if lines:
        faults = count_noun(len(lines), "fault")
        raise LabError(f"{faults}. `adamomentum runs repair --runs {runs}` keeps what is whole.")
    typer.echo("Everything is whole.")


@runs_app.command(epilog="Example: adamomentum runs repair --runs runs")
def repair(runs: RunsOption = Path("runs")) -> None:
    """Keep what is whole and remove what is damaged. The next race runs again what is missing."""
    from adamomentum_lab.engine import upkeep

    for line in upkeep.repair(runs) or ["Everything is whole."]:
        typer.echo(line)


@runs_app.command(epilog="Example: adamomentum runs gc --runs runs --yes")
def gc(
    runs: RunsOption = Path("runs"),
    checkpoints: Annotated[
        bool,
        typer.Option(
            "--checkpoints",
            help="Also the last checkpoints of finished runs, which then cannot be continued.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Free it. Without, only show it.")] = False,
) -> None:
    """Show what is not needed, with its size, and free it with --yes."""
    from adamomentum_lab.engine import upkeep
    from adamomentum_lab.engine.upkeep import Spare
    from adamomentum_lab.words import bytes_in_words, count_noun

    if not (runs / "runs.sqlite").exists():
        upkeep.check(runs)  # says that there is no store
    spares = upkeep.spare(runs, checkpoints)
    kinds: dict[str, list[Spare]] = {}
    for one in spares:
        kinds.setdefault(one.why, []).append(one)
    for why, those in kinds.items():
        size = bytes_in_words(sum(one.size for one in those))
        typer.echo(f"{size:>10}  {count_noun(len(those), 'item')}: {why}")
    total = bytes_in_words(sum(one.size for one in spares))
    if not spares:
        typer.echo("Everything is needed.")
    elif yes:
        upkeep.free(runs, spares)
        typer.echo(f"{total:>10}  freed")
    else:
        typer.echo(f"{total:>10}  in all; --yes frees it")
