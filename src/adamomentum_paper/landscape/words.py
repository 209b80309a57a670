"""The sentences of a landscape: the paper's claim, the verdicts and the notes."""

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
    """Return a sentence for each comparison of two groups."""
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
                "per optimizer, this says nothing beyond these runs"
            )
        if loss["verdict"] in ("lower", "higher") and ("flatter" in said or "sharper" in said):
            parts.append(
                f"But the loss of {first} at the solution is {loss['verdict']}, and the curvature "
                "of a cross entropy falls with the loss, so the cause may be how far each was "
                "trained"
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
    """Return the notes that a reader of the numbers needs."""
    workload, first = problem.workload, runs[0]
    spec, epochs = first["spec"], at_scale(workload.epochs, workload.scale)
    which = "the weights of the last checkpoint"
    if first["averaged"] > 1:
        which = f"the mean of the weights after the last {first['averaged']} epochs"
    said = [
        f"""The solution is {which}, after {first["epochs"]:g} of {epochs} epochs. It is not the
        epoch that was best on validation""",
        f"""The loss is the one that was minimised, without weight decay, on {problem.examples:,}
        fixed training examples, without augmentation and with the network in eval mode (no dropout;
        batch norm by its running statistics), in float32""",
        f"""Directions are Gaussian with the filter norms of the weights (Li et al., 2018); biases
        and norm parameters do not move. All runs use the same random numbers. Surfaces are along
        the first of {directions} pairs. A rise is the mean over all pairs and both signs""",
        """The error of a single run is half a 95 % t-interval over directions or probes; that of
        the eigenvalue is the residual of Lanczos' method. Errors do not include the choice of
        examples""",
        """The eigenvalue and the trace of the Hessian change if weights are rescaled, even if the
        network computes the same (Dinh et al., 2017); weight decay rescales weights. If norm layers
        follow, the rise and the mean curvature along filter-normalised directions do not change""",
        f"""Each interval is a separate 95 % interval: with {len(MEASURES)} measures, up to one
        comparison in five shows a difference by chance""",
        """The runs keep their own settings. If these were not tuned equally, this is not a fair
        comparison of the optimizers""",
    ]
    if problem.carries:
        said.append("No state is carried from batch to batch")
    if code != spec["code"]:
        said.append(
            f"""THE WORKLOAD HAS CHANGED since these runs (then {spec["code"]}, now {code}): the
            loss here may differ from the one they minimised"""
        )
    if first["epochs"] < epochs:
        said.append("THE RUNS ARE NOT FINISHED")
    said += [caveat[0].upper() + caveat[1:] for caveat in workload.caveats]
    return [" ".join(note.split()) for note in said]
