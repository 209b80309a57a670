"""Test the non-convex theorem: the mean squared gradient, its bound, and its conditions."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from adamomentum_lab.stats.estimates import Estimate
from adamomentum_paper.theory import Figure, Finding, Numbers, Table, TheoryClaim, Word
from adamomentum_paper.theory._bounds import Smooth, rate
from adamomentum_paper.theory._findings import word_for
from adamomentum_paper.theory._nonconvex import (
    DIMENSION,
    FUNCTIONS,
    NOISE,
    QUIET,
    SETTINGS,
    SHORT,
    admitted,
    compute,
    smooth,
)

ADMITTED = [j for j, setting in enumerate(SETTINGS) if setting.alpha is None]
PRACTICE = [j for j, setting in enumerate(SETTINGS) if setting.alpha is not None]
EPS = (1.0, 1e-2, 1e-4, 1e-8, 1e-16)
BETA2 = (0.9, 0.999)
GROUPS = 8  # groups of trajectories; each is fitted separately
COLOURS = ("#0072b2", "#56b4e9", "#e69f00", "#d55e00", "#cc79a7")


def bounds(numbers: Numbers, i: int, j: int) -> list[float]:
    """Return the bounds of function i in setting j, by horizon."""
    made_of = smooth(list(FUNCTIONS)[i], SETTINGS[j])
    gap, squared = numbers["gap"][i], numbers["squared"][i]
    alpha = numbers["alphas"][i][j]
    return [
        made_of.bound(steps, alpha, gap, squared, NOISE**2 * DIMENSION)
        for steps in numbers["horizons"]
    ]


def _means(numbers: Numbers, i: int, j: int) -> list[Estimate]:
    """Return means over trajectories with 95 % intervals, by horizon."""
    return [Estimate.of(averages[i][j]) for averages in numbers["averages"]]


def _fit(numbers: Numbers, i: int, j: int) -> Estimate:
    """Fit the exponent over the last one and a half decades, as a mean over groups."""
    groups = ([np.mean(a[i][j][group::GROUPS]) for a in numbers["averages"]]
              for group in range(GROUPS))  # fmt: skip
    return Estimate.of([rate(numbers["horizons"], means) for means in groups])


def _allowed(numbers: Numbers) -> float:
    """Fit the exponent of log(T)/sqrt(T) over the same steps."""
    steps = numbers["horizons"]
    return rate(steps, [math.log(t) / math.sqrt(t) for t in steps])


def _root_slope(numbers: Numbers, i: int, j: int) -> float:
    """Fit the exponent of the mean of sqrt(v) over the same steps."""
    return rate(numbers["horizons"], [roots[i][j] for roots in numbers["roots"]])


def judge(numbers: Numbers) -> list[Finding]:
    """Judge the bound, its conditions, its rate and its constants."""
    return [
        _bound(numbers),
        _mild(),
        _rate(numbers),
        _practice(numbers),
        _printed_b_l(numbers),
        _printed_bound(numbers),
        _q2(),
        _dimension(numbers),
    ]


def _ratios(numbers: Numbers, i: int, j: int) -> list[float]:
    """Return the upper ends of the measured intervals over the bound, by horizon."""
    ends = [(e.mean or 0.0) + (e.half or 0.0) for e in _means(numbers, i, j)]
    return [end / limit for end, limit in zip(ends, bounds(numbers, i, j), strict=True)]


def _bound(numbers: Numbers) -> Finding:
    pairs = list(product(range(len(FUNCTIONS)), ADMITTED))
    worst = max(max(_ratios(numbers, i, j)) for i, j in pairs)
    last = [1 / _ratios(numbers, i, j)[-1] for i, j in pairs]
    trivial = [
        bounds(numbers, i, j)[-1] / (DIMENSION * f.largest**2)
        for (i, f), j in product(enumerate(FUNCTIONS.values()), ADMITTED)
    ]
    says = sum(part < 1 for part in trivial)
    return Finding(
        "Under its conditions, the mean of |grad f|^2 is at most (Q1 + Q2 eta(T))/(alpha_T (T+1)).",
        "holds" if worst <= 1 else "does not hold",
        f"With the proof's constants it was at most {worst:.2g} of the bound; after "
        f"{numbers['steps']:,} steps the bound is {min(last):.0f} to {max(last):.0f} times the "
        f"mean. It says more than |f'| <= G does in {says} of {len(pairs)} cases; in the others it "
        f"is up to {max(trivial):.0f} times d max f'^2.",
    )


def _mild() -> Finding:
    small, large = admitted(1e-16), admitted(1.0)
    word: Word = "holds" if small["alpha"] >= 1e-3 else "holds only when"
    if large["alpha"] < 1e-3:
        word = "does not hold"
    return Finding(
        "The conditions on the step size are mild and reasonable.",
        word,
        f"eps is of order 1, far from practice. For L = G = 1 and beta2 0.999 they admit alpha up "
        f"to {large['alpha']:.2g} at eps 1, and {small['alpha']:.1g} at the default 1e-16: in "
        f"100,000 steps a coordinate moves by less than {small['path']:.0e}, and the bound says "
        f"nothing before T = {small['informative']:.0e}. A later T_0 relaxes only one of the two "
        f"conditions; with alpha_t and 1-beta_{{1,t}} both of order 1/sqrt(t) the other forbids "
        f"alpha above {small['coupled']:.1g} at every t.",
    )


Fits = dict[tuple[int, int], Estimate]  # by function and setting


def _fits(numbers: Numbers, settings: list[int]) -> tuple[Fits, list[tuple[int, int]], Word]:
    """Return exponents in some settings, those as steep as log(T)/sqrt(T), and the verdict."""
    fits = {(i, j): _fit(numbers, i, j) for i in range(len(FUNCTIONS)) for j in settings}
    allowed = _allowed(numbers)
    fast = [key for key, fit in fits.items() if (fit.mean or 0) - (fit.half or 0) <= allowed]
    return fits, fast, word_for(len(fast), len(fits))


def _rate(numbers: Numbers) -> Finding:
    fits, _, word = _fits(numbers, ADMITTED)
    return Finding(
        "With alpha_t and 1-beta_{1,t} of order 1/sqrt(t), the mean of |grad f|^2 falls like "
        "log(T)/sqrt(T).",
        word,
        f"{'T is long enough for the start to be left. ' if word == 'holds only when' else ''}"
        f"Exponents over the last one and a half decades, where that of log(T)/sqrt(T) is "
        f"{_allowed(numbers):.2f}: {_in_words(fits)}. With beta2 0.999 the admitted alpha hardly "
        f"moves the iterates in {numbers['steps']:,} steps; the bound is far above all of them.",
    )


def _practice(numbers: Numbers) -> Finding:
    fits, fast, word = _fits(numbers, PRACTICE)
    roots = [_root_slope(numbers, i, j) for i, j in fits if _is_slow(j)]
    slow = [key for key in fits if _is_slow(key[1]) and key not in fast]
    why = (
        f" At alpha 0.1 the corollary's schedule is slower, for a reason: with 1-beta_{{1,t}} = "
        f"1/sqrt(t) the noise of m falls like t^(-1/4), sqrt(v) with it (measured exponents "
        f"{min(roots):.2f} to {max(roots):.2f}), so that alpha_t/sqrt(v_t), and |grad f|^2 with "
        f"it, fall only like t^(-1/4). An average of g^2 would not fall."
    )
    return Finding(
        "The same rate with the default eps, outside the conditions (not claimed by the theorem).",
        word,
        f"{'beta1 is constant, or the start still counts. ' if word == 'holds only when' else ''}"
        f"Exponents: {_in_words(fits)}.{why if slow and max(roots) < -0.2 else ''}",
    )


def _is_slow(j: int) -> bool:
    """Whether noise dominates the start, and beta1 grows."""
    return SETTINGS[j].alpha == 0.1 and not SETTINGS[j].constant


def _in_words(fits: Fits) -> str:
    names, groups = list(FUNCTIONS), dict[str, list[str]]()
    for (i, j), fit in fits.items():
        if fit.mean is not None and fit.half is not None:
            words = f"{fit.mean:.2f}±{fit.half:.2f} ({names[i]})"
            groups.setdefault(SETTINGS[j].name, []).append(words)
    return "; ".join(f"{name}: {', '.join(words)}" for name, words in groups.items())


def _printed_b_l(numbers: Numbers) -> Finding:
    found = dict(zip(SHORT, numbers["constant_gradient"], strict=True))
    fails = [t for t in SHORT if found[t] < QUIET.b_l(t, printed=True) * (1 - 1e-9)]
    proof = all(found[t] >= QUIET.b_l(t) * (1 - 1e-9) for t in SHORT)
    return Finding(
        "1/sqrt(v_t) >= b_{l,t} as the theorem prints it.",
        "does not hold" if fails else "holds",
        f"For gradients of 1, eps 1 and beta2 0.999, 1/sqrt(v) after 100 steps is "
        f"{found[100]:.4f}, the printed b_l {QUIET.b_l(100, printed=True):.4f}: the factor "
        f"1-beta2^T stands beside the root instead of under it. After 10,000 steps they are "
        f"{found[10_000]:.4f} and {QUIET.b_l(10_000, printed=True):.4f}. The proof's b_l "
        f"{'was never above' if proof else 'was also above'} it.",
    )


def _printed_bound(numbers: Numbers) -> Finding:
    printed, derived = map(_short_ratios, numbers["short"])
    over = [t for t, ratio in zip(SHORT, printed, strict=True) if ratio > 1]
    word: Word = "holds only when" if over and printed[-1] <= 1 else "holds"
    return Finding(
        "The bound, with b_{l,t} as printed, holds for every T.",
        word if printed[-1] <= 1 else "does not hold",
        f"T is at least {min((t for t in SHORT if t > max(over, default=0)), default=0)}, of those "
        f"tried. On 1 - cos x from 0.1 without noise, eps 1, beta2 0.999 "
        f"and the largest alpha that the printed conditions admit, the mean of |grad f|^2 is "
        f"{printed[0]:.0f} times the bound at T = 1 and {printed[1]:.0f} times at T = 3, "
        f"{printed[2]:.2f} at T = 10. With the proof's b_l it is at most {max(derived):.2f} of it.",
    )


def _short_ratios(run: Numbers) -> list[float]:
    """Return means of |grad f|^2 of a short run over their bounds."""
    return [a / b for a, b in zip(run["averages"], run["bounds"], strict=True)]


def _q2() -> Finding:
    flat = Smooth(0.25, 0.75, 1.0, 0.9)
    alpha = flat.admissible(100_000)
    printed, derived = (
        # The difference with and without noise in Q2. The noise term of Q1 is subtracted as
        # `squared`.
        flat.bound(100_000, alpha, 0.0, 0.0, 0.25, printed_q2=p)
        - flat.bound(100_000, alpha, 0.0, 0.25, 0.0)
        for p in (True, False)
    )
    return Finding(
        "Q2 is what its proof derives.",
        "holds only when" if printed < derived else "holds",
        f"L = 1: it prints L where the derivation gives L^2, so that the printed bound is too "
        f"small for L < 1, and larger than need be for L > 1. For (1 - cos x)/4, with L = 1/4, the "
        f"noise terms of the bound are {printed:.3g} as printed and {derived:.3g} as derived (eps "
        f"1, beta2 0.9, T = 100,000).",
    )


def _dimension(numbers: Numbers) -> Finding:
    quiet = [QUIET.bound(10_000, 0.01, d * 1.0, d * 0.5, d * 0.25) for d in (1, 1_000)]
    mean = _means(numbers, 1, 3)[-1].mean or 0.0
    return Finding(
        "Q1 and Q2 do not depend on the dimension.",
        "holds only when" if quiet[1] > quiet[0] else "holds",
        f"f - min f, |grad f|^2 and sigma^2, of which they are made, do not. For a sum of d equal "
        f"functions all three are proportional to d, and so is the bound: "
        f"{quiet[1] / quiet[0]:.0f} times as large for 1,000 coordinates as for 1. So is what it "
        f"bounds, since coordinates do not interact: {mean:.3f} on 1-cos x at alpha 0.1 is "
        f"{mean / DIMENSION:.4f} for each.",
    )


def tables(numbers: Numbers) -> list[Table]:
    """Tabulate every run at the last horizon, by horizon, what is admitted, and short runs."""
    names = list(FUNCTIONS)
    last, by_horizon = [], []
    for (i, name), (j, setting) in product(enumerate(names), enumerate(SETTINGS)):
        measured, limits, fit = _means(numbers, i, j), bounds(numbers, i, j), _fit(numbers, i, j)
        last.append(
            [name, setting.name, numbers["alphas"][i][j], measured[-1].mean, measured[-1].half,
             limits[-1], fit.mean, fit.half, _root_slope(numbers, i, j)]
        )  # fmt: skip
        by_horizon += [
            [name, setting.name, steps, estimate.mean, limit]
            for steps, estimate, limit in zip(numbers["horizons"], measured, limits, strict=True)
            if math.log10(steps).is_integer()
        ]
    return [
        Table(
            f"Mean of |grad f|^2 over {numbers['steps']:,} steps, {numbers['trajectories']} "
            f"trajectories, d = {DIMENSION}",
            ("function", "setting", "alpha", "mean", "half its 95 % interval",
             "bound (outside its conditions but for 'admitted')", "exponent",
             "half its 95 % interval", "exponent of sqrt(v)"),
            last,
        ),
        Table(
            "What the conditions admit for L = G = 1",
            ("beta2", "eps", "alpha by (1-beta_{1,t+1}) A, any T_0",
             "alpha by b_l/(2 L b_u^2), T_0 = 0", "both", "longest path in 100,000 steps",
             "bound below max f'^2 from T ="),
            [[beta2, eps, *admitted(eps, beta2).values()] for beta2, eps in product(BETA2, EPS)],
        ),
        Table(
            "1 - cos x without noise, eps 1, beta2 0.999: mean of |grad f|^2 over bound; and "
            "1/sqrt(v) for gradients of 1",
            ("T", "alpha, printed b_l", "ratio, printed b_l", "alpha, proof's b_l",
             "ratio, proof's b_l", "1/sqrt(v_T)", "b_l as printed", "of the proof, step T+1"),
            [[t, *(x for run in numbers["short"]
                   for x in (run["alphas"][k], run["averages"][k] / run["bounds"][k])),
              numbers["constant_gradient"][k], QUIET.b_l(t, printed=True), QUIET.b_l(t)]
             for k, t in enumerate(SHORT)],
        ),
        Table(
            "By steps", ("function", "setting", "T", "mean of |grad f|^2", "bound"), by_horizon
        ),
    ]  # fmt: skip


def draw(numbers: Numbers, figure: Figure) -> None:
    """Draw the means by function, what is admitted, and short runs."""
    panels = figure.subplots(2, 3).flat
    steps = numbers["horizons"]
    for i, name in enumerate(FUNCTIONS):
        axes = next(panels)
        for j, (setting, colour) in enumerate(zip(SETTINGS, COLOURS, strict=True)):
            means = [e.mean for e in _means(numbers, i, j)]
            axes.loglog(steps, means, color=colour, label=setting.name)
            if j in ADMITTED:
                axes.loglog(steps, bounds(numbers, i, j), "--", color=colour)
        limit = [math.log(t) / math.sqrt(t) for t in steps]
        axes.loglog(steps, limit, ":", color="0.4", label="log(T)/sqrt(T)")
        axes.set(title=name, xlabel="T", ylim=(5e-3, 2e4))
    figure.axes[0].set_ylabel("mean of |grad f|^2 (dashed: bound)")
    axes = next(panels)
    axes.axis("off")
    axes.legend(*figure.axes[0].get_legend_handles_labels(), loc="center", fontsize=9.5)
    axes = next(panels)
    for key, style, label in (
        ("coupled", "s:", "by (1-beta1) A"), ("curvature", "o-", "by b_l/(2 L b_u^2)")
    ):  # fmt: skip
        values = [admitted(eps)[key] for eps in EPS]
        axes.loglog(EPS, values, style, color="#0072b2", label=label, markersize=4)
    axes.axhline(1e-3, color="#d55e00", label="the default, 0.001")
    axes.set(title="Largest alpha admitted (L = G = 1)", xlabel="eps")
    axes.legend()
    axes = next(panels)
    for run, colour, label in zip(
        numbers["short"], ("#d55e00", "#0072b2"), ("printed b_l", "the proof's b_l"), strict=True
    ):
        axes.loglog(SHORT, _short_ratios(run), "o-", color=colour, label=label, markersize=4)
    axes.axhline(1, color="0.6", linewidth=0.8)
    axes.set(title="Short runs: mean / bound", xlabel="T")
    axes.legend()


CLAIM = TheoryClaim(
    name="nonconvex",
    title="The convergence of AdaMomentum on non-convex problems",
    place="section 4.2, Theorem and Corollary; appendix, their proofs",
    says="""If the step sizes meet two conditions, the mean of |grad f|^2 over T steps is at most
    (Q1 + Q2 eta(T))/(alpha_T (T+1)), with constants that do not depend on d or T. With alpha_t and
    1-beta_{1,t} of order 1/sqrt(t) it falls like log(T)/sqrt(T). The conditions are called mild and
    reasonable.""",
    done=f"""AdaMomentum without bias correction minimised three separable functions
    with known L and G, from one starting point in {DIMENSION} dimensions. alpha_t is alpha/sqrt(t),
    and 1-beta_{{1,t}} is 1/sqrt(t). Every coordinate has noise of +-{NOISE}, so G and sigma are
    known. First alpha was the largest that the conditions admit at eps 1, for a small and the
    default beta2. Then eps had its default, outside the conditions. Bounds have the constants of
    the proof, unless the page says 'printed'.""",
    compute=compute, judge=judge, tables=tables, draw=draw,
    notes="""
    b_{l,t} in the theorem differs from b_{l,t} in its proof. The theorem has a factor 1-beta2^T
    beside the root, the proof has 1-beta2^t under it. The theorem has (1-beta^T)^2, the proof has
    (1-beta^T); this makes no difference here, since beta, the smallest beta_{1,t}, is 0.

    Q2 is printed with L, but its derivation gives L^2. The printed value is too small for L below
    1.

    The theorem assumes a bound on the true gradient, but its proof uses it for the noisy one. The
    paper does not define sigma. A finite sigma excludes the noise in the paper's section on flat
    minima, whose variance is infinite. Here both are known.

    The theorem counts from t = 0, where alpha/sqrt(t) is infinite. Here alpha_t is alpha/sqrt(t+1).
    The proof pairs m_{t+1} with v_t; the algorithm and this page pair it with v_{t+1}.

    At eps 1, v is nearly at its floor eps/(1-beta2) everywhere, and the method is nearly SGD with
    momentum. So the bound is informative only where adaptivity does little.

    That the rate tends to T^(-1/4) with the default eps is an argument, not a proof. The page
    measures the exponents of the mean and of sqrt(v).

    The bound is an upper bound: means that fall faster agree with it.
    """,
)  # fmt: skip
