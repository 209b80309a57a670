"""`adamomentum theory`."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from adamomentum_lab.commands import JsonOption, app, parse_or_exit


@app.command(epilog="Example: adamomentum theory escape")
def theory(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="curvature, epsilon, escape, ..., or all.")
    ] = "",
    out: Annotated[Path, typer.Option(help="Folder of the pages.")] = Path("theory"),
    paper: Annotated[
        bool, typer.Option("--paper", help="Use the paper's sizes, which takes longer.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Test a claim of the paper's theory: one page, with a figure and a verdict.

    Without a name, list the claims. Existing pages are not computed again.
    """
    import torch

    from adamomentum_lab.errors import StoppedError
    from adamomentum_lab.files import dumps
    from adamomentum_lab.report.progress import Display
    from adamomentum_paper import theory as claims
    from adamomentum_paper.theory import _pages

    if not name:
        if as_json:
            typer.echo(dumps({"claims": claims.names()}))
            return
        for claim in map(claims.get, claims.names()):
            typer.echo(f"{claim.name:12} {claim.title} ({claim.place})")
        typer.echo(f"{'all':12} every claim, and an index")
        return
    chosen = claims.names() if name == "all" else [parse_or_exit(lambda: claims.get(name)).name]
    torch.set_num_threads(1)  # the tensors are small
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    reports = []
    with Display() as display:
        display.begin("pages", len(chosen), {})
        for done, claim in enumerate(map(claims.get, chosen)):
            try:
                report, fresh = _pages.make(
                    claim,
                    "paper" if paper else "default",
                    out,
                    lambda part, done=done: display.at(done + part),  # type: ignore[misc]
                )
            except KeyboardInterrupt as error:
                raise StoppedError from error
            reports.append(report)
            index = _pages.write_index(out)
            seconds = f"{report['machine']['seconds']:.0f} s" if fresh else "not computed again"
            display.advance(f"{claim.name}: {report['verdict']} ({seconds})")
    if as_json:
        typer.echo(dumps({report.pop("claim"): report for report in reports}))
        return
    for report in reports:
        typer.echo(f"{report['claim']}: {report['verdict']}: {report['summary']}")
        for finding in report["findings"]:
            typer.echo(f"  [{finding['word']}] {finding['statement']} {finding['found']}")
    typer.echo(f"Pages: {index if name == 'all' else out / f'{name}.html'}")
