"""How long an optimizer stays in a basin, by the Levy-driven equation and by the algorithm."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice, product

import torch

from adamomentum_paper.theory import Figure, Finding, Numbers, Size, Table, TheoryClaim, Tick
from adamomentum_paper.theory._basins import BASINS, BETA1, BETA2, BROAD, METHODS, TAILS, run_basins
from adamomentum_paper.theory._drawing import COLOURS
from adamomentum_paper.theory._findings import list_findings, word_for
from adamomentum_paper.theory._levy import Exits, columns, exponent, stable, tail

ALPHAS = (1.2, 1.5, 1.8)  # tail indices of the equation
UPSILONS = (0.01, 0.02, 0.04, 0.08, 0.16)
FITTED = 3  # the fit uses the smallest values, since the lemma is about small noise
WIDTHS = (0.35, 0.5, 0.7, 1.0, 1.4)
UPSILON = 0.02  # used with varying widths
STEP = 0.1  # time step of the Euler-Maruyama scheme
FLAT = 0.1  # h lr / sigma up to which a basin counts as flat
PURE_NOISE = BETA1 / (2 - BETA1) * (1 - BETA1) / (1 + BETA1)  # Assumption 5, for noise alone
LABELS = {"adam": "Adam", "adamomentum": "AdaMomentum", "translated": "AdaMomentum, lr / 4.36"}
# Trajectories and time of the equation; trajectories and steps of the algorithm.
_SIZES = {
    "smoke": (1_000, 80.0, 60, 800),
    "default": (2_000, 300.0, 150, 8_000),
    "paper": (10_000, 2_000.0, 2_000, 50_000),
}
_WARM = {"smoke": 300, "default": 2_000, "paper": 5_000}  # steps before the clock starts


def compute(size: Size, tick: Tick) -> Numbers:
    """Simulate the lemma's scaling, the whole equation, and the algorithm in basins."""
    trajectories, time, many, steps = _SIZES[size]
    numbers: Numbers = {
        "trajectories": trajectories, "time": time, "many": many, "steps": steps,
        "alphas": list(ALPHAS), "upsilons": list(UPSILONS), "widths": list(WIDTHS),
    }  # fmt: skip
    random = torch.Generator().manual_seed(4)
    numbers["scaling"] = _scaling(trajectories, time, random, lambda done: tick(0.15 * done))
    numbers["equation"] = _equation(trajectories, time, random, lambda d: tick(0.15 + 0.15 * d))
    numbers["algorithm"] = run_basins(
        many, steps, _WARM[size], random, lambda d: tick(0.3 + 0.7 * d)
    )
    return numbers


def _scaling(trajectories: int, time: float, random: torch.Generator, tick: Tick) -> list[Numbers]:
    """Simulate dtheta = -m dt + upsilon dL, dm = b1 (theta - m) dt for f = theta^2/2.

    v is at rest (R = 1). This is the lemma's limit: near the minimum the methods differ in R alone.
    The first half of the cases varies upsilon, the second half varies the half width of the basin.
    """
    cases = [(a, u, 1.0) for a in ALPHAS for u in UPSILONS]
    cases += [(a, UPSILON, w) for a in ALPHAS for w in WIDTHS]
    alpha, upsilon, width = columns(cases, trajectories)
    jump = upsilon * STEP ** (1 / alpha)
    theta, m = torch.zeros_like(alpha), torch.zeros_like(alpha)
    exits = Exits(alpha.shape)
    steps = round(time / STEP)
    for step in range(steps):
        m, theta = (m + STEP * BETA1 * (theta - m), theta - STEP * m + jump * stable(alpha, random))
        exits.pass_time(STEP, theta.abs() < width)
        tick(step / steps)
    means = iter(exits.mean())
    by_upsilon = {a: list(islice(means, len(UPSILONS))) for a in ALPHAS}
    by_width = {a: list(islice(means, len(WIDTHS))) for a in ALPHAS}
    return [
        {
            "alpha": a,
            "upsilon": by_upsilon[a],
            "width": by_width[a],
            "upsilon_exponent": exponent(UPSILONS[:FITTED], by_upsilon[a][:FITTED]),
            "width_exponent": exponent(WIDTHS, by_width[a]),
            "single_jump": [1 / (tail(a) * u**a) for u in UPSILONS],
            "single_jump_width": [(w / UPSILON) ** a / tail(a) for w in WIDTHS],
        }
        for a in ALPHAS
    ]


