"""Pairs of contenders whose truth is known: what `benchmarks/verdicts.py` races.

A problem is a curve of the score over the learning rate for each contender, and noise over seeds.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

Curve = Callable[[float], float]
"""Expected score at x = log10(lr); infinite where training diverges."""


@dataclass(frozen=True)
class Problem:
    """Two contenders with a known truth. Scores are smaller-is-better."""

    name: str
    a: Curve
    b: Curve
    decay: Curve | None = None
    """What B gains at p = lr * weight_decay, as a function of log10(p), with -inf for 0; where it
    is given, both search weight decay too."""
    decays: str = "b"
    """The contender that gains; "ab" if both do."""
    tilt: float = 0.0
    """By how many decades the best p moves down for each decade that lr moves up."""
    starts: tuple[float, float] = (-3.0, -3.0)
    sd: float = 0.1
    """Of a score over seeds, at x = -3."""
    growth: float = 0.0
    """By how many decades the sd grows with each decade of lr."""
    shared: float = 0.0
    """Correlation of a seed's noise between settings and contenders."""
    same: bool = False
    """Whether both contenders are the same optimizer: the same lr gives the same run."""
    shift: float = 0.0
    """Standard deviation, in decades, by which a seed shifts both curves."""
    risk: Curve | None = None
    """The chance that a run diverges."""
    tuning_sd: float | None = None
    """Of the validation score; the same as `sd` if None."""
    skew: bool = False
    """Whether noise is log-normal instead of normal."""
    collapse: float = 0.0
    """Chance that a seed ends far off the others."""
    resolution: float = 0.0
    rounded: bool = False
    """Whether scores are multiples of the resolution."""
    margin: float | None = None
    assumed: bool = True
    """Whether it meets what the referee assumes: a score that is convex in log lr around the best
    point, and seeds that vary about normally. The error rates of others are only reported."""

    @functools.cached_property
    def truth(self) -> float:
        """A minus B, each at its best learning rate."""
        gained = 0.0
        if (decay := self.decay) is not None:
            gained = max(decay(-math.inf), -lowest(lambda u: -decay(u)))
        gap = lowest(self.a) - lowest(self.b)
        gap += gained * (("b" in self.decays) - ("a" in self.decays))
        return gap if abs(gap) > 1e-6 else 0.0

    @property
    def gap(self) -> float:
        """The truth in standard deviations of a score."""
        return abs(self.truth) / self.sd if self.truth else 0.0


def lowest(curve: Curve) -> float:
    """The minimum of a curve: on a grid, then by thirds around the best point of it."""
    at = min((k / 256 for k in range(-9 * 256, 4 * 256)), key=curve)
    low, high = at - 1 / 256, at + 1 / 256
    for _ in range(80):
        third = (high - low) / 3
        if curve(low + third) <= curve(high - third):
            high -= third
        else:
            low += third
    return min(curve(at), curve(low))


def bowl(best: float, at: float, width: float = 1.0, cliff: float = math.inf) -> Curve:
    """A parabola in log lr; it diverges beyond the cliff."""
    return lambda x: math.inf if x > cliff else best + ((x - at) / width) ** 2


def vee(best: float, at: float, down: float, up: float) -> Curve:
    """Two straight slopes: convex, and sharp at the optimum."""
    return lambda x: best + (down * (at - x) if x < at else up * (x - at))


def trough(best: float, at: float, cliff: float = math.inf) -> Curve:
    """Very flat at the bottom, steep beyond; it diverges beyond the cliff."""
    return lambda x: math.inf if x > cliff else best + ((x - at) / 1.5) ** 8


def plateau(best: float, left: float, right: float, slope: float = 1.0) -> Curve:
    """Flat between two learning rates."""
    return lambda x: best + slope * (max(0.0, left - x) ** 2 + max(0.0, x - right) ** 2)


def flat(best: float) -> Curve:
    """No dependence on the learning rate."""
    return lambda _: best


def saturating(best: float, at: float, top: float) -> Curve:
    """A bowl that flattens out at the score of an untrained network: not convex far away."""
    return lambda x: best + (top - best) * (1 - math.exp(-(((x - at) / 1.2) ** 2)))


def training(best: float, at: float) -> Curve:
    """Too little progress at small learning rates, too much noise of the steps at large ones."""

    def loss(u: float) -> float:
        return 1 / (1 + 10.0 ** (u + 2.5)) + 10.0 ** (2 * u - 1)

    least = lowest(loss)
    return lambda x: best + loss(x - at) - least


def vanishing(scale: float) -> Curve:
    """A loss that goes to 0 as the learning rate does."""
    return lambda x: scale * 10.0 ** (2 * x)


