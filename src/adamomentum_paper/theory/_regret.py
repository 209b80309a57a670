"""Compare the regret theorem, its corollary and their proofs with the streams played."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from adamomentum_lab.stats.estimates import Estimate
from adamomentum_paper.theory import Finding, Numbers, Word
from adamomentum_paper.theory._bounds import Average, Regret, lemma, rate, short_lemma
from adamomentum_paper.theory._findings import word_for
from adamomentum_paper.theory._online import ALPHAS, BETA1, BETA2, DECAY, EPS, SCHEDULES, STREAMS

FORMS = {"algorithm1": "Algorithm 1", "amsgrad": "AMSGrad form"}
GRID_EPS = (1e-16, 1e-8, 1e-4, 1.0)


def cases(
    numbers: Numbers, *forms: str, stream: str | None = None, schedule: str | None = None,
    alpha: float | None = None,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Yield the record of every run at every horizon, with its settings. Arguments filter them."""
    for name, form in product([stream] if stream else STREAMS, forms or FORMS):
        records = numbers["streams"][name]
        for rounds, record in zip(numbers["horizons"], records[form], strict=True):
            for (i, s), (j, a) in product(enumerate(SCHEDULES), enumerate(ALPHAS)):
                if schedule not in (None, s) or alpha not in (None, a):
                    continue
                for seed in range(numbers["seeds"]):
                    yield {key: value[i][j][seed] for key, value in record.items()} | {
                        "stream": name, "form": form, "rounds": rounds, "alpha": a,
                        "schedule": s, "dimension": records["dimension"],
                    }  # fmt: skip


def bound(case: dict[str, Any], *, short: bool = False, iterates: bool = False) -> float:
    """Return the theorem's bound. `short` uses the shorter lemma, `iterates` D_inf as printed."""
    distance = case["iterates_distance" if iterates else "distance"]
    made_of = Regret(
        case["rounds"], case["alpha"], BETA1, BETA2, distance,
        case["roots"], case["weighted"], case["norms"],
    )  # fmt: skip
    return made_of.bound(short_lemma(BETA1, BETA2) if short else None)


def average(case: dict[str, Any], eps: float = EPS) -> Average:
    """Return the quantities in the corollary's bound."""
    return Average(
        case["rounds"], case["dimension"], case["alpha"], BETA1, BETA2, DECAY, eps,
        case["distance"], case["gradient"],
    )  # fmt: skip


def rates_of(numbers: Numbers, stream: str, schedule: str, alpha: float) -> dict[str, Any]:
    """Fit exponents of R(T)/T and of its bound over the last 1.5 decades, in the AMSGrad form."""
    kept = [
        case
        for case in cases(numbers, "amsgrad", stream=stream, schedule=schedule, alpha=alpha)
        if case["rounds"] >= numbers["rounds"] / 30
    ]
    seeds = [kept[s :: numbers["seeds"]] for s in range(numbers["seeds"])]
    rounds = [case["rounds"] for case in seeds[0]]
    regret = Estimate.of(
        [rate(rounds, [c["regret"] / c["rounds"] for c in run]) for run in seeds
         if all(c["regret"] > 0 for c in run)]
    )  # fmt: skip
    bounds = [rate(rounds, [bound(c) / c["rounds"] for c in run]) for run in seeds]
    return {"regret": regret.mean, "half": regret.half, "bound": float(np.mean(bounds))}


def judge(numbers: Numbers) -> list[Finding]:
    """Judge the theorem, the corollary, and steps of their proofs."""
    return [
        _theorem(numbers),
        _monotone(numbers),
        _vanishes(numbers),
        _rate(numbers),
        _implied(numbers),
        _sparse(numbers),
        _corollary(),
        _lemma_step(numbers),
        _lemma(numbers),
    ]


