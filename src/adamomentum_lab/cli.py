"""The command `adamomentum`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

try:
    import typer
except ModuleNotFoundError as error:
    if error.name != "typer":
        raise
    sys.exit("adamomentum needs the lab: pip install 'adamomentum[lab]'")

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@app.callback()
def adamomentum() -> None:
    """AdaMomentum, measured."""


@app.command(epilog="Example: adamomentum bench --model 'DenseNet-121' --model '1,000 x 64'")
def bench(
    model: Annotated[
        list[str] | None, typer.Option(help="Shapes to measure; all by default.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads of torch.")] = 2,
    seconds: Annotated[float, typer.Option(min=0, help="Time for each model.")] = 5.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, and the table elsewhere.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Also write the JSON to this file.")] = None,
) -> None:
    """Step time and memory beside torch.optim.Adam, on the shapes of the paper's models."""
    from adamomentum_lab.bench import shapes, step_time

    unknown = [name for name in model or [] if name not in shapes.MODELS]
    if unknown:
        known = ", ".join(map(repr, shapes.MODELS))
        raise typer.BadParameter(f"there is no {unknown[0]!r}; there are {known}")
    if out and not out.parent.is_dir():
        raise typer.BadParameter(f"the folder of {str(out)!r} does not exist")

    def say(line: str) -> None:
        typer.echo(line, err=as_json)

    report = step_time.main(model, threads, seconds, out, say)
    if as_json:
        typer.echo(json.dumps(report))


def main() -> None:
    """Run, and end with 130 when interrupted."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
