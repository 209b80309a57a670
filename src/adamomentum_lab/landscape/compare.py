"""Runs measured alike, grouped by optimizer, and compared over their seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from scipy import stats

from adamomentum_lab.analysis.ranking import OURS, Estimate
from adamomentum_lab.analysis.table import settings_in_words
from adamomentum_lab.errors import LabError
from adamomentum_lab.landscape.curvature import Hessian, top_eigenvalue, trace
from adamomentum_lab.landscape.solutions import Found, Problem, solution
from adamomentum_lab.landscape.surface import Surroundings, direction, spread
from adamomentum_lab.training.supervised import seed_for
from adamomentum_lab.workloads import Workload

CLAIM = (
    "The paper (section 5) trained ResNet-34 on CIFAR-10 for 200 epochs with random seed 0, drew the "
    "loss along two random directions, Adam's cropped at 3, and says that the basin of AdaMomentum "
    "is much more flat than Adam's and that AdaMomentum is more likely to converge to flat minima. "
    "That is one network, one seed and one pair of directions."
)
MEASURES = {
    "rise": "rise of the loss at half the radius",
    "eigenvalue": "largest eigenvalue of the Hessian",
    "trace": "trace of the Hessian",
    "normalised": "mean curvature along filter-normalised directions",
}
SCALE_FREE = ("rise", "normalised")
_RINGS = 4  # radii at which the rise is measured, the last of them the whole
_PRODUCT = 8  # what a product with the Hessian costs, in evaluations of the loss


@dataclass(frozen=True)
class Plan:
    """How much is measured. The same plan on the same runs gives the same numbers."""

    examples: int = 300
    grid: int = 15
    """Points along each side of a surface; odd, so that one is the solution."""
    radius: float = 1.0
    """Of the surface, in parts of the length of each filter."""
    directions: int = 5
    """Pairs of them. The first is drawn; all are averaged."""
    probes: int = 10
    steps: int = 30
    seed: int = 0

    @property
    def axis(self) -> list[float]:
        """The steps along each direction."""
        half = self.grid // 2
        return [self.radius * i / half for i in range(-half, half + 1)]

    @property
    def radii(self) -> list[float]:
        """At which the rise is measured."""
        return [self.radius * (i + 1) / _RINGS for i in range(_RINGS)]

    @property
    def work(self) -> int:
        """Of one run, in evaluations of the loss, at most."""
        points = self.grid**2 + self.directions * (1 + 4 * _RINGS)
        return points + _PRODUCT * (self.steps + 2 * self.probes)


def measure(
    found: Found, problem: Problem, plan: Plan, on_work: Callable[[float], None] = lambda _: None
) -> dict[str, Any]:
    """All that is measured of one run. `on_work` hears of evaluations of the loss."""
    spec = found.run.spec
    end = solution(found, problem)
    problem.check(end.model)
    weights = end.weights

    def loss() -> float:
        on_work(1)
        return problem.loss(end.model)

    def chance(*stages: int) -> torch.Generator:
        # Of the plan alone: the same for every run, so that what it does is shared.
        return torch.Generator().manual_seed(seed_for(plan.seed, *stages))

    around = Surroundings(weights, loss)
    pairs = [
        (direction(around.centre, chance(0, i, 0)), direction(around.centre, chance(0, i, 1)))
        for i in range(plan.directions)
    ]
    rises = [around.rises(pair, plan.radii) for pair in pairs]
    by_radius = [Estimate.of(list(values)) for values in zip(*rises, strict=True)]
    surface = around.grid(pairs[0], plan.axis)

    hessian = Hessian(
        lambda: problem.losses(end.model), weights, lambda part: on_work(_PRODUCT * part)
    )
    top = top_eigenvalue(hessian, hessian.size, chance(1), steps=plan.steps)
    scale = spread(around.centre)
    ordinary = trace(hessian, hessian.size, chance(2), probes=plan.probes)
    normalised = trace(
        lambda vectors: scale * hessian(scale * vectors),
        hessian.size,
        chance(2),
        probes=plan.probes,
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
            "rise": _measured(half.mean, half.half),
            "eigenvalue": {**_measured(top.value, top.error), "steps": top.steps},
            "trace": _measured(ordinary.mean, ordinary.half),
            "normalised": _measured(normalised.mean, normalised.half),
        },
        "rises": {
            "radii": plan.radii,
            "mean": [estimate.mean for estimate in by_radius],
            "error": [estimate.half for estimate in by_radius],
            "by_pair": rises,
        },
        "surface": {"axis": plan.axis, "loss": surface},
    }


def _measured(value: float | None, error: float | None) -> dict[str, Any]:
    return {"value": value, "error": error}


def grouped(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Runs that differ in nothing but their seed; AdaMomentum first."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        spec = run["spec"]
        settings = settings_in_words(spec["settings"], spec["optimizer"])
        groups.setdefault(f"{spec['optimizer']}|{settings}|{spec['precision']}", []).append(run)
    names = [key.split("|")[0] for key in groups]
    found = []
    for key, members in groups.items():
        optimizer, settings, precision = key.split("|")
        members.sort(key=lambda run: run["spec"]["seed"])
        label = optimizer
        if names.count(optimizer) > 1:
            label = f"{optimizer} ({settings}, {precision})"
        found.append(
            {
                "label": label,
                "optimizer": optimizer,
                "settings": settings,
                "seeds": [run["spec"]["seed"] for run in members],
                "runs": [run["id"] for run in members],
                "loss": _over_seeds([run["loss"] for run in members]),
                "measures": {name: _over_seeds(_values(members, name)) for name in MEASURES},
            }
        )
    found.sort(key=lambda group: group["optimizer"] != OURS)  # stable: else as they were named
    return found


def _values(runs: Sequence[dict[str, Any]], name: str) -> list[float]:
    return [run["measures"][name]["value"] for run in runs]


def _over_seeds(values: list[float]) -> dict[str, Any]:
    return asdict(Estimate.of(values))


def compared(
    groups: Sequence[dict[str, Any]], runs: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The first group beside each other one, in every measure."""
    by_id = {run["id"]: run for run in runs}
    if not groups:
        return []
    first, *others = groups
    found = []
    for other in others:
        for name in MEASURES:
            a, b = (
                {
                    by_id[key]["spec"]["seed"]: by_id[key]["measures"][name]["value"]
                    for key in group["runs"]
                }
                for group in (first, other)
            )
            gap, how = difference(a, b)
            found.append(
                {
                    "first": first["label"],
                    "other": other["label"],
                    "measure": name,
                    "difference": asdict(gap),
                    "how": how,
                    "verdict": verdict(gap),
                }
            )
    return found