def _equation(trajectories: int, time: float, random: torch.Generator, tick: Tick) -> list[Numbers]:
    """Simulate the whole equation of section 3.2, with moving v, for f = theta^2/2.

    The basin has half width 1. In the paper m and v move at the rates b1 and b2; in the algorithm
    the rates are 1-b1 and 1-b2. The root of v is kept in (0.1, 10), as Assumption 3 requires,
    since near the minimum it would vanish.
    """
    low, high = 0.1, 10.0
    found = []
    rates = {"as printed": (BETA1, BETA2), "the algorithm's": (1 - BETA1, 1 - BETA2)}
    for i, (name, (rate1, rate2)) in enumerate(rates.items()):
        alpha, upsilon = columns([(a, 0.02) for a in ALPHAS], trajectories)
        # The same noise for both methods.
        theta = torch.zeros(2, *alpha.shape, dtype=torch.float64)
        m, v = torch.zeros_like(theta), torch.full_like(theta, low**2)
        exits = Exits(theta.shape)
        steps = round(time / STEP)
        for step in range(steps):
            root = v.sqrt().clamp(low, high)
            k = torch.stack([theta[0], m[1]])  # the gradient in Adam, m in AdaMomentum
            noise = upsilon * STEP ** (1 / alpha) * stable(alpha, random)
            theta, m, v = (
                theta - STEP * m / root + noise / root,
                m + STEP * rate1 * (theta - m),
                v + STEP * rate2 * (k * k - v),
            )
            exits.pass_time(STEP, theta.abs() < 1)
            tick((i + step / steps) / len(rates))
        means = exits.mean()
        n = len(ALPHAS)
        found += [
            {"rates": name, "alpha": a, "adam": means[j], "adamomentum": means[n + j]}
            for j, a in enumerate(ALPHAS)
        ]
    return found


def longer(case: Numbers, ours: str = "adamomentum") -> bool | None:
    """Whether AdaMomentum stays longer than Adam. None if the intervals overlap."""
    a, b = case[ours], case["adam"]
    if b["high"] is not None and a["low"] > b["high"]:
        return True
    if a["high"] is not None and b["low"] > a["high"]:
        return False
    return None


@list_findings
def judge(numbers: Numbers) -> Iterator[Finding]:
    """Judge the lemma's scaling, the preference for flat basins, the proposition and assumption."""
    scaling, algorithm = numbers["scaling"], numbers["algorithm"]
    right = max(abs(s["upsilon_exponent"][0] - 1) for s in scaling) < 0.25
    near = max(abs(s["upsilon_exponent"][0] + s["alpha"]) for s in scaling) < 0.25
    yield Finding(
        "The mean escaping time is of the order of upsilon / m(set) (Lemma 1).",
        "holds" if right else "holds only when",
        "upsilon^(tail+1) is of the order of the tail index, which the lemma assumes and which "
        "ties the two together (not simulated). At a fixed tail index the fitted exponents of "
        f"upsilon are {_exponents(scaling, 'upsilon_exponent')} instead of 1"
        + (": minus the tail index, as single jumps predict." if near else "."),
    )
    near = max(abs(s["width_exponent"][0] - s["alpha"]) for s in scaling) < 0.25
    yield Finding(
        "It is inversely proportional to the measure of the escaping set, here the half width "
        "to the power of minus the tail index.",
        "holds" if near else "does not hold",
        "Fitted exponents of the width: " + _exponents(scaling, "width_exponent") + ".",
    )
    kinds = {(c["basin"], c["alpha"]): c for c in algorithm if c["basin"] != "broad"}
    pairs = list(product(("adam", "adamomentum"), TAILS, ("flat", "asymmetric")))
    unlike = [
        f"{LABELS[key]}, {name}, {a:g}"
        for key, a, name in pairs
        if (high := kinds["sharp", a][key]["high"]) is None or high >= kinds[name, a][key]["low"]
    ]
    good = len(pairs) - len(unlike)
    case = [kinds[name, 1.5] for name in BASINS]
    yield Finding(
        "Both methods leave sharp basins sooner than flat and asymmetric ones.",
        word_for(good, len(pairs)),
        f"Of basins of one height, so it was in {good} of {len(pairs)} comparisons"
        + (f" (not, or not certainly: {'; '.join(unlike)})" if unlike else "")
        + f". At tail index 1.5 Adam leaves after {_times(case, 'adam')}, AdaMomentum after "
        f"{_times(case, 'adamomentum')} steps (sharp, flat, asymmetric).",
    )
    yield from _proposition(numbers)