def gain(most: float, at: float = -4.3) -> Curve:
    """What weight decay p takes off the score: most at p = 10^at, nothing at 0."""
    return lambda u: (
        most * max(-3.0, 1 - (1 - 10.0 ** (u - at)) ** 2)
        if u < at + 0.3
        else (most * (1 - (1 - 10.0**0.3) ** 2 - 2 * (u - at - 0.3)))
    )


def harm(most: float) -> Curve:
    """Weight decay only hurts: nothing is best."""
    return lambda u: -most * 10.0 ** (u + 4.5)


def two_valleys(best: float, near: float, far: float, rise: float) -> Curve:
    """A shallow valley beside a deep one."""
    return lambda x: min(best + (x - far) ** 2, best + rise + 2 * (x - near) ** 2)


def hidden(best: float, at: float, top: float) -> Curve:
    """A narrow valley in a plain: away from it nothing tells where it is."""
    return lambda x: top - (top - best) * max(0.0, 1 - ((x - at) / 0.8) ** 2)


def problems() -> list[Problem]:
    """The suite."""
    made = [*_winners(), *_ties(), *_margins(), *_with_decay(), *_beyond_assumptions()]
    return [*made, *(mirror(problem) for problem in made if problem.truth)]


def mirror(problem: Problem) -> Problem:
    """The same with the contenders exchanged: the baseline may be the better one too."""
    starts = problem.starts[::-1]
    decays = {"a": "b", "b": "a"}.get(problem.decays, problem.decays)
    name = f"{problem.name}, mirrored"
    return replace(problem, name=name, a=problem.b, b=problem.a, starts=starts, decays=decays)


def _winners() -> list[Problem]:
    return [
        Problem("a clear winner", bowl(1.0, -3), bowl(1.3, -3)),
        Problem("a winner by 2 sd", bowl(1.0, -3.1), bowl(1.2, -2.8)),
        Problem("a winner with a cliff", bowl(1.0, -2.8, 1, -2.7), bowl(1.25, -3), sd=0.1),
        Problem("a winner on plateaus", plateau(1.0, -4, -2.5), plateau(1.25, -3, -1)),
        Problem("a winner, no dependence on lr", flat(1.0), flat(1.25)),
        Problem(
            "short runs: larger is better up to a cliff",
            lambda x: math.inf if x > -1.3 else 2 - 0.5 * (x + 6),
            lambda x: math.inf if x > -1.1 else 2 - 0.5 * (x + 6) + 0.1,
            sd=0.05,
        ),
        Problem("a winner, heavy noise", bowl(1.0, -3), bowl(2.2, -2.5), sd=0.6),
        Problem("a winner, noisy tuning", bowl(1.0, -3), bowl(1.2, -2.5), sd=0.05, tuning_sd=0.3),
        Problem("a winner, seeds shared", bowl(1.0, -3), bowl(1.15, -2.7), sd=0.2, shared=0.9),
        Problem("a winner, noise grows with lr", bowl(1.0, -3.2), bowl(1.3, -2.8), growth=0.4),
        Problem("a winner, asymmetric", vee(1.0, -3.3, 0.2, 2), vee(1.25, -2.6, 0.2, 2), sd=0.1),
        Problem("a winner, a trained network", training(1.0, -2), training(1.08, -1), sd=0.03),
        Problem(
            "a winner, accuracy on 60 images",
            bowl(-85.0, -3, 0.3), bowl(-75.0, -2.7, 0.3), sd=4.0, resolution=100 / 60, rounded=True,
        ),
    ]  # fmt: skip


