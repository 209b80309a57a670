"""Measure runs in the same way, group them by optimizer, and compare the groups over seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import torch
from scipy import stats

from adamomentum_lab.errors import LabError
from adamomentum_lab.report.settings import settings_in_words
from adamomentum_lab.stats.estimates import Estimate
from adamomentum_lab.training.feed import seed_for
from adamomentum_lab.workload import Workload
from adamomentum_paper.landscape.curvature import Hessian, top_eigenvalue, trace
from adamomentum_paper.landscape.solutions import FoundRun, Problem, solution
from adamomentum_paper.landscape.surface import Surroundings, direction, spread
from adamomentum_paper.landscape.words import CLAIM, MEASURES, notes, sentences

OURS = "adamomentum"  # its group comes first
_RINGS = 4  # radii at which the rise is measured; the last is the radius of the surface
_PRODUCT = 8  # cost of a product with the Hessian, in evaluations of the loss


@dataclass(frozen=True)
class Effort:
    """How much to measure. The same sampling of the same runs gives the same numbers."""

    examples: int = 300
    """Number of training examples."""
    grid: int = 15
    """Points along each side of a surface. It is odd, so that one of them is the solution."""
    radius: float = 1.0
    """Radius of the surface, relative to the norm of each filter."""
    directions: int = 5
    """Pairs of directions. The figure shows the first; rises are means over all."""
    probes: int = 10
    """Random vectors for the trace of the Hessian."""
    steps: int = 30
    """Maximum steps of Lanczos' method for the largest eigenvalue."""
    seed: int = 0

    @property
    def axis(self) -> list[float]:
        """The steps along each direction."""
        half = self.grid // 2
        return [self.radius * i / half for i in range(-half, half + 1)]

    @property
    def radii(self) -> list[float]:
        """The radii at which the rise is measured."""
        return [self.radius * (i + 1) / _RINGS for i in range(_RINGS)]

    @property
    def work(self) -> int:
        """The largest cost of one run, in evaluations of the loss."""
        points = self.grid**2 + self.directions * (1 + 4 * _RINGS)
        return points + _PRODUCT * (self.steps + 2 * self.probes)


