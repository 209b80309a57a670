"""The regret theorem: online convex problems with a known best point, and the bound's constants."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from adamomentum_lab.analysis.ranking import Estimate
from adamomentum_lab.theory import Claim, Finding, Numbers, Size, Table, Tick, Word, _adversary
from adamomentum_lab.theory._bounds import Average, Regret, lemma, short_lemma
from adamomentum_lab.theory._online import (
    ALPHAS,
    BETA1,
    BETA2,
    DECAY,
    EPS,
    SCHEDULES,
    STREAMS,
    Far,
    Play,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMS = {"algorithm1": "Algorithm 1", "amsgrad": "AMSGrad form"}
MAIN = ALPHAS.index(0.01)  # pictured
GRID_EPS = (1e-16, 1e-8, 1e-4, 1.0)
COLOURS = {"quadratic": "#0072b2", "digits": "#d55e00", "sparse": "#009e73"}
# Rounds of the streams, seeds, rounds of the adversary.
_SIZES = {
    "smoke": (300, 3, 600),
    "default": (20_000, 5, 120_000),
    "paper": (60_000, 5, 1_200_000),
}


def compute(size: Size, tick: Tick) -> Numbers:
    """Every stream with both forms, and the cases made to break the theorem."""
    rounds, seeds, adversary = _SIZES[size]
    ends = sorted({round(10 ** (k / 4)) for k in range(4, 99) if 10 ** (k / 4) < rounds} | {rounds})
    numbers: Numbers = {"rounds": rounds, "seeds": seeds, "horizons": ends, "streams": {}}
    parts = 2 * len(STREAMS) + 1
    done = 0
    for name, make in STREAMS.items():
        stream = make(rounds, seeds)
        records: Numbers = {"dimension": stream.dimension}
        for form in FORMS:
            play = Play(stream, amsgrad=form == "amsgrad")
            records[form] = []
            for t in range(1, rounds + 1):
                play.step()
                if t in ends:
                    records[form].append(play.so_far())
                    tick((done + t / rounds) / parts)
            done += 1
        numbers["streams"][name] = records
    numbers["far"] = _far()
    numbers["alternating"] = _alternating()
    numbers["adversary"] = _adversary.play(
        adversary, lambda part: tick((parts - 1 + part) / parts)
    )
    return numbers


def _far() -> Numbers:
    """A best point far away: what is left of the bound if D_inf is only between iterates."""
    play = Play(Far(), amsgrad=True, alphas=(0.001,), decays=(DECAY,))
    for _ in range(100):
        play.step()
    found = {key: value[0][0][0] for key, value in play.so_far().items()}
    return found | {"rounds": 100, "alpha": 0.001, "point": Far.point}


def _alternating() -> Numbers:
    """Gradients 1, -1.2 with beta1 0.9: the two sides of the step in the proof, by hand."""
    beta1, g = 0.9, (1.0, -1.2)
    m1 = (1 - beta1) * g[0]
    m2 = beta1 * m1 + (1 - beta1) * g[1]
    return {
        "gradients": list(g),
        "momenta": [m1, m2],
        "left": BETA2 * m1**2 + m2**2,
        "right": BETA2 * ((1 - beta1) * g[0]) ** 2 + ((1 - beta1) * g[1]) ** 2,
        "last": ((1 - beta1) * g[1]) ** 2,
    }


def _cases(numbers: Numbers, *forms: str) -> Iterator[dict[str, Any]]:
    """Every record of a run at a horizon, with what it was."""
    for name, records in numbers["streams"].items():
        for form in forms or FORMS:
            for rounds, record in zip(numbers["horizons"], records[form], strict=True):
                for i, schedule in enumerate(SCHEDULES):
                    for j, alpha in enumerate(ALPHAS):
                        for seed in range(numbers["seeds"]):
                            yield {key: value[i][j][seed] for key, value in record.items()} | {
                                "stream": name, "form": form, "rounds": rounds, "alpha": alpha,
                                "schedule": schedule, "dimension": records["dimension"],
                            }  # fmt: skip


def bound(case: dict[str, Any], *, short: bool = False, iterates: bool = False) -> float:
    """The theorem's; `short` with the shorter lemma, `iterates` with D_inf as printed."""
    distance = case["iterates_distance" if iterates else "distance"]
    made_of = Regret(
        case["rounds"], case["alpha"], BETA1, BETA2, distance,
        case["roots"], case["weighted"], case["norms"],
    )  # fmt: skip
    return made_of.bound(short_lemma(BETA1, BETA2) if short else None)


def average(case: dict[str, Any], eps: float = EPS) -> Average:
    """What the corollary's bound is made of."""
    return Average(
        case["rounds"], case["dimension"], case["alpha"], BETA1, BETA2, DECAY, eps,
        case["distance"], case["gradient"],
    )  # fmt: skip


def exponent(rounds: list[int], values: list[float]) -> float:
    """Slope in logarithms."""
    return float(np.polyfit(np.log(rounds), np.log(values), 1)[0])


def _rates(numbers: Numbers, stream: str, schedule: str, alpha: float) -> dict[str, Any]:
    """Exponents of R(T)/T and of its bound over the last 1.5 decades, AMSGrad form."""
    kept = [
        case
        for case in _cases(numbers, "amsgrad")
        if (case["stream"], case["schedule"], case["alpha"]) == (stream, schedule, alpha)
        and case["rounds"] >= numbers["rounds"] / 30
    ]
    n = len(kept) // numbers["seeds"]
    seeds = [kept[s :: numbers["seeds"]] for s in range(numbers["seeds"])]
    rounds = [case["rounds"] for case in seeds[0]]
    assert len(rounds) == n
    regret = Estimate.of(
        [exponent(rounds, [c["regret"] / c["rounds"] for c in run]) for run in seeds
         if all(c["regret"] > 0 for c in run)]
    )  # fmt: skip
    bounds = [exponent(rounds, [bound(c) / c["rounds"] for c in run]) for run in seeds]
    return {"regret": regret.mean, "half": regret.half, "bound": float(np.mean(bounds))}
