"""The place of eps: inside the second moment, or outside the root."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import torch
from torch import Tensor, nn

from adamomentum_lab import contenders
from adamomentum_paper.theory import Figure, Finding, Numbers, Size, Table, TheoryClaim, Tick, Word
from adamomentum_paper.theory._drawing import COLOURS, NAMES
from adamomentum_paper.theory._findings import list_findings

LR, BETAS = 1e-3, (0.9, 0.999)
EPSS = (1e-8, 1e-16)  # the ends of the range the paper names
SIZES_OF_G = [10.0 ** (k / 2) for k in range(-40, 1)]  # constant gradients, 1e-20 to 1
# The same second moment, eps inside and outside.
PAIRS = {"momentum": ("adamomentum", "adamomentum-outer-eps"), "gradient": ("eadam", "adam")}
CURVATURE = 1.0
REST = 1e-12  # a smaller distance to the minimum counts as rest
# Steps with constant gradients; steps on the quadratic, replicas.
_SIZES = {
    "smoke": (1_000, 1_500, 50),
    "default": (8_000, 20_000, 100),
    "paper": (20_000, 100_000, 1_000),
}


def floor(eps: float) -> float:
    """Return the smallest divisor with eps inside: the root of the accumulated eps/(1-b2)."""
    return math.sqrt(eps / (1 - BETAS[1]))


def effective_step(name: str, eps: float, gradients: Tensor, steps: int) -> Tensor:
    """Return lr over the divisor after `steps` constant gradients."""
    param = nn.Parameter(torch.zeros_like(gradients))
    optimizer = contenders.get(name).build([param], lr=LR, betas=BETAS, eps=eps)
    for _ in range(steps):
        param.grad = gradients
        with torch.no_grad():
            param.zero_()  # the parameter then holds the last step exactly
        optimizer.step()
    return -param.detach() / gradients  # m_hat of constant gradients is the gradient


def accumulated(eps: float, steps: int, random: torch.Generator) -> float:
    """Return the largest relative deviation of v_hat - v_hat' from eps/(1-b2), over all steps."""
    # Gradients are about as large as the floor, so that rounding does not hide the difference.
    scale = floor(eps) * torch.logspace(-2, 2, 9, dtype=torch.float64)
    runs = []
    for inside in (eps, 0.0):
        param = nn.Parameter(torch.zeros(9, dtype=torch.float64))
        build = contenders.get("adamomentum").build
        runs.append((param, build([param], lr=LR, betas=BETAS, eps=inside)))
    worst = 0.0
    for t in range(1, steps + 1):
        g = scale * torch.randn(9, generator=random, dtype=torch.float64)
        for param, optimizer in runs:
            param.grad = g
            optimizer.step()
        with_eps, without = (
            optimizer.state[param]["exp_avg_momentum_sq"] / (1 - BETAS[1] ** t)
            for param, optimizer in runs
        )
        expected = eps / (1 - BETAS[1])
        # If v is 10^4 times the part of eps, float64 leaves 12 digits of the difference.
        worst = max(worst, float(((with_eps - without) / expected - 1).abs().max()))
    return worst


def rest(name: str, eps: float, steps: int, replicas: int) -> float:
    """Return the largest distance to the minimum in the second half of a run (median of replicas).

    g = h x (1 + noise), as for a network that fits all its examples. Only the optimizer can prevent
    the iterates from coming to rest.
    """
    random = torch.Generator().manual_seed(3)
    x = nn.Parameter(torch.ones(replicas, dtype=torch.float64))
    optimizer = contenders.get(name).build([x], lr=LR, betas=BETAS, eps=eps)
    largest = torch.zeros(replicas, dtype=torch.float64)
    for step in range(steps):
        noise = torch.randn(replicas, generator=random, dtype=torch.float64)
        x.grad = CURVATURE * x.detach() * (1 + noise)
        optimizer.step()
        if step >= steps // 2:
            largest = torch.maximum(largest, x.detach().abs())
    return float(largest.median())


