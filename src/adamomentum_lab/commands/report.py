"""`adamomentum report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adamomentum_lab.commands import RunsOption, app


@app.command(epilog="Example: adamomentum report --runs runs --out report.html")
def report(
    runs: RunsOption = Path("runs"),
    out: Annotated[
        Path | None, typer.Option(help="File of the page. [report.html in the folder of results]")
    ] = None,
) -> None:
    """Make one page of all races in a folder: who is best, by how much, how sure, and every run.

    The page is one HTML file that needs no network.
    """
    from adamomentum_lab.errors import LabError
    from adamomentum_lab.files import write
    from adamomentum_lab.report.page import load, render_races

    file = out or runs / "report.html"
    if file.is_dir():
        raise LabError(f"{file} is a folder; --out names a file, such as {file / 'report.html'}.")
    write(file, render_races(load(runs), runs))
    typer.echo(str(file))