def _theorem(numbers: Numbers) -> Finding:
    every = list(cases(numbers, "amsgrad"))
    worst = max(case["regret"] / bound(case) for case in every)
    other = max(case["regret"] / bound(case) for case in cases(numbers, "algorithm1"))
    far = numbers["far"]
    printed = bound(far, iterates=True)
    looseness = [
        bound(case) / case["regret"]
        for case in every
        if case["rounds"] == numbers["rounds"] and case["schedule"] == "decaying"
    ]
    kept, broken = worst <= 1, far["regret"] > printed
    word: Word = "does not hold" if not kept else "holds only when" if broken else "holds"
    return Finding(
        "With D_inf the largest distance between two iterates, and v_t <= v_{t+1}, R(T) is at most "
        "the theorem's bound.",
        word,
        f"D_inf also covers the distance to the best point, as the proof uses it. Then R(T) was "
        f"at most {worst:.2g} of the bound in all {len(every):,} cases of the AMSGrad form, and "
        f"{other:.2g} in Algorithm 1, which does not meet the conditions; after "
        f"{numbers['rounds']:,} rounds with decaying beta1 the bound is {min(looseness):,.0f} to "
        f"{max(looseness):,.0f} times R(T). With D_inf as printed, the stream |theta - "
        f"{far['point']:,.0f}| breaks it: R({far['rounds']}) = {far['regret']:,.0f}, bound "
        f"{printed:,.0f}.",
    )


def _last(numbers: Numbers, stream: str, form: str, key: str) -> float:
    """Return the mean over schedules, alphas and seeds at the last horizon."""
    return float(np.mean(numbers["streams"][stream][form][-1][key]))


def _if(word: Word, condition: str) -> str:
    """Return the condition if the verdict needs one."""
    return f"{condition}. " if word == "holds only when" else ""


def _monotone(numbers: Numbers) -> Finding:
    fell = {form: [_last(numbers, s, form, "fell") for s in STREAMS] for form in FORMS}
    much = [_last(numbers, s, "algorithm1", "fell_much") for s in STREAMS]
    early = max(
        (c["fell_much"] for c in cases(numbers, "algorithm1") if c["rounds"] <= 1 / (1 - BETA2)),
        default=0.0,
    )
    ours, theirs = max(fell["algorithm1"]), max(fell["amsgrad"])
    return Finding(
        "v_t <= v_{t+1} for all t.",
        "holds" if ours == 0 else "holds only when" if theirs == 0 else "does not hold",
        f"the AMSGrad form is used: there v fell at {theirs:.0%} of steps and coordinates; in "
        f"Algorithm 1 at {_shares(fell['algorithm1'])}. The proof needs less, (t-1) v_{{t-1}} <= "
        f"t v_t, which v_t >= beta2 v_{{t-1}} ensures up to round 1/(1-beta2) = 1,000 (broken at "
        f"{early:.0%} until then); over all rounds Algorithm 1 breaks it at {_shares(much)}.",
    )


def _shares(parts: list[float]) -> str:
    return ", ".join(f"{part:.0%} ({name})" for part, name in zip(parts, STREAMS, strict=True))