def _proposition(numbers: Numbers) -> Iterator[Finding]:
    """Judge which method stays longer in flat basins, and where the assumption holds."""
    cases = numbers["algorithm"]
    flat = [c for c in cases if min(c["h"]) <= FLAT]
    # Below tail index 2 the mean squared noise is infinite, so the assumption is undefined.
    sound = [c for c in cases if c["alpha"] == 2 and c["assumption"] is not None]
    held = [c for c in sound if c["assumption"] >= 1]
    for ours, text in (
        ("adamomentum", "AdaMomentum stays longer than Adam in flat basins (Proposition 1)."),
        ("translated", "The same at an lr that is translated (lr / 4.36)."),
    ):
        more, less = (sum(longer(c, ours) is want for c in flat) for want in (True, False))
        sharp = [sum(longer(c, ours) is want for c in held) for want in (True, False)]
        yield Finding(
            text,
            "does not hold" if not more else "holds" if not less else "holds only when",
            f"In flat and asymmetric basins (h lr / sigma at most {FLAT} on a side) it stays "
            f"longer in {more} of {len(flat)} cases, shorter in {less}; in the others the "
            f"intervals overlap. Assumption 5 held in {sum(c in held for c in flat)} of those with "
            f"normal noise. It held in {len(held)} sharper basins: longer in {sharp[0]}, shorter "
            f"in {sharp[1]} of them.",
        )
    least = min((max(c["h"]) for c in held), default=None)
    yield Finding(
        "The gradient noise is small beside the momentum (Assumption 5).",
        word_for(len(held), len(sound)),
        f"With normal noise it held in {len(held)} of {len(sound)} cases"
        + (f", all with h lr / sigma of at least {least:g}: steps far too long for the basin"
           if least is not None else "")
        + f". In the others it fell to {min(c['assumption'] for c in sound):.2g} of what is "
        f"needed; independent noise alone gives {PURE_NOISE:.3f}, 23 times too little.",
    )  # fmt: skip


def _exponents(scaling: list[Numbers], key: str) -> str:
    return ", ".join(f"{s[key][0]:.2f} ± {s[key][1]:.2f} at {s['alpha']}" for s in scaling)


def _times(cases: list[Numbers], key: str) -> str:
    return ", ".join(
        f"more than {c[key]['low']:.0f}" if c[key]["mean"] is None else f"{c[key]['mean']:.0f}"
        for c in cases
    )