def compute(size: Size, tick: Tick) -> Numbers:
    """Compute the identity, the steps near a minimum, and the distance from rest."""
    constant, steps, replicas = _SIZES[size]
    random = torch.Generator().manual_seed(2)
    numbers: Numbers = {"constant": constant, "steps": steps, "replicas": replicas}
    numbers["identity"] = [{"eps": e, "worst": accumulated(e, 2_000, random)} for e in EPSS]
    tick(0.1)
    g = torch.tensor(SIZES_OF_G, dtype=torch.float64)
    inside, outside = PAIRS["momentum"]
    numbers["near"] = [
        {
            "eps": eps,
            "floor": floor(eps),
            "inside": effective_step(inside, eps, g, constant).tolist(),
            "outside": effective_step(outside, eps, g, constant).tolist(),
            "same_floor": effective_step(outside, floor(eps), g, constant).tolist(),
            "inside_limit": math.sqrt(1 - BETAS[1]) * LR / math.sqrt(eps),
            "outside_limit": LR / eps,
        }
        for eps in EPSS
    ]
    tick(0.3)
    numbers["rest"] = []
    cases = list(product(PAIRS.items(), EPSS))
    for i, ((squared, (ins, out)), eps) in enumerate(cases):
        places = {"inside": (ins, eps), "outside": (out, eps), "same_floor": (out, floor(eps))}
        ends = {key: rest(*place, steps, replicas) for key, place in places.items()}
        numbers["rest"].append({"squared": squared, "eps": eps, **ends})
        tick(0.3 + 0.7 * (i + 1) / len(cases))
    return numbers


@list_findings
def judge(numbers: Numbers) -> Iterator[Finding]:
    """Judge the identity, the limits, the gradients they need, and rest."""
    worst = max(case["worst"] for case in numbers["identity"])
    yield Finding(
        "After bias correction, eps inside adds exactly eps/(1-b2) to v, at every step.",
        "holds" if worst < 1e-8 else "does not hold",
        f"Largest relative deviation over 2,000 steps and 9 sizes of gradients: {worst:.1e}.",
    )
    limits = [
        abs(case[place][0] / case[f"{place}_limit"] - 1)
        for case in numbers["near"]
        for place in ("inside", "outside")
    ]
    reach = {
        case["eps"]: [_reach(case, place) for place in ("inside", "outside")]
        for case in numbers["near"]
    }
    yield Finding(
        "Near a minimum the effective steps are sqrt(1-b2) lr/sqrt(eps) with eps inside and "
        "lr/eps with eps outside.",
        "holds" if max(limits) < 0.01 else "does not hold",
        f"Within {max(limits):.1e} of both for gradients of {SIZES_OF_G[0]:g}. To within 10 % "
        + "; ".join(
            f"at eps {eps:g} up to gradients of {a:.1g} inside and {b:.1g} outside"
            for eps, (a, b) in reach.items()
        )
        + ".",
    )
    # How much longer and shorter steps are with eps outside at the same floor.
    pairs = [list(zip(c["same_floor"], c["inside"], strict=True)) for c in numbers["near"]]
    gains = [max(out / ins for out, ins in pair) for pair in pairs]
    equal = [max(ins / out for out, ins in pair) for pair in pairs]
    smaller = all(case["inside"][0] < 0.1 * case["outside"][0] for case in numbers["near"])
    small = numbers["near"][-1]
    yield Finding(
        "Moving eps inside makes the steps near a minimum much smaller.",
        # `much` smaller means at least by a factor of 2.
        "does not hold" if not smaller else "holds" if min(gains) > 2 else "holds only when",
        f"It is so if the same eps is meant in both places, and gradients are below the floor "
        f"sqrt(eps/(1-b2)), {small['floor']:.1g} at eps {small['eps']:g}. With eps outside set "
        f"to that floor, the step inside is at most {max(equal):.2f} times the other "
        "(sqrt(2), where v equals the floor's square).",
    )
    rests = {(case["squared"], case["eps"]): case for case in numbers["rest"]}
    better = [case for case in rests.values() if case["inside"] < REST <= case["outside"]]
    due = [case for case in better if case["same_floor"] < REST]
    case = rests["momentum", EPSS[0]]
    deep, other = (rests[squared, EPSS[1]] for squared in PAIRS)
    word: Word = "holds only when" if better else "does not hold"
    if len(better) == len(rests) and not due:
        word = "holds"
    yield Finding(
        "Moving eps inside enhances convergence and stability.",
        word,
        f"On a quadratic whose noise falls with the gradient, AdaMomentum at lr {LR:g} stays "
        f"within {case['inside']:.1g} with eps {case['eps']:g} inside, {case['outside']:.1g} "
        f"outside and {case['same_floor']:.1g} with the same floor outside. In {len(better)} "
        f"of {len(rests)} cases it comes to rest with eps inside and not with the same eps "
        f"outside; in {len(due)} of these the same floor outside does as well: what helps "
        "there is the size of the floor, not its place. "
        f"At eps {EPSS[1]:g} AdaMomentum stays within {deep['inside']:.1g} with eps inside and "
        f"{deep['outside']:.1g} outside, Adam within {other['inside']:.1g} and "
        f"{other['outside']:.1g}.",
    )


def _reach(case: Numbers, place: str) -> float:
    """Return the largest gradient up to which the limit is right within 10 %."""
    limit = case[f"{place}_limit"]
    steps = zip(SIZES_OF_G, case[place], strict=True)
    return max((g for g, step in steps if abs(step / limit - 1) < 0.1), default=math.nan)