def _vanishes(numbers: Numbers) -> Finding:
    foe = numbers["adversary"]
    last = {form: foe[form]["part"][-1] for form in FORMS}
    highest = [max(part) for part in zip(*foe["amsgrad"]["part"], strict=True)]
    stuck = [part >= 0.9 for part in last["algorithm1"]]
    falls = [part <= 0.7 * high for part, high in zip(last["amsgrad"], highest, strict=True)]
    near = max(
        abs(a["regret"] / b["regret"] - 1)
        for a, b in zip(cases(numbers, "algorithm1"), cases(numbers, "amsgrad"), strict=True)
        if a["rounds"] == numbers["rounds"] and b["regret"] > 0
    )
    parts = "; ".join(
        f"{name}: {ours:.2g} against {theirs:.2g}"
        for name, ours, theirs in zip(foe["settings"], *last.values(), strict=True)
    )
    over, under = (max(map(max, foe[form]["of_bound"])) for form in FORMS)
    word: Word = "holds"
    if any(stuck):
        word = "holds only when" if all(falls) else "does not hold"
    return Finding(
        "The average regret of AdaMomentum converges to zero.",
        word,
        f"{_if(word, 'the AMSGrad form is used, or the stream is kind')}On streams C theta, "
        f"-theta, -theta, ... "
        f"Algorithm 1 does as badly as the worst point in {sum(stuck)} of {len(stuck)} settings; "
        f"regret after {foe['rounds'][-1]:,} rounds as a part of the worst point's, Algorithm 1 "
        f"against AMSGrad form: {parts}. In the AMSGrad form it is falling in {sum(falls)} of "
        f"{len(falls)}. Algorithm 1's regret reached {over:.2g} times the theorem's bound, the "
        f"AMSGrad form's {under:.2g}. On the three other streams the regrets of both differ by at "
        f"most {near:.0%}.",
    )


def _rate(numbers: Numbers) -> Finding:
    rates = {
        (stream, alpha): rates_of(numbers, stream, "decaying", alpha)
        for stream in STREAMS for alpha in ALPHAS
    }  # fmt: skip
    known = {key: one for key, one in rates.items() if one["regret"] is not None}
    allowed = _allowed(numbers)
    fast = [one for one in known.values() if one["regret"] - (one["half"] or 0) <= allowed]
    word = word_for(len(fast), len(rates))
    exponents = ", ".join(
        f"{one['regret']:.2f}±{one['half'] or 0:.2f} ({stream}, {alpha:g})"
        for (stream, alpha), one in known.items()
    )
    return Finding(
        "R(T)/T falls like 1/sqrt(T), up to logarithms.",
        word,
        f"{_if(word, 'stream and alpha get there within these rounds')}Exponents of R(T)/T over "
        f"the last one and a half decades by stream and alpha, decaying beta1, AMSGrad form, with "
        f"95 % intervals over seeds: {exponents}. As steep as sqrt((1 + log T)/T), {allowed:.2f} "
        f"there, within the interval: {len(fast)} of {len(rates)}. The bound is so far above that "
        f"the slower ones do not contradict it.",
    )


def _allowed(numbers: Numbers) -> float:
    """Fit the exponent of sqrt((1 + log T)/T) over the same rounds."""
    rounds = numbers["horizons"]
    return rate(rounds, [math.sqrt((1 + math.log(t)) / t) for t in rounds])


def _implied(numbers: Numbers) -> Finding:
    slopes = {
        schedule: [rates_of(numbers, s, schedule, a)["bound"] for s in STREAMS for a in ALPHAS]
        for schedule in SCHEDULES
    }
    measured = [rates_of(numbers, s, "constant", a)["regret"] for s in STREAMS for a in ALPHAS]
    fell = sum(slope is not None and slope < 0 for slope in measured)
    decaying, constant = slopes["decaying"], slopes["constant"]
    word: Word = "holds only when" if max(constant) > 0 else "holds"
    word = "does not hold" if max(decaying) >= 0 else word
    return Finding(
        "The theorem implies a regret of order sqrt(T).",
        word,
        f"{_if(word, 'beta_{1,t} decays')}With 0.9 x 0.99^t the bound on R(T)/T changes with "
        f"exponents from {min(decaying):.2f} to {max(decaying):.2f}; with the constant 0.9 of "
        f"practice from {min(constant):.2f} to {max(constant):.2f}: the theorem's middle term "
        f"is then of order T^1.5. Measured R(T)/T falls with the constant 0.9 as well, in {fell} "
        f"of {len(measured)} settings.",
    )


