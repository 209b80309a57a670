"""Test the regret theorem on online convex problems with a known best point."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import TYPE_CHECKING, Any

from adamomentum_paper.theory import Figure, Numbers, Size, Table, TheoryClaim, Tick, _adversary
from adamomentum_paper.theory._bounds import horizons
from adamomentum_paper.theory._online import (
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
from adamomentum_paper.theory._regret import FORMS, average, bound, cases, grid, judge, rates_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAIN = ALPHAS.index(0.01)  # the alpha of the figure
COLOURS = {"quadratic": "#0072b2", "digits": "#d55e00", "sparse": "#009e73"}
# Rounds of the streams, seeds, rounds of the adversary.
_SIZES = {"smoke": (300, 3, 600), "default": (20_000, 5, 120_000), "paper": (60_000, 5, 1_200_000)}


def compute(size: Size, tick: Tick) -> Numbers:
    """Play every stream with both forms, and the cases that are made to break the theorem."""
    rounds, seeds, adversary = _SIZES[size]
    ends = horizons(rounds)
    numbers: Numbers = {"rounds": rounds, "seeds": seeds, "horizons": ends, "streams": {}}
    parts = 2 * len(STREAMS) + 1
    made = {name: make(rounds, seeds) for name, make in STREAMS.items()}
    for done, ((name, stream), form) in enumerate(product(made.items(), FORMS)):
        records = numbers["streams"].setdefault(name, {"dimension": stream.dimension})
        play = Play(stream, amsgrad=form == "amsgrad")
        records[form] = []
        for t in range(1, rounds + 1):
            play.step()
            if t in ends:
                records[form].append(play.so_far())
                tick((done + t / rounds) / parts)
    numbers["far"] = _far()
    numbers["alternating"] = _alternating()
    numbers["adversary"] = _adversary.play(adversary, lambda part: tick((parts - 1 + part) / parts))
    return numbers


def _far() -> Numbers:
    """Play a stream with a distant best point, to test D_inf as the paper defines it."""
    play = Play(Far(), amsgrad=True, alphas=(0.001,), decays=(DECAY,))
    for _ in range(100):
        play.step()
    found = {key: value[0][0][0] for key, value in play.so_far().items()}
    return found | {"rounds": 100, "alpha": 0.001, "point": Far.point}


def _alternating() -> Numbers:
    """Compute both sides of a step in the proof by hand, for gradients 1, -1.2 and beta1 0.9."""
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


def tables(numbers: Numbers) -> list[Table]:
    """Tabulate regret and bounds, the adversary, and the corollary."""
    summary = []
    for name, schedule, alpha in product(STREAMS, SCHEDULES, ALPHAS):
        rates = rates_of(numbers, name, schedule, alpha)
        for form, label in FORMS.items():
            mean = _means(numbers, name, form, schedule, alpha)[-1]
            corollary = mean["printed"] if schedule == "decaying" else None
            fit = (rates["regret"], rates["half"]) if form == "amsgrad" else (None, None)
            summary.append(
                [name, schedule, alpha, label, mean["regret"], mean["bound"], mean["short"],
                 corollary, mean["distance"], mean["iterates_distance"], *fit]
            )  # fmt: skip
    by_horizon = [
        [name, mean["rounds"], *(mean[key] / mean["rounds"] for key in _CURVES)]
        for name in STREAMS
        for mean in _means(numbers, name, "amsgrad", "decaying", ALPHAS[MAIN])
    ]
    foe = numbers["adversary"]
    return [
        Table(
            f"After {numbers['rounds']:,} rounds, means over {numbers['seeds']} seeds; betas "
            f"{BETA1}, {BETA2}, eps {EPS:g}",
            ("stream", "beta1", "alpha", "form", "R(T)", "theorem's bound",
             "with the shorter lemma", "corollary x T", "largest distance to the best point",
             "between iterates", "exponent of R(T)/T", "half its 95 % interval"),
            summary,
        ),
        Table(
            f"By rounds: AMSGrad form, decaying beta1, alpha {ALPHAS[MAIN]:g}",
            ("stream", "T", "R(T)/T", "theorem's bound / T", "with the shorter lemma / T",
             "corollary"),
            by_horizon,
        ),
        Table(
            f"Streams C theta, -theta, ... on [-1, 1] after {foe['rounds'][-1]:,} rounds: regret "
            "as a part of the worst point's",
            ("C comes", "C", *(f"{label}: {what}" for label in FORMS.values()
                               for what in ("part", "R(T) / bound", "last point", "t v falls"))),
            [[name, foe["large"][i],
              *(foe[form][key][-1][i] if key in ("part", "of_bound") else foe[form][key][i]
                for form in FORMS for key in ("part", "of_bound", "end", "fell_much"))]
             for i, name in enumerate(foe["settings"])],
        ),
        Table(
            "The corollary's bound on R(T)/T for d = G = D_inf = 1, alpha 0.01, lambda 0.99",
            ("T", "eps", "as printed", "as derived"),
            [list(cell) for cell in grid()],
        ),
    ]  # fmt: skip


_CURVES = ("regret", "bound", "short", "printed")


def _means(
    numbers: Numbers, stream: str, form: str, schedule: str, alpha: float
) -> list[dict[str, Any]]:
    """Return regret and bounds by horizon, as means over seeds."""
    kept: dict[int, list[dict[str, Any]]] = {rounds: [] for rounds in numbers["horizons"]}
    for case in cases(numbers, form, stream=stream, schedule=schedule, alpha=alpha):
        case |= {"bound": bound(case), "short": bound(case, short=True)}
        kept[case["rounds"]].append(case | {"printed": average(case).printed() * case["rounds"]})
    keys = (*_CURVES, "distance", "iterates_distance", "fell", "fell_much")
    return [
        {key: sum(case[key] for case in seeds) / len(seeds) for key in keys} | {"rounds": rounds}
        for rounds, seeds in kept.items()
    ]


def draw(numbers: Numbers, figure: Figure) -> None:
    """Draw regret with its bounds, exponents by schedule, falling v, and the adversary."""
    (regrets, schedules), (falls, foe) = figure.subplots(2, 2)
    for name, colour in COLOURS.items():
        means = _means(numbers, name, "amsgrad", "decaying", ALPHAS[MAIN])
        rounds = [mean["rounds"] for mean in means]
        for key, style in zip(_CURVES, ("-", "--", ":", "-."), strict=True):
            values = [mean[key] / mean["rounds"] for mean in means]
            regrets.loglog(rounds, values, style, color=colour)
        for form, key, style in (
            ("algorithm1", "fell", "-"), ("algorithm1", "fell_much", ":"), ("amsgrad", "fell", "--")
        ):  # fmt: skip
            means = _means(numbers, name, form, "constant", ALPHAS[MAIN])
            falls.semilogx(rounds, [mean[key] for mean in means], style, color=colour)
    _key(regrets, zip(
        ("R(T)/T", "theorem's bound", "with the shorter lemma", "corollary"),
        ("-", "--", ":", "-."), strict=True,
    ))  # fmt: skip
    regrets.set(
        title=f"Average regret and its bounds (AMSGrad form, alpha {ALPHAS[MAIN]:g})",
        xlabel="rounds T", ylim=(None, 1e14),
    )  # fmt: skip
    for schedule, colour in (("decaying", "#0072b2"), ("constant", "#d55e00")):
        means = _means(numbers, "digits", "amsgrad", schedule, ALPHAS[MAIN])
        for key, style, what in (("regret", "-", "R(T)/T"), ("bound", "--", "theorem's bound / T")):
            values = [mean[key] / mean["rounds"] for mean in means]
            schedules.loglog(rounds, values, style, color=colour, label=f"beta1 {schedule}: {what}")
    schedules.set(title="Digits: with constant beta1 the bound grows", xlabel="rounds T")
    schedules.legend(loc="center left")
    _key(falls, (("Algorithm 1: v falls", "-"), ("AMSGrad form: v falls", "--"),
                 ("Algorithm 1: t v falls", ":")))  # fmt: skip
    falls.axvline(1 / (1 - BETA2), color="0.7", linewidth=0.8)
    falls.set(
        title="Part of steps and coordinates where v falls, up to T",
        xlabel="rounds T (grey: 1/(1-beta2))", ylim=(-0.03, 1.25),
    )  # fmt: skip
    colours = ("#0072b2", "#56b4e9", "#009e73", "#d55e00", "#cc79a7")
    data = numbers["adversary"]
    for i, (name, colour) in enumerate(zip(data["settings"], colours, strict=True)):
        for form, style in (("algorithm1", "-"), ("amsgrad", "--")):
            values = [max(part[i], 1e-4) for part in data[form]["part"]]
            label = name if form == "algorithm1" else None
            foe.semilogy(data["rounds"], values, style, color=colour, label=label)
    foe.set(
        title="C theta, -theta, ...: regret / that of the worst point",
        xlabel="rounds T (solid: Algorithm 1, dashed: AMSGrad form)", ylim=(None, 60),
    )  # fmt: skip
    foe.legend(loc="upper right", ncols=2, fontsize=7.5)


def _key(axes: Axes, styles: Iterable[tuple[str, Any]]) -> None:
    """Colours are streams, line styles what is said here."""
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], color=colour, label=name) for name, colour in COLOURS.items()]
    lines += [Line2D([], [], color="0.3", linestyle=style, label=what) for what, style in styles]
    axes.legend(handles=lines, ncols=2)


CLAIM = TheoryClaim(
    name="regret",
    title="The regret of AdaMomentum on convex problems",
    place="section 4.1, Theorem and Corollary; appendix, their proofs",
    says="""On convex online problems, with alpha_t = alpha/sqrt(t), v_t <= v_{t+1} and
    beta_{1,t} <= beta1, the regret R(T) against the best fixed point is at most a bound of order
    sqrt(T), up to logarithms; with beta_{1,t} = beta1 lambda^t the average regret converges to zero
    like 1/sqrt(T).""",
    done=f"""Three streams whose best point is known exactly: quadratics (mean), logistic regression
    on real images of digits (Newton's method), absolute loss on sparse features (medians); with the
    rule of the theorem, without bias correction, in Algorithm 1's and in the AMSGrad form, for
    three alphas, beta1 = {BETA1} constant or times {DECAY}^t, beta2 = {BETA2}. R(T) uses the best
    point of these T rounds. The theorem's bound has the measured v, gradients and distances; the
    corollary's has the largest gradient. Then linear streams on [-1, 1] after Reddi et al. (2018),
    with projection, made so that v forgets the gradient that matters.""",
    compute=compute, judge=judge, tables=tables, draw=draw,
    notes="""
    The theorem bounds the distances between iterates by D_inf, but its proof uses the distances to
    the best point. Here D_inf is the latter, unless the page says 'as printed'.

    The theorem requires v_t <= v_{t+1}. Algorithm 1 does not ensure this; the AMSGrad form does.

    The proof replaces 1/(1-beta_{1,t}) by the larger 1/(1-beta1) in front of differences that may
    be negative. If beta_{1,t} never grows, as here, the sum can be rearranged so that the bound
    holds. The theorem allows any beta_{1,t} up to beta1.

    The theorem sets beta_{1,1} = beta1, the corollary sets beta_{1,1} = beta1 lambda. This page
    follows the corollary.

    The corollary prints eps/1-beta2 for eps/(1-beta2). The line before it in the proof has
    1/sqrt(T) where the sum of the norms gives sqrt(T): that term is already divided by T, the
    others are not. The corollary itself is right in this.

    The induction in the corollary's proof announces v <= G_inf, but shows v <= G_inf^2 +
    eps/(1-beta2).

    The corollary requires gradients that are bounded everywhere, which excludes quadratics. Its
    proof uses only the gradients at the iterates. This page uses the largest of these.

    The 'shorter lemma' is ours, not the paper's.

    The theorems and this page omit bias correction. The first step is then alpha/sqrt(1-beta2), or
    32 alpha, which adds to the early regret.

    The iterates on streams on [-1, 1] are projected, coordinate by coordinate. The theorem has no
    projection, but its proof allows it. With the default betas Algorithm 1 failed only if the large
    gradients were far apart.

    These streams, and their alphas, were chosen from several that were tried, to show the failure.
    They are examples, not a sample. With a larger alpha and constant beta1, which the corollary
    does not cover, the AMSGrad form failed on one of them too.

    The sparse stream has features in 1/i^2 of the rounds. With 1/i, which was tried first, both
    sums were above sqrt(d) and sqrt(dT).
    """,
)  # fmt: skip