def _ties() -> list[Problem]:
    sharp = vee(1.0, -3, 0.5, 0.5)
    return [
        Problem("a tie, the same curve", bowl(1.0, -3), bowl(1.0, -3)),
        Problem("a tie, the same optimizer", bowl(1.0, -2.8), bowl(1.0, -2.8), same=True),
        Problem(
            "a tie, the same optimizer, other starts",
            bowl(1.0, -2.8), bowl(1.0, -2.8), starts=(-3.0, -2.7), same=True,
        ),
        Problem("a tie, optima at tried points", bowl(1.0, -3), bowl(1.0, -2)),
        Problem("a tie, shifted by 0.64 decades", bowl(1.0, -3), bowl(1.0, -2.36)),
        Problem("a tie, between the first points", bowl(1.0, -3), bowl(1.0, -2.6, 0.5)),
        Problem("a tie, B's optimum 3 decades away", bowl(1.0, -3), bowl(1.0, 0.1)),
        Problem("a tie, B's optimum 4 decades below", bowl(1.0, -3), bowl(1.0, -7.05)),
        Problem("a tie, little noise, narrow", bowl(1.0, -3, 0.4), bowl(1.0, -2.9, 0.4), sd=0.003),
        Problem("a tie, no noise", bowl(1.0, -3), bowl(1.0, -2.63), sd=0.0, resolution=1e-6),
        Problem("a tie, sharp vee", sharp, vee(1.0, -2.87, 0.5, 2.0), sd=0.01),
        Problem("a tie, sharp vee, more noise", sharp, vee(1.0, -2.87, 0.5, 2.0), sd=0.05),
        Problem("a tie, vee steep below", sharp, vee(1.0, -2.6, 3.0, 0.2), sd=0.02),
        Problem("a tie, vee beside a tried point", sharp, vee(1.0, -2.97, 1.0, 3.0), sd=0.01),
        Problem("a tie, two vees", vee(1.0, -3.08, 0.3, 2), vee(1.0, -2.69, 2, 0.3), sd=0.02),
        Problem("a tie, cliff beside B's optimum", bowl(1.0, -3), bowl(1.0, -2.7, 1, -2.62)),
        Problem("a tie, flat up to a cliff", bowl(1.0, -3), trough(1.0, -3.2, -2.55), sd=0.02),
        Problem("a tie on plateaus", plateau(1.0, -4, -2.5), plateau(1.0, -3, -1)),
        Problem("a tie, no dependence on lr", flat(1.0), flat(1.0)),
        Problem("a tie, heavy noise", bowl(1.0, -3), bowl(1.0, -2.5), sd=0.6),
        Problem("a tie, noisy tuning", bowl(1.0, -3), bowl(1.0, -2.5), sd=0.03, tuning_sd=0.5),
        Problem("a tie, noise grows with lr", bowl(1.0, -3.3), bowl(1.0, -2.4), growth=0.5),
        Problem(
            "a tie, seeds shift the curve",
            bowl(1.0, -3), bowl(1.0, -2.7), sd=0.01, shift=0.2,
        ),
        Problem(
            "a tie, chance of divergence grows with lr",
            bowl(1.0, -3.2), bowl(1.0, -2.7), sd=0.05,
            risk=lambda x: min(1.0, max(0.0, (x + 2.9) / 1.5)),
        ),
        Problem("a tie, not convex far away", saturating(1, -3, 2.3), saturating(1, -1.2, 2.3)),
        Problem("a tie, a trained network", training(1.0, -2.2), training(1.0, -1.3), sd=0.01),
        Problem("a tie, seeds shared", bowl(1.0, -3), bowl(1.0, -2.7), sd=0.2, shared=0.9),
        Problem(
            "a tie, accuracy on 60 images",
            bowl(-85.0, -3, 0.3), bowl(-85.0, -2.7, 0.3), sd=4.0, resolution=100 / 60, rounded=True,
        ),
        Problem(
            "a tie, accuracy with little noise",
            bowl(-85.0, -3, 0.3), bowl(-85.0, -2.7, 0.3), sd=0.5, resolution=100 / 60, rounded=True,
        ),
        Problem("loss vanishes with lr", vanishing(1.0), vanishing(30.0), sd=0.0, resolution=1e-6),
    ]  # fmt: skip


def _margins() -> list[Problem]:
    return [
        Problem("a tie within the margin", bowl(1.0, -3), bowl(1.02, -2.7), sd=0.1, margin=0.3),
        Problem("beyond the margin", bowl(1.0, -3), bowl(1.31, -2.7), sd=0.1, margin=0.3),
        Problem(
            "at the margin, sharp vee",
            vee(1.0, -3, 0.5, 0.5), vee(1.1001, -2.87, 0.5, 2.0), sd=0.06, margin=0.1,
        ),
    ]  # fmt: skip


def _with_decay() -> list[Problem]:
    return [
        Problem("a tie, B's optimum at wd > 0", bowl(1.0, -3), bowl(1.4, -2.6), decay=gain(0.4)),
        Problem("a winner, B's optimum at wd > 0", bowl(1.0, -3), bowl(1.7, -2.6), decay=gain(0.4)),
        Problem(
            "a tie, both optima at wd > 0",
            bowl(1.0, -3), bowl(1.0, -2.6), decay=gain(0.4), decays="ab",
        ),
        Problem("a tie, wd only hurts", bowl(1.0, -3), bowl(1.0, -2.6), decay=harm(0.2)),
    ]  # fmt: skip


def _beyond_assumptions() -> list[Problem]:
    """What the referee cannot know; reported apart."""
    tie = Problem("", bowl(1.0, -3), bowl(1.0, -2.6), assumed=False)
    return [
        replace(tie, name="skewed noise, a tie", skew=True),
        replace(tie, name="collapsing seeds, a tie", collapse=0.05),
        replace(tie, name="two valleys, a tie", b=two_valleys(1.0, -3, -1, 0.15)),
        replace(tie, name="a hidden valley, a tie", b=hidden(1.0, -0.6, 2.0)),
        replace(tie, name="wd and lr coupled, a tie", b=bowl(1.4, -2.2), decay=gain(0.4), tilt=1.0),
    ]