def tables(numbers: Numbers) -> list[Table]:
    """Tabulate steps near a minimum, and distances on the quadratic."""
    rows = [
        [case["eps"], g, *(case[key][i] for key in ("inside", "outside", "same_floor"))]
        for case in numbers["near"]
        for i, g in enumerate(SIZES_OF_G)
        if i % 4 == 0
    ]
    limits = [
        [case["eps"], case["floor"], case["inside_limit"], case["outside_limit"]]
        for case in numbers["near"]
    ]
    ends = [
        [f"squared {case['squared']}", case["eps"], case["inside"], case["outside"],
         case["same_floor"]]
        for case in numbers["rest"]
    ]  # fmt: skip
    return [
        Table("The paper's limits of the effective step, lr 0.001",
              ("eps", "floor of the divisor, inside", "limit inside", "limit outside"), limits),
        Table("Effective step lr/divisor after constant gradients (AdaMomentum)",
              ("eps", "gradient", "inside", "outside", "outside, same floor"), rows),
        Table(f"Largest distance to the minimum in the second half of {numbers['steps']} steps, "
              f"median of {numbers['replicas']}",
              ("v averages", "eps", "inside", "outside", "outside, same floor"), ends),
    ]  # fmt: skip


def draw(numbers: Numbers, figure: Figure) -> None:
    """Draw effective steps for both eps, and distances on the quadratics."""
    grid = figure.add_gridspec(2, 2, height_ratios=(1.4, 1))
    places = {
        "inside": ("eps inside", COLOURS["adamomentum"], "-"),
        "outside": ("the same eps outside", COLOURS["adam"], "-"),
        "same_floor": ("outside, same floor", "#009e73", "--"),
    }
    for k, case in enumerate(numbers["near"]):
        axes = figure.add_subplot(grid[0, k])
        for key, (label, colour, line) in places.items():
            axes.loglog(SIZES_OF_G, case[key], line, color=colour, label=label)
        for key in ("inside_limit", "outside_limit"):
            axes.axhline(case[key], color="0.6", linestyle=":", linewidth=1)
        axes.set(title=f"Effective step lr/divisor, eps = {case['eps']:g} (dotted: the limits)",
                 xlabel="gradient")  # fmt: skip
        axes.legend()
    ends = figure.add_subplot(grid[1, :])
    for k, (key, (_, colour, _)) in enumerate(places.items()):
        for i, case in enumerate(numbers["rest"]):
            at = i + 0.27 * (k - 1)
            if case[key] < REST:
                ends.text(at, 2 * REST, "at rest", color=colour, rotation=90, ha="center", size=9)
            else:
                ends.bar(at, case[key], 0.25, color=colour)
    names = [f"{NAMES[PAIRS[case['squared']][1]].split(',')[0]}, eps {case['eps']:g}"
             for case in numbers["rest"]]  # fmt: skip
    ends.set_xticks(range(len(names)), names)
    ends.set(yscale="log", ylim=(REST, 1), xlim=(-0.6, len(names) - 0.4),
             title="Quadratic with noise that falls with the gradient: largest distance to the "
             "minimum, second half")  # fmt: skip


CLAIM = TheoryClaim(
    name="epsilon",
    title="The place of eps",
    place="section 3.1",
    says="""With eps inside, v_hat is its value without eps, plus eps/(1-b2). Near a minimum the
    effective steps are then sqrt(1-b2) lr/sqrt(eps) with eps inside and lr/eps with eps outside.
    The former is far smaller, since eps is tiny. So moving eps under the root further reduces the
    steps near minima, which enhances convergence and stability.""",
    done="""The identity was checked at every step. Effective steps were measured after long runs of
    constant gradients from 1e-20 to 1, with eps inside (AdaMomentum), outside (the control
    adamomentum-outer-eps), and outside with a value that gives the same smallest divisor. Then each
    minimised a quadratic whose noise is proportional to its gradient.""",
    compute=compute, judge=judge, tables=tables, draw=draw,
    notes="""
    The same eps has a different meaning in the two places: 1e-8 inside gives a floor of 3.2e-3, and
    1e-16 inside gives 3.2e-7 (b2 = 0.999). At equal eps, the floors of the two places differ by
    factors of 10^5 and 10^9.

    The paper requires v' to be far below eps. The limits need v' far below eps/(1-b2) with eps
    inside, and sqrt(v') far below eps with eps outside. At the default of 1e-16 inside, gradients
    of a network are rarely so small.

    AdaMomentum's first step is lr/(1-b1), ten times lr, in both places of eps.
    """,
)  # fmt: skip