def difference(a: dict[int, float], b: dict[int, float]) -> tuple[Estimate, str]:
    """a - b by seed: paired where two seeds or more are shared, else by Welch's interval."""
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


def verdict(gap: Estimate) -> str:
    """Of the first beside the other, from the interval of the difference."""
    if gap.mean is None or not math.isfinite(gap.mean):
        return "not finite"
    if gap.half is None:
        return "one pair of runs"
    if not abs(gap.mean) > gap.half:
        return "no difference detected"
    return "flatter" if gap.mean < 0 else "sharper"


def sentences(comparisons: Sequence[dict[str, Any]]) -> list[str]:
    """What each comparison of two groups says, in words."""
    found = []
    for first, other in dict.fromkeys((c["first"], c["other"]) for c in comparisons):
        mine = [c for c in comparisons if (c["first"], c["other"]) == (first, other)]
        said: dict[str, list[str]] = {}
        for c in mine:
            said.setdefault(c["verdict"], []).append(MEASURES[c["measure"]])
        parts = []
        for word in ("flatter", "sharper"):
            if word in said:
                parts.append(f"{first} is {word} than {other} in: {'; '.join(said[word])}")
        if "no difference detected" in said:
            where = "; ".join(said["no difference detected"])
            parts.append(f"no difference between {first} and {other} detected in: {where}")
        if "not finite" in said:
            parts.append(f"not finite, so not compared: {'; '.join(said['not finite'])}")
        if "one pair of runs" in said:
            lower = [MEASURES[c["measure"]] for c in mine if (c["difference"]["mean"] or 0) < 0]
            parts.append(
                f"the run of {first} is lower than that of {other} in {len(lower)} of {len(mine)} "
                "measures; with one seed on a side, this decides nothing beyond these runs"
            )
        found.append(". ".join(part[0].upper() + part[1:] for part in parts) + ".")
    return found


