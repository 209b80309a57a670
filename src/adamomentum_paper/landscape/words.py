"""What is said of a landscape: the claim, the verdicts, what they hold for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adamomentum_lab.rules import at_scale
from adamomentum_paper.landscape.solutions import Problem

CLAIM = (
    "The paper (section 5) trained ResNet-34 on CIFAR-10 for 200 epochs with random seed 0, drew "
    "the loss along two random directions, Adam's cropped at 3, and says that the basin of "
    "AdaMomentum is much more flat than Adam's and that AdaMomentum is more likely to converge to "
    "flat minima. That is one network, one seed and one pair of directions."
)
MEASURES = {
    "rise": "rise of the loss at half the radius",
    "eigenvalue": "largest eigenvalue of the Hessian",
    "trace": "trace of the Hessian",
    "normalised": "mean curvature along filter-normalised directions",
}


def sentences(comparisons: Sequence[dict[str, Any]]) -> list[str]:
    """What each comparison of two groups says, in words."""
    found = []
    for first, other in dict.fromkeys((c["first"], c["other"]) for c in comparisons):
        loss, *mine = (c for c in comparisons if (c["first"], c["other"]) == (first, other))
        said: dict[str, list[str]] = {}
        for c in mine:
            said.setdefault(c["verdict"], []).append(MEASURES[c["measure"]])
        parts = []
        for word in ("flatter", "sharper"):
            if word in said:
                parts.append(f"{first} is {word} than {other} in {_all(said[word])}")
        if none := said.get("no difference detected"):
            parts.append(f"{first} and {other}: no difference detected in {_all(none, 'any of')}")
        if lost := said.get("not finite"):
            parts.append(f"{first} and {other}: not finite, so not compared, {_all(lost)}")
        if "one pair of runs" in said:
            lower = sum((c["difference"]["mean"] or 0) < 0 for c in mine)
            parts.append(
                f"{first} is lower than {other} in {lower} of {len(mine)} measures; with one seed "
                "on a side, this decides nothing beyond these runs"
            )
        if loss["verdict"] in ("lower", "higher") and ("flatter" in said or "sharper" in said):
            parts.append(
                f"But the loss of {first} at the solution is {loss['verdict']}, and curvature of a "
                "cross entropy falls with the loss itself: this may be no more than how far each "
                "was trained"
            )
        found.append(". ".join(parts) + ".")
    return found


def _all(measures: list[str], how_many: str = "all") -> str:
    if len(measures) < len(MEASURES):
        return "; ".join(measures)
    return f"{how_many} {len(measures)} measures"


def notes(
    runs: Sequence[dict[str, Any]], problem: Problem, directions: int, code: str
) -> list[str]:
    """What must be known to read the numbers."""
    workload, first = problem.workload, runs[0]
    spec, epochs = first["spec"], at_scale(workload.epochs, workload.scale)
    which = "the weights of the last checkpoint"
    if first["averaged"] > 1:
        which = f"the mean of the weights after the last {first['averaged']} epochs"
    said = [
        f"""The solution is {which}, after {first["epochs"]:g} of {epochs} epochs: not that of the
        epoch which was best on validation""",
        f"""The loss is the one that was minimised, without weight decay, on {problem.examples:,}
        fixed training examples, without augmentation and with the network in eval mode (no dropout;
        batch norm by its running statistics), in float32""",
        f"""Directions are Gaussian, each filter as long as that of the weights (Li et al., 2018);
        biases and norm parameters stay. They come from the same random numbers for every run.
        Surfaces are along the first of {directions} pairs; a rise is the mean over both ways along
        all of them""",
        """Errors of single runs are, of rise, trace and mean curvature, half a 95 % t-interval over
        directions or probes; of the eigenvalue the residual of Lanczos' method. None holds the
        choice of examples""",
        """Eigenvalue and trace of the Hessian change when weights are rescaled although the network
        computes the same (Dinh et al., 2017), and so with weight decay. Where norm layers follow,
        the rise and the mean curvature along filter-normalised directions do not""",
        f"""Each interval is 95 % by itself: with {len(MEASURES)} measures, one or more show a
        difference by chance in up to one comparison of five""",
        """Settings are those of the runs: where they were not tuned alike, this is no fair
        comparison of the optimizers""",
    ]
    if problem.carries:
        said.append("State is not carried from batch to batch: each begins anew")
    if code != spec["code"]:
        said.append(
            f"""THE WORKLOAD HAS CHANGED since these runs (then {spec["code"]}, now {code}): their
            weights are evaluated by a loss that may not be theirs"""
        )
    if first["epochs"] < epochs:
        said.append("THE RUNS ARE NOT FINISHED")
    said += [caveat[0].upper() + caveat[1:] for caveat in workload.caveats]
    return [" ".join(note.split()) for note in said]
