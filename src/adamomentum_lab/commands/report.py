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
    export: Annotated[
        Path | None,
        typer.Option(
            help="Also write CSV, a LaTeX table and figures (SVG, PDF) of each race to this folder."
        ),
    ] = None,
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            help="Two folders of results, shown side by side in place of the page. "
            "[comparison.html in the second]"
        ),
    ] = None,
) -> None:
    """Make one page of all races in a folder: who is best, by how much, how sure, and every run.

    The page is one HTML file that needs no network.
    """
    from adamomentum_lab.errors import LabError
    from adamomentum_lab.files import write
    from adamomentum_lab.report.page import load, render_races

    if compare and export:
        raise typer.BadParameter("--export takes the races of one folder; leave --compare out")
    file = out or (compare[1] / "comparison.html" if compare else runs / "report.html")
    if file.is_dir():
        raise LabError(f"{file} is a folder; --out names a file, such as {file / 'report.html'}.")
    if compare:
        from adamomentum_lab.report.compare import render_comparison

        write(file, render_comparison(*compare))
        typer.echo(str(file))
        return
    results = load(runs)
    write(file, render_races(results, runs))
    typer.echo(str(file))
    if export:
        from adamomentum_lab.report.exports import export as write_exports

        for one in write_exports(results, export):
            typer.echo(str(one))