def tables(numbers: Numbers) -> list[Table]:
    """Tabulate the scaling, the equation, and all cases of the algorithm."""
    three = ("mean", "low", "high")
    scaling = [
        Table(title, ("tail index", what, *three, "single jump"),
              [[s["alpha"], x, *(t[k] for k in three), p] for s in numbers["scaling"]
               for x, t, p in zip(xs, s[key], s[jumps], strict=True)])
        for title, what, xs, key, jumps in (
            ("Equation with v at rest: mean exit time (95 %) over upsilon; the jumps' prediction",
             "upsilon", UPSILONS, "upsilon", "single_jump"),
            (f"The same over the half width of the basin, upsilon {UPSILON}",
             "half width", WIDTHS, "width", "single_jump_width"),
        )
    ]  # fmt: skip
    return [
        *scaling,
        Table(
            "The whole equation of section 3.2: mean exit time (95 %), upsilon 0.02",
            ("rates of m and v", "tail index", "Adam", "low", "high", "AdaMomentum", "low", "high"),
            [[e["rates"], e["alpha"], *(e[m][k] for m in ("adam", "adamomentum") for k in three)]
             for e in numbers["equation"]],
        ),
        Table(
            "The algorithm: mean exit time in steps (95 %); Assumption 5 holds from 1 on",
            ("basin", "tail index", "h lr / sigma", "half width / lr",
             *(f"{LABELS[m]}{what}" for m in METHODS for what in ("", ": low", ": high")),
             "Assumption 5"),
            [[c["basin"], c["alpha"], _both(c["h"]), _both(c["width"]),
              *(c[m][k] for m in METHODS for k in three), c["assumption"]]
             for c in numbers["algorithm"]],
        ),
    ]  # fmt: skip


def _both(pair: list[float]) -> str:
    left, right = pair
    return f"{left:.3g}" if left == right else f"{left:.3g} and {right:.3g}"


def draw(numbers: Numbers, figure: Figure) -> None:
    """Draw the scaling with the lemma's curve, the basins, and the ratio of the two methods."""
    (by_noise, by_width), (basins, ratio) = figure.subplots(2, 2)
    shades = ("#56b4e9", "#0072b2", "#003f63")
    for s, colour in zip(numbers["scaling"], shades, strict=True):
        for axes, x, key in ((by_noise, UPSILONS, "upsilon"), (by_width, WIDTHS, "width")):
            mean = [t["mean"] or math.nan for t in s[key]]
            bars = [
                [m - t["low"] for m, t in zip(mean, s[key], strict=True)],
                [(t["high"] or math.nan) - m for m, t in zip(mean, s[key], strict=True)],
            ]
            axes.errorbar(x, mean, bars, fmt="o", ms=4, color=colour,
                          label=f"tail index {s['alpha']}")  # fmt: skip
        by_noise.plot(UPSILONS, s["single_jump"], "--", color=colour, linewidth=1)
        by_width.plot(WIDTHS, s["single_jump_width"], "--", color=colour, linewidth=1)
    middle = numbers["scaling"][1]["upsilon"][2]["mean"] or 1.0
    by_noise.plot(UPSILONS, [middle * u / UPSILONS[2] for u in UPSILONS], color=COLOURS["adam"],
                  label=r"the lemma's $\Theta(\upsilon)$")  # fmt: skip
    by_noise.set(xscale="log", yscale="log", xlabel=r"$\upsilon$", ylabel="mean exit time",
                 title="Equation, v at rest (dashed: single jumps)")  # fmt: skip
    by_width.set(xscale="log", yscale="log", xlabel="half width of the basin",
                 title="The same, over the width")  # fmt: skip
    by_noise.legend()
    colours = COLOURS | {"translated": "#009e73"}
    kinds = [c for c in numbers["algorithm"] if c["basin"] != "broad"]
    for k, method in enumerate(METHODS):
        for i, case in enumerate(kinds):
            found, at = case[method], i + 0.22 * (k - 1)
            high = found["high"] or found["low"]
            basins.plot([at, at], [found["low"], high], color=colours[method])
            y, mark, size = (found["mean"], "o", 4) if found["mean"] else (found["low"], "^", 5)
            basins.plot(at, y, mark, ms=size, color=colours[method])
        basins.plot([], [], color=colours[method], label=LABELS[method])
    basins.set_xticks(range(len(kinds)),
                      [f"{c['basin'][:5]}\n{c['alpha']}" for c in kinds], fontsize=8)  # fmt: skip
    basins.set(yscale="log", title="Algorithm: basins of one height, by tail index (▲: at least)",
               ylabel="steps")  # fmt: skip
    basins.legend()
    marks = dict(zip(BROAD, "v^osD", strict=True))
    for case in numbers["algorithm"]:
        a, b = case["adamomentum"], case["adam"]
        if case["basin"] != "broad" or not case["assumption"] or not (a["exits"] or b["exits"]):
            continue
        certain = bool(a["mean"] and b["mean"])  # otherwise the lower limit replaces a mean
        ratio.plot(case["assumption"], (a["mean"] or a["low"]) / (b["mean"] or b["low"]),
                   marks[case["width"][0]], ms=5, alpha=0.85,
                   color=shades[TAILS.index(case["alpha"])],
                   fillstyle="full" if certain else "none")  # fmt: skip
    for a, colour in zip(TAILS, shades, strict=True):
        ratio.plot([], [], "o", color=colour, label=f"tail index {a:g}")
    ratio.axhline(1, color="0.4", linewidth=0.8)
    ratio.axvline(1, color="0.4", linewidth=0.8, linestyle=":")
    ratio.set(xscale="log", yscale="log", ylabel="AdaMomentum's time over Adam's",
              xlabel="Assumption 5: right of the dotted line it holds",
              title="Who stays longer? (hollow: Adam never left, at most)")  # fmt: skip
    ratio.legend()