def measure(
    found: FoundRun,
    problem: Problem,
    sampling: Effort,
    on_work: Callable[[float], None] = lambda _: None,
) -> dict[str, Any]:
    """Measure one run. `on_work` is called with the number of evaluations of the loss."""
    spec = found.run.spec
    end = solution(found, problem)
    problem.check(end.model)
    weights = end.weights

    def loss() -> float:
        on_work(1)
        return problem.loss(end.model)

    def chance(*stages: int) -> torch.Generator:
        # The same for every run, so that all share the same random directions.
        return torch.Generator().manual_seed(seed_for(sampling.seed, *stages))

    around = Surroundings(weights, loss)
    pairs = [
        (direction(around.centre, chance(0, i, 0)), direction(around.centre, chance(0, i, 1)))
        for i in range(sampling.directions)
    ]
    rises = [around.rises(pair, sampling.radii) for pair in pairs]
    by_radius = [Estimate.of(list(values)) for values in zip(*rises, strict=True)]
    surface = around.grid(pairs[0], sampling.axis)

    hessian = Hessian(
        lambda: problem.losses(end.model), weights, lambda part: on_work(_PRODUCT * part)
    )
    top = top_eigenvalue(hessian, hessian.size, chance(1), steps=sampling.steps)
    scale = spread(around.centre)
    ordinary, normalised = (
        trace(product_with, hessian.size, chance(2), probes=sampling.probes)
        for product_with in (hessian, lambda vectors: scale * hessian(scale * vectors))
    )
    half = by_radius[_RINGS // 2 - 1]
    return {
        "id": spec.id,
        "spec": spec.as_json(),
        "status": found.run.status,
        "epochs": end.epochs,
        "averaged": end.averaged,
        "parameters": hessian.size,
        "loss": around.at(),
        "measures": {
            "rise": _with_error(half.mean, half.half),
            "eigenvalue": {**_with_error(top.value, top.error), "steps": top.steps},
            "trace": _with_error(ordinary.mean, ordinary.half),
            "normalised": _with_error(normalised.mean, normalised.half),
        },
        "rises": {
            "radii": sampling.radii,
            "mean": [estimate.mean for estimate in by_radius],
            "error": [estimate.half for estimate in by_radius],
            "by_pair": rises,
        },
        "surface": {"axis": sampling.axis, "loss": surface},
    }


def _with_error(value: float | None, error: float | None) -> dict[str, Any]:
    return {"value": value, "error": error}


def group_runs(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Group runs that differ only in their seed. AdaMomentum's group comes first."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for run in sorted(runs, key=lambda run: bool(run["spec"]["optimizer"] != OURS)):
        spec = run["spec"]
        settings = settings_in_words(spec["settings"], spec["optimizer"])
        groups.setdefault((spec["optimizer"], settings, spec["precision"]), []).append(run)
    names = [optimizer for optimizer, _, _ in groups]
    for members in groups.values():
        members.sort(key=lambda run: run["spec"]["seed"])
    return [
        {
            "label": optimizer
            if names.count(optimizer) == 1
            else f"{optimizer} ({settings}, {precision})",
            "optimizer": optimizer,
            "settings": settings,
            "seeds": [run["spec"]["seed"] for run in members],
            "runs": [run["id"] for run in members],
            "loss": _over_seeds(members, "loss"),
            "measures": {name: _over_seeds(members, name) for name in MEASURES},
        }
        for (optimizer, settings, precision), members in groups.items()
    ]


def _value(run: dict[str, Any], name: str) -> float:
    value: float = run["loss"] if name == "loss" else run["measures"][name]["value"]
    return value


def _over_seeds(runs: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    return asdict(Estimate.of([_value(run, name) for run in runs]))


def compare_groups(
    groups: Sequence[dict[str, Any]], runs: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Compare the first group with each other one, in the loss and in every measure."""
    by_id = {run["id"]: run for run in runs}
    found = []
    for other, name in product(groups[1:], ("loss", *MEASURES)):
        a, b = (
            {seed: _value(by_id[key], name)
             for seed, key in zip(group["seeds"], group["runs"], strict=True)}
            for group in (groups[0], other)
        )  # fmt: skip
        gap, how = difference(a, b)
        words = verdict(gap, *(("lower", "higher") if name == "loss" else ()))
        pair = {"first": groups[0]["label"], "other": other["label"], "measure": name}
        found.append({**pair, "difference": asdict(gap), "how": how, "verdict": words})
    return found


def difference(a: dict[int, float], b: dict[int, float]) -> tuple[Estimate, str]:
    """Return the interval of a - b: paired if at least two seeds are shared, or else Welch's."""
    shared = sorted(set(a) & set(b))
    if len(shared) > 1 or (len(shared) == len(a) == len(b)):
        return Estimate.of([a[seed] - b[seed] for seed in shared]), "paired by seed"
    one, two = list(a.values()), list(b.values())
    mean = statistics.fmean(one) - statistics.fmean(two)
    if min(len(one), len(two)) < 2:
        return Estimate(mean, None, 1), "not paired"
    parts = [statistics.variance(values) / len(values) for values in (one, two)]
    if not sum(parts) > 0:
        return Estimate(mean, 0.0, len(one) + len(two)), "not paired"
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(values) - 1) for part, values in zip(parts, (one, two), strict=True)
    )
    half = float(stats.t.ppf(0.975, freedom)) * math.sqrt(sum(parts))
    return Estimate(mean, half, len(one) + len(two)), "not paired"


def verdict(gap: Estimate, below: str = "flatter", above: str = "sharper") -> str:
    """Return the verdict on the first group, from the interval of the difference."""
    if gap.mean is None or not math.isfinite(gap.mean):
        return "not finite"
    if gap.half is None:
        return "one pair of runs"
    if not abs(gap.mean) > gap.half:
        return "no difference detected"
    return below if gap.mean < 0 else above


def landscape(
    found: Sequence[FoundRun],
    workload: Workload,
    code: str,
    sampling: Effort,
    on_run: Callable[[dict[str, Any]], None] = lambda _: None,
    on_work: Callable[[float], None] = lambda _: None,
) -> dict[str, Any]:
    """Measure and compare runs. `on_work` is called with the (fractional) number of runs done."""
    problem = Problem(workload, sampling.examples)
    ends = {one.run.spec.id: solution(one, problem).epochs for one in found}
    if len(set(ends.values())) > 1:  # checked first, since measuring takes minutes
        (a, few), *_, (b, many) = sorted(ends.items(), key=lambda item: item[1])
        raise LabError(
            f"the run {a} has {few:g} epochs and the run {b} has {many:g}; train both for the same "
            "number."
        )
    runs: list[dict[str, Any]] = []
    for i, one in enumerate(found):
        done = 0.0

        def heard(work: float, i: int = i) -> None:
            nonlocal done
            done += work
            on_work(i + min(done / sampling.work, 1.0))

        runs.append(measure(one, problem, sampling, heard))
        on_run(runs[-1])
    groups = group_runs(runs)
    comparisons = compare_groups(groups, runs)
    spec = found[0].run.spec
    return {
        "spec": {
            "workload": spec.workload,
            "code": spec.code,
            "scale": spec.scale,
            "protocol": spec.protocol,
            **asdict(sampling),
            "examples": problem.examples,
            "mode": "eval",
        },
        "claim": CLAIM,
        "measures": MEASURES,
        "groups": groups,
        "comparisons": comparisons,
        "verdicts": sentences(comparisons),
        "notes": notes(runs, problem, sampling.directions, code),
        "runs": runs,
    }
