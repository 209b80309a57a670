"""The command `adamomentum`."""

from __future__ import annotations

import importlib
import io
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
from adamomentum_lab.errors import LabError, StoppedError
from adamomentum_lab.plugins import plugins

for _name in ("race", "train", "listing", "contenders", "report", "runs", "bench"):
    importlib.import_module(f"adamomentum_lab.commands.{_name}")
try:
    for _plugin in plugins():
        for _name in _plugin.commands:
            importlib.import_module(_name)
except LabError as error:
    sys.exit(f"adamomentum: {error}")


def main() -> None:
    """Run the command. An error prints its message; an interruption exits with status 130."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names and messages of users may be any text
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except StoppedError as error:
        typer.echo(str(error) or "interrupted; run the same command to resume", err=True)
        sys.exit(130)
    except LabError as error:
        if commands.debug:
            traceback.print_exc()
        typer.echo(f"adamomentum: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
