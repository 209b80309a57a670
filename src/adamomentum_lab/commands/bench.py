"""`adamomentum bench`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from adamomentum_lab.commands import app


@app.command(epilog="Example: adamomentum bench --model 'DenseNet-121' --model '1,000 x 64'")
def bench(
    model: Annotated[
        list[str] | None, typer.Option(help="Shapes to measure; all by default.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads of torch.")] = 2,
    seconds: Annotated[float, typer.Option(min=0, help="Time for each model.")] = 5.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object; the table goes to stderr.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Also write the JSON to this file.")] = None,
) -> None:
    """Compare step time and memory with torch.optim.Adam, on the shapes of real models."""
    from adamomentum_lab.bench import step_time

    models = step_time.models()
    unknown = [name for name in model or [] if name not in models]
    if unknown:
        known = ", ".join(map(repr, models))
        raise typer.BadParameter(f"there is no {unknown[0]!r}; there are {known}")
    if out and not out.parent.is_dir():
        raise typer.BadParameter(f"the folder of {str(out)!r} does not exist")

    def say(line: str) -> None:
        typer.echo(line, err=as_json)

    report = step_time.main(model, threads, seconds, out, say)
    if as_json:
        typer.echo(json.dumps(report))