def _sparse(numbers: Numbers) -> Finding:
    d, rounds = numbers["streams"]["sparse"]["dimension"], numbers["rounds"]
    roots, norms = (_last(numbers, "sparse", "amsgrad", key) for key in ("roots", "norms"))
    parts = roots / math.sqrt(d), norms / math.sqrt(d * rounds)
    word: Word = "holds" if max(parts) <= 0.1 else "does not hold"  # `far below`: a tenth
    return Finding(
        "With sparse features, sum sqrt(v_T) is far below sqrt(d), and sum |g_1:T| below sqrt(dT).",
        word,
        f"At d = {d}, with features in "
        f"1/i^2 of the rounds (|g| <= 1, all alphas and schedules) the sums are {parts[0]:.2f} and "
        f"{parts[1]:.2f} of that. The second is about sum 1/i = log d over sqrt(d); with features "
        f"in 1/i of the rounds it is about 2, whatever d is. The AMSGrad form never forgets a "
        f"feature it has seen.",
    )


def grid() -> list[tuple[int, float, float, float]]:
    """Return T, eps, and the corollary as printed and as derived, for d = G = D = 1, alpha 0.01."""
    made_of = [
        Average(rounds, 1, 0.01, BETA1, BETA2, DECAY, eps, 1.0, 1.0)
        for eps, rounds in product(GRID_EPS, (100, 20_000, 10_000_000))
    ]
    return [(one.rounds, one.eps, one.printed(), one.derived()) for one in made_of]


def _corollary() -> Finding:
    rounds, eps, printed, derived = min(grid(), key=lambda cell: cell[2] / cell[3])
    same = max(abs(a / b - 1) for _, e, a, b in grid() if e <= 1e-8)
    short = printed < 0.99 * derived
    return Finding(
        "The corollary's bound is what its proof derives.",
        "holds only when" if short else "holds",
        f"eps is small. The last term drops sqrt(eps/(1-beta2)), which the proof carries, and the "
        f"first has it, where the proof has G alone. For d = G = D_inf = 1, alpha 0.01, the two "
        f"differ by at most {same:.1%} at eps up to 1e-8; at eps {eps:g} and T = {rounds:,} the "
        f"printed one is {printed:,.0f}, the derived {derived:,.0f}.",
    )


def _lemma_step(numbers: Numbers) -> Finding:
    case = numbers["alternating"]
    often = max(c["step_fails"] for c in cases(numbers))
    fails = case["left"] < case["right"] and case["left"] < case["last"]
    return Finding(
        "Proof: sum_j beta2^(T-j) m_j^2 >= sum_j beta2^(T-j) ((1-beta_{1,j}) g_j)^2.",
        "does not hold" if fails else "holds",
        f"Momenta of opposite sign cancel: for gradients 1, -1.2 and beta1 0.9 the sides are "
        f"{case['left']:.4f} and {case['right']:.4f}, and already the last term alone, "
        f"{case['last']:.4f}, is larger. It failed at up to {often:.1%} of the steps and "
        f"coordinates of a run here.",
    )


def _lemma(numbers: Numbers) -> Finding:
    every = list(cases(numbers))
    constants = lemma(BETA1, BETA2), short_lemma(BETA1, BETA2)
    parts = [
        max(c["lemma"] / (k * math.sqrt(1 + math.log(c["rounds"]))) for c in every)
        for k in constants
    ]
    return Finding(
        "Proof: sum_t m_t^2/sqrt(t v_t) is at most sqrt(1 + log T) |g_1:T| / "
        "((1-beta1)^2 (1-gamma) sqrt(1-beta2)).",
        "holds" if parts[0] <= 1 else "does not hold",
        f"True in spite of the step above: the sum reached {parts[0]:.1g} of it. A shorter way: "
        f"v_t >= (1-beta2) m_t^2, and the sum of m^2 is at most the sum of g^2 over 1-beta1. This "
        f"puts {constants[1]:.0f} in place of {constants[0]:,.0f} (the sum reached {parts[1]:.1g}) "
        f"and needs no gamma < 1.",
    )