def landscape(
    found: Sequence[Found],
    workload: Workload,
    code: str,
    plan: Plan,
    on_run: Callable[[dict[str, Any]], None] = lambda _: None,
    on_work: Callable[[float], None] = lambda _: None,
) -> dict[str, Any]:
    """All runs measured and compared. `on_work` hears how many runs are done, in parts of one."""
    problem = Problem(workload, plan.examples)
    runs: list[dict[str, Any]] = []
    for i, one in enumerate(found):
        done = 0.0

        def heard(work: float, i: int = i) -> None:
            nonlocal done
            done += work
            on_work(i + min(done / plan.work, 1.0))

        runs.append(measure(one, problem, plan, heard))
        if runs[-1]["epochs"] != runs[0]["epochs"]:
            a, b = runs[0], runs[-1]
            raise LabError(
                f"the run {a['id']} is after {a['epochs']:g} epochs and the run {b['id']} after "
                f"{b['epochs']:g}: train both to the end."
            )
        on_run(runs[-1])
    groups = grouped(runs)
    comparisons = compared(groups, runs)
    spec = found[0].run.spec
    return {
        "spec": {
            "workload": spec.workload,
            "code": spec.code,
            "scale": spec.scale,
            "protocol": spec.protocol,
            **asdict(plan),
            "examples": problem.examples,
            "mode": "eval",
        },
        "claim": CLAIM,
        "measures": MEASURES,
        "groups": groups,
        "comparisons": comparisons,
        "verdicts": sentences(comparisons),
        "notes": _notes(runs, problem, plan, code),
        "runs": runs,
    }


def _notes(runs: list[dict[str, Any]], problem: Problem, plan: Plan, code: str) -> list[str]:
    workload, spec = problem.workload, runs[0]["spec"]
    last = f"the mean of the weights after the last {runs[0]['averaged']} epochs"
    which = last if runs[0]["averaged"] > 1 else "the weights of the last checkpoint"
    notes = [
        f"The solution is {which}, after {runs[0]['epochs']:g} of "
        f"{workload.epochs[workload.scale]} epochs; not of the epoch that was best on validation",
        f"The loss is the one that was minimised, without weight decay, on {problem.examples:,} "
        "fixed training examples, without augmentation and with the network in eval mode (no "
        "dropout; batch norm by its running statistics), in float32",
        "Directions are Gaussian, each filter as long as that of the weights (Li et al., 2018); "
        "biases and norm parameters stay. They come from the same random numbers for every run, and "
        f"so do the examples. Surfaces are along the first of {plan.directions} pairs; a rise is the "
        "mean over both ways along all of them",
        "Errors of single runs: rise and traces, half a 95 % t-interval over directions or probes; "
        "eigenvalue, the residual of Lanczos' method. None holds the choice of examples",
        "Eigenvalue and trace of the Hessian change when weights are rescaled though the network "
        "stays the same (Dinh et al., 2017), and so with weight decay; the rise and the mean "
        "curvature along filter-normalised directions do not where norm layers follow",
        f"Each interval is 95 % by itself; of {len(MEASURES)} measures one in five comparisons shows "
        "a difference by chance. Settings are those of the runs: were they not tuned alike, neither "
        "is this comparison",
    ]
    if problem.carries:
        notes.append("State is not carried from batch to batch: each begins anew")
    if code != spec["code"]:
        notes.append(
            f"THE WORKLOAD HAS CHANGED since these runs (then {spec['code']}, now {code}): their "
            "weights are evaluated by a loss that may not be theirs"
        )
    short = [run["id"] for run in runs if run["epochs"] < workload.epochs[workload.scale]]
    if short:
        notes.append(f"Not finished: {', '.join(short)}")
    notes += [caveat[0].upper() + caveat[1:] for caveat in workload.caveats]
    return notes
