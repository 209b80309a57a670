"""`adamomentum data` and `adamomentum data fetch`."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adamomentum_lab.commands import JsonOption, app, parse_or_exit

if TYPE_CHECKING:
    from adamomentum_lab.report.progress import Display

data_app = typer.Typer(invoke_without_command=True, rich_markup_mode=None)
app.add_typer(data_app, name="data", epilog="Example: adamomentum data fetch cifar10")


@data_app.callback()
def data(context: typer.Context, as_json: JsonOption = False) -> None:
    """List the data sets, whether they are complete, and where to get them."""
    if context.invoked_subcommand:
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from adamomentum_lab.errors import LabError
    from adamomentum_paper.data import sets
    from adamomentum_paper.data.files import root

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
    out.print(f"\nThe data folder is {root()}; set ADAMOMENTUM_DATA to use another.", markup=False)


@data_app.command(epilog="Example: adamomentum data fetch cifar10")
def fetch(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A data set from `adamomentum data`.")
    ],
    source: Annotated[
        str | None,
        typer.Option("--from", help="A folder, or the URL of one, with the same files."),
    ] = None,
) -> None:
    """Download, verify and unpack a data set. Run it again to resume."""
    from adamomentum_lab.errors import StoppedError
    from adamomentum_lab.report.progress import Display
    from adamomentum_paper.data import fetch as fetching
    from adamomentum_paper.data import sets

    dataset = parse_or_exit(lambda: sets.get(name))
    if source and Path(source).is_dir():
        source = Path(source).resolve().as_uri()
    elif source is not None and not source.startswith(("http://", "https://", "file://")):
        raise typer.BadParameter(f"{source!r} is neither a folder nor a URL (http://, https://)")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Display() as display:
        shown = _Shown(display)
        try:
            folder = fetching.fetch(dataset, source, shown, display.say)
        except KeyboardInterrupt as error:
            raise StoppedError from error
    typer.echo(f"{name} is complete: {folder} (terms: {dataset.terms})")


class _Shown:
    """Shows the progress of downloads: a bar in MB, or a line for every tenth of a file."""

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
