"""The commands, one file each: what they ask for, and what they print.

torch and the rest are imported by the commands that need them: --help answers at once.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from adamomentum_lab.catalog import Reference
    from adamomentum_lab.workload import Workload

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
debug = False

WorkloadOption = Annotated[
    str, typer.Argument(metavar="WORKLOAD", help="A name from `adamomentum list`, or your file.")
]
ScaleOption = Annotated[str, typer.Option(help="smoke (seconds, a test), mini or full.")]
ProtocolOption = Annotated[str, typer.Option(help="fair, or another name from `adamomentum list`.")]
RunsOption = Annotated[Path, typer.Option(help="Folder of results.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, nothing else.")]


@app.callback()
def adamomentum(
    tracebacks: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Race optimizers on a real problem, yours if you like."""
    global debug
    debug = tracebacks


def parse_or_exit(find: Callable[[], Any]) -> Any:
    """What was named on the command line; a wrong name is wrong usage."""
    from adamomentum_lab.errors import LabError

    try:
        return find()
    except LabError as error:
        raise typer.BadParameter(str(error)) from error


def one_of(kind: str, value: str, known: tuple[str, ...]) -> Any:
    """The value, if it is one of these."""
    from adamomentum_lab.errors import unknown

    if value not in known:
        raise typer.BadParameter(unknown(kind, value, known))
    return value


def load_workload(reference: Reference) -> type[Workload]:
    """The workload; errors in the user's file name its line."""
    from adamomentum_lab.errors import LabError, locate

    try:
        with contextlib.redirect_stdout(sys.stderr):  # standard output is for results
            return reference.load()
    except LabError:
        raise
    except Exception as error:
        raise locate(error, reference.file) from error
