"""The commands, one file each.

Commands import torch and other large packages when they run, so that --help answers at once.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from adamomentum_lab.catalog import Reference
    from adamomentum_lab.contender import Contender
    from adamomentum_lab.workload import Workload

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
debug = False

WorkloadOption = Annotated[
    str,
    typer.Argument(metavar="WORKLOAD", help="A name from `adamomentum list`, or your .py file."),
]
ScaleOption = Annotated[str, typer.Option(help="smoke (seconds, a test), mini or full.")]
ProtocolOption = Annotated[
    str, typer.Option(help="fair, or another protocol from `adamomentum list`.")
]
RunsOption = Annotated[Path, typer.Option(help="Folder of results.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, nothing else.")]


@app.callback()
def adamomentum(
    tracebacks: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Compare optimizers on a real problem, or on your own."""
    global debug
    debug = tracebacks


def parse_or_exit(find: Callable[[], Any]) -> Any:
    """Call `find`, and report its LabError as wrong usage of the command line."""
    from adamomentum_lab.errors import LabError

    try:
        return find()
    except LabError as error:
        raise typer.BadParameter(str(error)) from error


def find_contenders(text: str) -> list[Contender]:
    """The optimizers that are named; a user's file may print, and must not to standard output."""
    from adamomentum_lab import contenders

    with quiet_output():
        return contenders.find_all(text)


def one_of(kind: str, value: str, known: tuple[str, ...]) -> Any:
    """Return the value if it is known; else report wrong usage."""
    from adamomentum_lab.errors import unknown

    if value not in known:
        raise typer.BadParameter(unknown(kind, value, known))
    return value


@contextlib.contextmanager
def quiet_output() -> Iterator[None]:
    """Send to standard error what users' code prints, and the processes that it starts: standard
    output is for results."""
    sys.stdout.flush()
    try:
        saved = os.dup(1)
    except OSError:  # it is closed
        with contextlib.redirect_stdout(sys.stderr):
            yield
        return
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)


def load_workload(reference: Reference) -> type[Workload]:
    """Load a workload. Errors in the user's file name its line."""
    from adamomentum_lab.errors import LabError

    try:
        with quiet_output():
            return reference.load()
    except LabError:
        raise
    except (Exception, SystemExit) as error:
        raise reference.locate(error) from error
