"""`adamomentum list`."""

from __future__ import annotations

import json

import typer

from adamomentum_lab.commands import JsonOption, app


@app.command("list", epilog="Example: adamomentum list --json")
def list_(as_json: JsonOption = False) -> None:
    """List optimizers with their settings, workloads with their scales, and protocols."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from adamomentum_lab import catalog, contenders
    from adamomentum_lab.report.settings import settings_in_words
    from adamomentum_lab.rules import SCALES, at_scale, protocols

    entrants = contenders.available()
    missing = {*contenders.names()} - {one.name for one in entrants}
    names = catalog.workload_names()
    problems = {name: catalog.find_workload(name).load() for name in names}
    if as_json:
        payload = {
            "contenders": {
                c.name: {
                    "summary": c.summary,
                    "defaults": c.settings,
                    "family": c.family,
                    "year": c.year,
                    "source": c.source,
                    "decay": c.decay,
                    "space": c.space,
                    "needs": sorted(c.needs),
                }
                for c in entrants
            },
            "workloads": {
                name: {
                    "summary": (cls.__doc__ or "").strip(),
                    "metric": {scale: cls(scale).metric for scale in SCALES},
                    "larger_is_better": cls.larger_is_better,
                    "target": {scale: cls(scale).target for scale in SCALES},
                    "epochs": {scale: at_scale(cls.epochs, scale) for scale in SCALES},
                    "batch": {scale: cls(scale).batch for scale in SCALES},
                    "spaces": cls.spaces,
                    "grid": cls.grid,
                    "settings": cls.settings,
                }
                for name, cls in problems.items()
            },
            "scales": list(SCALES),
            "protocols": list(protocols()),
        }
        typer.echo(json.dumps(payload))
        return
    out = Console(highlight=False)
    table = Table("optimizer", "year", "what it is", box=None, pad_edge=False)
    table.columns[0].no_wrap = True
    for family in dict.fromkeys(c.family for c in entrants):
        table.add_row(f"[bold]{family}[/bold]")
        own = [c for c in entrants if c.family == family]
        for c in sorted(own, key=lambda c: (c.year or 9999, c.name)):
            words = settings_in_words(c.settings, c.name, only_changed=False)
            decay = f"; {c.decay} weight decay" if c.decay else ""
            mark = "*" if c.name in contenders.STANDARD else ""
            about = f"{c.summary}{decay}\n[dim]{words}\n{escape(c.source)}[/dim]"
            table.add_row(f"  {c.name}{mark}", str(c.year or ""), about)
    out.print(table)
    out.print("* raced by default. --optimizers also takes package.Class and file.py:Class.")
    for name in sorted(missing):
        out.print(f"{name} needs a package: pip install 'adamomentum[contenders]'", markup=False)
    out.print()
    table = Table("workload", "what it is", box=None, pad_edge=False)
    table.columns[0].no_wrap = True
    for name, cls in problems.items():
        lengths = ", ".join(str(at_scale(cls.epochs, scale)) for scale in SCALES)
        target = "" if cls.target is None else f", target {cls.target:g}"
        at_full = cls("full").metric
        metric = cls.metric if at_full == cls.metric else f"{cls.metric}, {at_full} at full"
        words = f"{metric}{target}; epochs at smoke, mini, full: {lengths}"
        summary = " ".join((cls.__doc__ or "").split())
        table.add_row(name, f"{escape(summary)}\n[dim]{words}[/dim]")
    out.print(table)
    known = ", ".join(f"{name} ({rules.summary})" for name, rules in protocols().items())
    out.print(f"\nProtocols: {known}.", markup=False)
