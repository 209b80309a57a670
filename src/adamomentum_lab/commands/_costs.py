"""What a race will cost on this machine, told before it starts."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from adamomentum_lab import commands

if TYPE_CHECKING:
    from adamomentum_lab.catalog import Reference
    from adamomentum_lab.race.estimate import Cost
    from adamomentum_lab.race.plan import Plan

MUCH = 3600.0
"""Seconds of work before which a person is asked."""


def measure_cost(plan: Plan, reference: Reference, runs: Path) -> Cost:
    """Measure a few updates of each contender. All studies together; stored runs cost nothing."""
    from adamomentum_lab.engine.store import Store
    from adamomentum_lab.race.estimate import Cost, estimate

    with tempfile.TemporaryDirectory() as empty, commands.quiet_output():
        there = (runs / "runs.sqlite").exists()
        cost = estimate(plan, reference, Store(runs if there else Path(empty)))
        if there and plan.race.studies > 1:
            whole = estimate(plan, reference, Store(Path(empty)))
        else:
            whole = cost
    return sum((whole for _ in range(plan.race.studies - 1)), start=cost + Cost())


def cost_words(plan: Plan, reference: Reference, runs: Path, jobs: int | None) -> str:
    """How many runs and updates, how long they take, and how much disk they need."""
    from adamomentum_lab.errors import LabError

    try:
        cost = measure_cost(plan, reference, runs)
    except LabError as error:
        return f"Its time cannot be measured yet: {error}"
    at_a_time = jobs or os.cpu_count() or 1
    there = runs if runs.exists() else Path()
    return " ".join([cost.words(at_a_time), *cost.shortages(there, at_a_time)])


def confirm(plan: Plan, reference: Reference, runs: Path, jobs: int | None) -> None:
    """On a terminal, ask before more than an hour's work; the command ends if the answer is no."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    from adamomentum_lab.race.estimate import duration

    cost = measure_cost(plan, reference, runs)
    at_a_time = jobs or os.cpu_count() or 1
    if cost.wall(at_a_time) <= MUCH:
        return
    typer.echo(cost.words(at_a_time), err=True)
    question = f"Start about {duration(cost.wall(at_a_time))} of work?"
    typer.confirm(question, abort=True, err=True)