CLAIM = TheoryClaim(
    name="escape",
    title="Escaping from basins",
    place="section 3.2, Lemma 1 and Proposition 1",
    says="""Modelled by an equation with Levy noise, both methods leave a basin after a mean time of
    the order of upsilon / m(set). So they leave sharp basins soon and prefer flat or asymmetric
    ones. If the noise is small compared with the momentum (Assumption 5), AdaMomentum stays longer
    than Adam in a flat or asymmetric basin, so it ends in minima that generalise better.""",
    done="""The equation was simulated by the Euler-Maruyama scheme, with v at rest, which is the
    lemma's limit, and with moving v. Then thousands of trajectories of the optimizers themselves
    were simulated in basins with stable gradient noise: sharp, flat and asymmetric basins of one
    height, and a grid of curvatures and widths from noise-dominated to nearly noise-free. Time
    counts from when the averages are those of a long stay. Both sides of Assumption 5 were measured
    in each case.""",
    compute=compute, judge=judge, tables=tables, draw=draw,
    notes="""
    Assumption 5 requires E[noise^2] <= b1 E[m^2]/(2-b1), so E[m^2] must be at least 1.22 E[noise^2]
    at beta1 0.9. Independent noise alone gives E[m^2] = 0.053 E[noise^2]. The assumption then fails
    by a factor of 23, and the conclusion reverses, since AdaMomentum's steps are 4.36 times as long
    as Adam's.

    The proof of the proposition lets the true gradient vanish at the minimum. Its own recursion
    then gives the factor 0.053, so the assumption fails in the limit that the proof uses.

    With a tail index below 2 the mean of the squared noise is infinite, and the assumption is
    undefined. The page then shows the ratio of the sums over the trajectories.

    In the same proof the last inequality between the two Radon measures has the wrong sign.

    In the paper's equation m and v move at the rates b1 and b2; in the algorithm the rates are 1-b1
    and 1-b2. Both were simulated without bias corrections, with the true gradient as Adam's k (the
    equation's m has no noise either), and with the root of v kept within (0.1, 10). In the
    equation, too, AdaMomentum leaves sooner; see the table.

    The lemma's upsilon / m(set) holds only on the curve where upsilon^(tail+1) is of the order of
    the tail index, which it assumes. At a fixed tail index, the exponent of upsilon is minus the
    tail index.

    The intervals assume exponential exit times, which is right after a long stay. For times of a
    few steps they are a rough guide.

    Dividing by the root of v bounds the steps of the algorithm, however large a gradient is. The
    jumps of the equation have no such bound.
    """,
)  # fmt: skip
