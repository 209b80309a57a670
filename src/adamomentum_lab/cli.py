"""The command `adamomentum`."""

from __future__ import annotations

import importlib
import os
import sys
import traceback

try:
    import typer
except ModuleNotFoundError as error:
    if error.name != "typer":
        raise
    from adamomentum._install import install_command

    sys.exit(f"adamomentum needs the lab; install it with: {install_command('lab')}")

from adamomentum_lab import commands
from adamomentum_lab.commands import app
from adamomentum_lab.errors import LabError, StoppedError, printable
from adamomentum_lab.plugins import plugins
from adamomentum_lab.streams import leave_quietly, steady_output

for _name in ("race", "train", "listing", "contenders", "report", "runs", "bench"):
    importlib.import_module(f"adamomentum_lab.commands.{_name}")
try:
    for _plugin in plugins():
        for _name in _plugin.commands:
            importlib.import_module(_name)
except LabError as error:
    sys.exit(f"adamomentum: {error}")


def main() -> None:
    """Run the command. An error prints its message; an interruption exits with status 130.

    Output ends no command: if nobody reads it any more, or its disk is full, the command goes on.
    """
    width = os.environ.get("COLUMNS", "1")
    if not width.isdecimal() or not int(width):
        del os.environ["COLUMNS"]
    before = sys.stdout, sys.stderr
    out, err = steady_output()
    try:
        status = _run()
        out.flush()
        if out.fault is not None:
            what = f"cannot write to standard output ({out.fault})"
            typer.echo(f"adamomentum: {what}; what was done is kept.", err=True)
            status = status or 1
    finally:
        leave_quietly(out, err)
        sys.stdout, sys.stderr = before
    sys.exit(status)


def _run() -> int:
    """Run the command, and return its exit status."""
    try:
        app()
    except SystemExit as ended:  # as typer ends every command
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except StoppedError as error:
        typer.echo(str(error) or "interrupted; run the same command to resume", err=True)
        return 130
    except LabError as error:
        if commands.debug:
            traceback.print_exc()
        typer.echo(f"adamomentum: {printable(str(error))}", err=True)
        return 1
    return 0


if __name__ == "__main__":
    main()
