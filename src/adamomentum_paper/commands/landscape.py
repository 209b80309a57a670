"""`adamomentum landscape`."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adamomentum_lab.commands import JsonOption, RunsOption, app, load_workload, parse_or_exit

if TYPE_CHECKING:
    from adamomentum_paper.landscape.solutions import FoundRun


@app.command(epilog="Example: adamomentum landscape 1c9f 77ab --out landscape")
def landscape(
    run: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN]...", help="Ids or folders of runs. Without any, list runs."),
    ] = None,
    runs: RunsOption = Path("runs"),
    out: Annotated[Path, typer.Option(help="Folder of the page.")] = Path("landscape"),
    workload: Annotated[
        Path | None, typer.Option(help="Your file, if the runs are of your own problem.")
    ] = None,
    examples: Annotated[
        int, typer.Option(min=1, help="Training examples, the same for all runs.")
    ] = 300,
    grid: Annotated[
        int, typer.Option(min=3, help="Points along each side of a surface; odd.")
    ] = 15,
    radius: Annotated[
        float, typer.Option(help="Size of the surface, relative to the norm of each filter.")
    ] = 1.0,
    directions: Annotated[int, typer.Option(min=1, help="Pairs of random directions.")] = 5,
    probes: Annotated[
        int, typer.Option(min=2, help="Random vectors to estimate the trace of the Hessian.")
    ] = 10,
    steps: Annotated[int, typer.Option(min=1, help="Maximum steps of Lanczos' method.")] = 30,
    seed: Annotated[int, typer.Option(min=0, help="Seed of directions and probes.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Measure loss surfaces and curvature around solutions, and compare them over seeds."""
    import time

    import torch

    from adamomentum_lab.engine.environment import environment
    from adamomentum_lab.errors import LabError, StoppedError, locate
    from adamomentum_lab.files import dumps, make_folder
    from adamomentum_lab.report.progress import Display
    from adamomentum_paper.landscape import draw, solutions
    from adamomentum_paper.landscape.compare import Effort
    from adamomentum_paper.landscape.compare import landscape as measure

    if not run:
        _show_runs(solutions.list_runs(runs), as_json)
        return
    if grid % 2 == 0:
        raise typer.BadParameter(f"--grid {grid} is even; it must be odd, to contain the solution")
    if not 0 < radius < float("inf"):
        raise typer.BadParameter(f"--radius {radius} is not a positive number")
    found = parse_or_exit(lambda: solutions.find_runs(run, runs))
    solutions.check_comparable(found)
    reference = parse_or_exit(lambda: solutions.reference_of(found[0].run, workload))
    spec = found[0].run.spec
    make_folder(out)
    sampling = Effort(examples, grid, radius, directions, probes, steps, seed)
    torch.set_num_threads(threads)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    started = time.perf_counter()
    with Display() as display, contextlib.redirect_stdout(sys.stderr):
        problem = load_workload(reference)(spec.scale, spec.protocol)
        display.begin("runs", len(found), {})

        def on_run(one: dict[str, Any]) -> None:
            values = ", ".join(f"{key} {m['value']:.4g}" for key, m in one["measures"].items())
            name = f"{one['spec']['optimizer']}, seed {one['spec']['seed']}"
            display.advance(f"{name}: loss {one['loss']:.4g}, {values}")

        try:
            result = measure(found, problem, reference.code, sampling, on_run, display.at)
        except KeyboardInterrupt as error:
            raise StoppedError("interrupted; nothing was written") from error
        except LabError:
            raise
        except Exception as error:
            raise locate(error, reference.file) from error
    seconds = time.perf_counter() - started
    machine = {**environment("cpu"), "seconds": seconds, "out": str(out)}
    result = {**result, "machine": machine}
    file = draw.write_all(result, out)
    if as_json:
        typer.echo(dumps(result))
        return
    for sentence in result["verdicts"]:
        typer.echo(sentence)
    typer.echo(f"The page: {file}")


def _show_runs(found: list[FoundRun], as_json: bool) -> None:
    """Print a table of the runs."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from adamomentum_lab.report.settings import settings_in_words

    if as_json:
        listed = [
            {
                "id": one.run.spec.id,
                "spec": one.run.spec.as_json(),
                "status": one.status,
                "epochs": len(one.run.epochs),
                "checkpoint": one.has_weights,
            }
            for one in found
        ]
        typer.echo(json.dumps({"runs": listed}))
        return
    table = Table("run", "of", "optimizer, its settings", "seed", "state", box=None, pad_edge=False)
    table.columns[0].no_wrap = True
    for one in found:
        spec = one.run.spec
        words = settings_in_words(spec.as_json()["settings"], spec.optimizer)
        state = one.status if one.has_weights else f"{one.status}, no checkpoint"
        of = escape(f"{spec.workload}, {spec.scale}, {spec.protocol}")
        table.add_row(spec.id, of, f"{spec.optimizer}\n[dim]{words}[/dim]", str(spec.seed), state)
    out = Console(highlight=False)
    out.print(table)
    out.print("\nTo compare runs: adamomentum landscape RUN RUN ...", markup=False)
