"""Make a figure of the paper from a folder of results, also half finished."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adamomentum_lab.engine.store import Run, Store
from adamomentum_lab.errors import LabError
from adamomentum_lab.files import write
from adamomentum_lab.rules import Scale, at_scale
from adamomentum_lab.selection import select_epoch
from adamomentum_paper.items import curves, tables
from adamomentum_paper.items.catalog import ITEMS, Item
from adamomentum_paper.items.cells import collect
from adamomentum_paper.items.plans import single_jobs


def make(
    item: Item, scale: Scale, protocol: str, runs: Path, out: Path
) -> tuple[dict[str, Any], list[Path]]:
    """Write a figure as PNG, SVG and HTML, and its numbers as JSON. Return numbers and files."""
    if item.kind == "curves":
        return _curves(item, scale, protocol, runs, out)
    ended = _singles(item, scale, protocol, runs)
    if item.kind == "landscape":
        return _landscape(item, ended, scale, protocol, runs, out)
    return _samples(item, ended, scale, protocol, runs, out)


def _curves(
    item: Item, scale: Scale, protocol: str, runs: Path, out: Path
) -> tuple[dict[str, Any], list[Path]]:
    cells = collect(item, scale, protocol, runs)
    found = curves.curves(item, cells)
    subtitle = f"scale {scale}, protocol {protocol}: mean over seeds, ± one standard deviation"
    said = tables.notes(item, tables.scores(ITEMS[item.needs], cells), scale, protocol)
    drawn = curves.draw_curves(item, found, subtitle)
    return found, curves.write_figure(drawn, found, out, subtitle, said)


def _singles(item: Item, scale: Scale, protocol: str, runs: Path) -> list[Run]:
    """Return the runs that a caption names. A LabError if one has not ended."""
    again = f"`adamomentum paper run {item.name} --scale {scale} --protocol {protocol}`"
    if not (runs / "runs.sqlite").exists():
        raise LabError(f"there are no runs in {runs}; {again} does them.")
    store = Store(runs)
    jobs = single_jobs(item, scale, protocol, store)
    known = store.get_all(job.spec for job in jobs)
    found = [known.get(job.spec.id) for job in jobs]
    for job, run in zip(jobs, found, strict=True):
        if run is None or not run.epochs:
            raise LabError(f"the run of {job.spec} has no epoch yet; {again} does it.")
    return [run for run in found if run is not None]


def _landscape(
    item: Item, ended: list[Run], scale: Scale, protocol: str, runs: Path, out: Path
) -> tuple[dict[str, Any], list[Path]]:
    from adamomentum_lab.catalog import find_workload
    from adamomentum_lab.engine.environment import environment
    from adamomentum_paper.landscape import draw, solutions
    from adamomentum_paper.landscape.compare import Effort, landscape

    found = solutions.find_runs([run.spec.id for run in ended], runs)
    solutions.check_comparable(found)
    reference = find_workload(next(iter(item.rows)))
    smoke = Effort(examples=32, grid=5, directions=2, probes=2, steps=3)
    sampling = smoke if scale == "smoke" else Effort()
    result = landscape(found, reference.load()(scale, protocol), reference.code, sampling)
    result = {**result, "machine": environment("cpu")}
    draw.write_all(result, out)
    names = [out / f"landscape.{kind}" for kind in ("png", "json", "html")]
    files = [file.replace(out / f"{item.name}{file.suffix}") for file in names]
    svg = out / f"{item.name}.svg"
    write(svg, draw.figure(result, "svg"))
    return result, [*files, svg]


def _samples(
    item: Item, ended: list[Run], scale: Scale, protocol: str, runs: Path, out: Path
) -> tuple[dict[str, Any], list[Path]]:
    from adamomentum_lab.catalog import find_workload

    sheets: dict[str, Path] = {}
    shown = []
    for run in ended:
        spec = run.spec
        workload = find_workload(spec.workload).load()(scale, protocol)
        best = select_epoch(run.epochs, workload)
        if best is None:
            raise LabError(f"{spec} has no finite score.")
        split = "test" if "test" in best else "validation"
        score, steps = best[split][workload.metric], at_scale(workload.steps, scale)  # type: ignore[attr-defined]
        iteration = best["epoch"] * steps
        sheet = runs / spec.id / f"sheet-{best['epoch']:04}.png"
        if not sheet.is_file():
            raise LabError(f"{sheet} is missing; the run was made on another machine.")
        label = f"{item.rows[spec.workload]}, seed {spec.seed}: {workload.metric} {score:.2f}"
        sheets[f"{label} at iteration {iteration:,}"] = sheet
        score_of = {"metric": workload.metric, "score": score, "iteration": iteration}
        shown.append({"workload": spec.workload, "seed": spec.seed, "run": spec.id, **score_of})
    subtitle = f"AdaMomentum; scale {scale}, protocol {protocol}"
    found = {"name": item.name, "title": item.title, "images": shown}
    drawn = curves.images(sheets)
    said = ["Each image is the sheet of samples at the evaluation that is reported."]
    return found, curves.write_figure(drawn, found, out, subtitle, said)
