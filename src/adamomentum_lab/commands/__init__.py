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
    from adamomentum_lab.workloads import Origin, Workload

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
ScaleOption = Annotated[str, typer.Option(help="smoke, mini or full (the paper's own).")]
ProtocolOption = Annotated[str, typer.Option(help="fair, paper or as-run.")]
RunsOption = Annotated[Path, typer.Option(help="Folder of results.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, nothing else.")]


@app.callback()
def adamomentum(
    tracebacks: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """AdaMomentum, measured: race optimizers on a real problem, yours if you like."""
    global debug
    debug = tracebacks


def named(find: Callable[[], Any]) -> Any:
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


def loaded(origin: Origin) -> type[Workload]:
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
