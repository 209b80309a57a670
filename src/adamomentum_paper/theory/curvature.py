"""Plateau, descent, basin: the curve of the paper's Figure 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import cast

import torch
from torch import Tensor, nn

from adamomentum_lab import contenders
from adamomentum_paper.theory import Figure, Finding, Numbers, Size, Table, TheoryClaim, Tick
from adamomentum_paper.theory._drawing import COLOURS, NAMES
from adamomentum_paper.theory._findings import list_findings, word_for
from adamomentum_paper.theory._pair import TwoOptimizers

# The paper draws the curve without numbers. These are our choice.
FLAT, STEEP = 0.01, 1.0  # slopes of the plateau and of the descent
CORNER, MINIMUM = 1.0, 3.0  # where the plateau ends, and the lowest point
BASIN = 0.4  # half the basin's width
SHARPNESS = {"sharp": 0.005, "middling": 0.05, "gentle": 0.2}  # width of the corner
AREAS = {"A": "corner", "B": "descent", "C": "basin"}
BETA2S = (0.9, 0.99, 0.999)
LRS = (3e-4, 1e-3, 3e-3)
METHODS = ("adamomentum", "adam")
CONTROL = "adamomentum-debiased"  # AdaMomentum without its long first steps
TOLERANCE, STAY = 0.01, 50
_STEPS = {"smoke": 1_500, "default": 20_000, "paper": 100_000}


def slope(x: Tensor, width: Tensor) -> Tensor:
    """Return the gradient: flat, then steep, then zero at the minimum."""
    rise = torch.sigmoid((x - CORNER) / width)
    return -(FLAT + (STEEP - FLAT) * rise) * torch.tanh((MINIMUM - x) / BASIN)


def height(points: list[float], width: float) -> list[float]:
    """Return the curve, integrated from its gradient, with minimum 0."""
    x = torch.tensor(points, dtype=torch.float64)
    g = slope(x, torch.tensor(width))
    f = torch.cat([torch.zeros(1), torch.cumulative_trapezoid(g, x)])
    return [float(value) for value in f - f.min()]


def bounds_of(width: Tensor | float) -> tuple[Tensor | float, ...]:
    """Return the starts of areas A, B and C, and the end of C, which is before the minimum."""
    return CORNER - 3 * width, CORNER + 3 * width, MINIMUM - 2 * BASIN, MINIMUM - BASIN / 10


def compute(size: Size, tick: Tick) -> Numbers:
    """Compute effective steps on a common path, and each method's own path."""
    steps = _STEPS[size]
    numbers: Numbers = {"steps": steps, "same_path": [], "own_path": []}
    for i, b2 in enumerate(BETA2S):
        numbers["same_path"] += _same_path(b2, steps)
        for name in (*METHODS, CONTROL):
            numbers["own_path"] += _own_path(name, b2, steps)
        tick((i + 1) / len(BETA2S))
    xs = [k / 100 for k in range(421)]
    width = SHARPNESS["middling"]
    gs = slope(torch.tensor(xs), torch.tensor(width)).tolist()
    numbers["curve"] = {"x": xs, "f": height(xs, width), "g": gs}
    return numbers


# Without eps, both methods are invariant to the scale of gradients: lr a at x is a times lr 1 at
# x/a. So one parameter holds all cases.
CASES = [(lr, corner) for lr in LRS for corner in SHARPNESS]
_LRS = torch.tensor([lr for lr, _ in CASES], dtype=torch.float64)
_WIDTHS = torch.tensor([SHARPNESS[corner] for _, corner in CASES], dtype=torch.float64)


def _same_path(b2: float, steps: int) -> Iterator[Numbers]:
    """Yield the ratio of AdaMomentum's effective step to Adam's, on Adam's path through A to C."""
    scaled = nn.Parameter(torch.zeros_like(_LRS))
    pair = TwoOptimizers(scaled, 1.0, (0.9, b2))
    a, b, c, end = bounds_of(_WIDTHS)
    xs, ratios, adams = [], [], []
    for step in range(1, steps + 1):
        x = scaled.detach() * _LRS
        if bool((x >= end).all()):
            break
        pair.step(slope(x, _WIDTHS))
        theirs, ours = pair.squares()
        xs.append(x)
        ratios.append((theirs / ours).sqrt())
        adams.append((theirs / (1 - b2**step)).rsqrt())
    path, ratio, adam = torch.stack(xs), torch.stack(ratios), torch.stack(adams)
    before = (path >= end).cumsum(0) == 0
    areas = [before & (path >= low) & (path < high) for low, high in ((a, b), (b, c), (c, end))]
    # The part of the basin where the gradient is still more than half as steep as the descent.
    halved = areas[2] & (path <= MINIMUM - BASIN * math.atanh(0.5))
    for k, (lr, corner) in enumerate(CASES):
        basin = adam[halved[:, k], k]
        on = before[:, k] & (path >= a)[:, k]
        shown = list(zip(path[on, k].tolist(), ratio[on, k].tolist(), strict=True))
        yield {
            "lr": lr,
            "beta2": b2,
            "corner": corner,
            "ratio": [_geometric_mean(ratio[area[:, k], k]) for area in areas],
            "steps_in": [int(area[:, k].sum()) for area in areas],
            "adam_growth": float(basin[-1] / basin[0]) if len(basin) else None,
            "trace": shown[:: max(1, len(shown) // 300)] if corner == "middling" else [],
        }


def _geometric_mean(values: Tensor) -> float | None:
    return float(values.log().mean().exp()) if len(values) else None


def _own_path(name: str, b2: float, steps: int) -> list[Numbers]:
    """Measure steps from the corner to the basin, overshoot, and steps until it settles."""
    scaled = nn.Parameter(torch.zeros_like(_LRS))
    # eps is so small that only the second moments differ.
    optimizer = contenders.get(name).build([scaled], lr=1.0, betas=(0.9, b2), eps=1e-30)
    a, _, c, _ = bounds_of(_WIDTHS)
    entered, left, settled = torch.full((3, len(CASES)), math.inf, dtype=torch.float64)
    furthest, stay = torch.zeros(2, len(CASES), dtype=torch.float64)
    for step in range(1, steps + 1):
        scaled.grad = slope(scaled.detach() * _LRS, _WIDTHS)
        optimizer.step()
        x = scaled.detach() * _LRS
        entered[(x >= a) & entered.isinf()] = step
        left[(x >= c) & left.isinf()] = step
        under = settled.isinf()
        furthest = torch.where(under, torch.maximum(furthest, x - MINIMUM), furthest)
        stay = (stay + 1) * ((x - MINIMUM).abs() <= TOLERANCE)
        settled[(stay == STAY) & under] = step - STAY + 1
        if settled.isfinite().all():
            break
    return [
        {
            "optimizer": name,
            "lr": lr,
            "beta2": b2,
            "corner": corner,
            "through_descent": float(left[k] - entered[k]),
            "overshoot": float(furthest[k]) / BASIN,
            "settled": float(settled[k]),
        }
        for k, (lr, corner) in enumerate(CASES)
    ]


@list_findings
def judge(numbers: Numbers) -> Iterator[Finding]:
    """Judge what the paper expects in the three areas."""
    same = numbers["same_path"]
    areas: tuple[tuple[str, Callable[[float], bool]], ...] = (
        (
            "In area A, where the gradient grows, AdaMomentum keeps a larger step than Adam.",
            lambda ratio: ratio > 1.01,
        ),
        ("In area B the two become equal.", lambda ratio: abs(ratio - 1) <= 0.1),
        (
            "In area C, where the gradient falls, AdaMomentum's step is smaller than Adam's.",
            lambda ratio: ratio < 0.99,
        ),
    )
    for i, (text, right) in enumerate(areas):
        met = [case for case in same if case["ratio"][i] is not None]
        good = sum(right(case["ratio"][i]) for case in met)
        wrong = {(c["beta2"], c["corner"]) for c in met if not right(c["ratio"][i])}
        but = ", ".join(f"{corner} corner at beta2 {b2:g}" for b2, corner in sorted(wrong))
        always = [b2 for b2 in BETA2S if b2 not in {b for b, _ in wrong}] if wrong else []
        yield Finding(
            text,
            word_for(good, len(met)),
            f"On the same path AdaMomentum's effective step over Adam's is "
            f"{_by_beta2([(c['beta2'], c['ratio'][i]) for c in met])}; as the paper says in {good} "
            f"of {len(met)} cases"
            + (f", and not for some lr with {but}." if 0 < len(wrong) <= 3 else ".")
            + (f" All of them at beta2 {', '.join(map(str, always))}." if always else ""),
        )
    every = [(case["beta2"], case["adam_growth"]) for case in same if case["adam_growth"]]
    fast = sum(growth > 1.1 for _, growth in every)
    yield Finding(
        "In area C Adam's step increases immediately.",
        word_for(fast, len(every)),
        "From the edge of the basin to where the gradient is half as large, Adam's effective "
        f"step grows by a factor of {_by_beta2(every)}. By more than a tenth in {fast} of "
        f"{len(every)} cases.",
    )
    ours, theirs, control = _own_paths(numbers)
    gaps = [a["overshoot"] - b["overshoot"] for a, b in zip(ours, theirs, strict=True)]
    calmer, wilder = sum(gap < -1e-9 for gap in gaps), sum(gap > 1e-9 for gap in gaps)
    either = sum(
        max(a["overshoot"], b["overshoot"]) > 1e-9 for a, b in zip(ours, theirs, strict=True)
    )
    sooner, kept = (
        sum((a["settled"] or math.inf) < (b["settled"] or math.inf)
            for a, b in zip(mine, theirs, strict=True))
        for mine in (ours, control)
    )  # fmt: skip
    yield Finding(
        "So AdaMomentum is more stable near the optimum, and converges faster.",
        "does not hold" if not (calmer or sooner)
        else "holds" if not wilder and min(sooner, kept) == len(ours)
        else "holds only when",
        f"On their own paths at the same lr AdaMomentum overshoots the minimum less in {calmer}"
        f" and more in {wilder} of the {either} cases in which either does so, and settles "
        f"sooner in {sooner} of all {len(ours)}; without its long first steps (debias_momentum)"
        f" in {kept}.",
    )  # fmt: skip


def _by_beta2(pairs: list[tuple[float, float]]) -> str:
    """Format the smallest and the largest value at each beta2."""
    values = {b2: [value for of, value in pairs if of == b2] for b2 in BETA2S}
    return "; ".join(
        f"{min(some):.2f} to {max(some):.2f} at beta2 {b2:g}" for b2, some in values.items() if some
    )


def _own_paths(numbers: Numbers) -> list[list[Numbers]]:
    """Return the runs of AdaMomentum, Adam and the control, case by case."""
    return [
        [case for case in numbers["own_path"] if case["optimizer"] == name]
        for name in (*METHODS, CONTROL)
    ]


def _pairs(numbers: Numbers) -> list[tuple[Numbers, Numbers]]:
    """Return pairs of both methods on their own paths, case by case."""
    ours, theirs, _ = _own_paths(numbers)
    return list(zip(ours, theirs, strict=True))


def tables(numbers: Numbers) -> list[Table]:
    """Tabulate effective steps by area, and the paths."""
    return [
        Table(
            "AdaMomentum's effective step over Adam's on the same path (geometric mean in an area)",
            ("lr", "beta2", "corner", *(f"{area}: {what}" for area, what in AREAS.items()),
             "steps in A, B, C", "growth of Adam's step in C"),
            [[c["lr"], c["beta2"], c["corner"], *c["ratio"],
              ", ".join(map(str, c["steps_in"])), c["adam_growth"]]
             for c in numbers["same_path"]],
        ),
        Table(
            "On their own paths: AdaMomentum, then Adam",
            ("lr", "beta2", "corner", "steps from A through B", "", "overshoot (of the basin)", "",
             f"steps until within {TOLERANCE}", ""),
            [[a["lr"], a["beta2"], a["corner"], a["through_descent"], b["through_descent"],
              a["overshoot"], b["overshoot"], a["settled"], b["settled"]]
             for a, b in _pairs(numbers)],
        ),
    ]  # fmt: skip


def draw(numbers: Numbers, figure: Figure) -> None:
    """Draw the curve with its areas, effective steps along it, overshoot and time."""
    (curve, ratio), (over, time) = figure.subplots(2, 2)
    width = SHARPNESS["middling"]
    bounds = cast("list[float]", bounds_of(width))
    for axes in (curve, ratio):
        for k, area in enumerate(AREAS):
            axes.axvspan(bounds[k], bounds[k + 1], color="0.5", alpha=(0.22, 0.08, 0.22)[k])
            middle = (bounds[k] + bounds[k + 1]) / 2
            axes.text(middle, 0.97, area, transform=axes.get_xaxis_transform(), va="top",
                      ha="center", weight="bold")  # fmt: skip
    data = numbers["curve"]
    curve.plot(data["x"], data["f"], color="black", label="loss")
    curve.plot(data["x"], [abs(g) for g in data["g"]], color="0.5", linestyle="--", label="|g|")
    curve.set(title="The curve", xlabel=r"$\theta$")
    curve.legend(loc="center left")
    shades = ("#e69f00", "#56b4e9", "#003f63")
    for case in numbers["same_path"]:
        if case["lr"] == LRS[1] and case["trace"]:
            x, y = zip(*case["trace"], strict=True)
            colour = shades[BETA2S.index(case["beta2"])]
            label = rf"$\beta_2$ = {case['beta2']:g}"
            ratio.plot(x, y, ".-", ms=3, color=colour, label=label)
    ratio.axhline(1, color="0.4", linewidth=0.8)
    ratio.set(title=f"Effective step over Adam's, same path, lr {LRS[1]:g}", xlabel=r"$\theta$",
              xlim=(bounds[0] - 0.1, MINIMUM + 0.1))  # fmt: skip
    ratio.legend()
    pairs = _pairs(numbers)
    for name, which in zip(METHODS, (0, 1), strict=True):
        values = [pair[which]["overshoot"] for pair in pairs]
        over.plot(values, "os"[which], ms=5, color=COLOURS[name], label=NAMES[name], alpha=0.8)
    time.plot([a["settled"] / b["settled"] if a["settled"] and b["settled"] else math.nan
               for a, b in pairs], "o", ms=5, color=COLOURS["adamomentum"])  # fmt: skip
    time.axhline(1, color="0.4", linewidth=0.8)
    over.set(title="Overshoot, in half widths of the basin")
    time.set(title=f"Steps until within {TOLERANCE}: AdaMomentum's over Adam's")
    names = [f"{pair[0]['lr']:g}\n{pair[0]['beta2']:g}" for pair in pairs[:: len(SHARPNESS)]]
    for axes in (over, time):
        axes.set_xticks([len(SHARPNESS) * k + 1 for k in range(len(names))], names, fontsize=8)
        axes.set(xlabel="lr, beta2 (sharp, middling and gentle corner each)")
    over.legend()


CLAIM = TheoryClaim(
    name="curvature",
    title="Steps along a plateau, a descent and a basin",
    place="section 3.1, Figure 1",
    says="""A loss curve is a plateau, a steep descent and a basin. At the start of the descent
    (area A) |g| grows at once, so Adam's step lr/sqrt(v) becomes small. AdaMomentum's stays large,
    since |m| lags behind. In the descent (B) the two become equal. At the basin (C) |g| falls and
    Adam's step increases immediately, while AdaMomentum's stays small. So AdaMomentum is faster and
    more stable.""",
    done="""Such a curve was built from its gradient, with a sharp, a middling and a gentle corner.
    Both optimizers received the gradients on Adam's path, so that their effective steps can be
    compared, for three lr and three beta2. Then each optimizer followed its own path.""",
    compute=compute, judge=judge, tables=tables, draw=draw,
    notes="""
    The paper argues by a drawing without numbers. The slopes and widths here are our choice, and
    are in the source of this page.

    The argument is about the lag between g and m, which is about 1/(1-b1) = 10 steps. At the usual
    beta2, v averages over 1/(1-b2) = 1,000 steps, so a lag of 10 shows only while v consists of few
    large gradients.

    AdaMomentum's first steps are up to ten times lr, also on the plateau. So the paths differ from
    the first step on.

    The right part of the paper's figure, peaks and valleys around the minimum, is about noise. See
    the pages `escape` and `noise_ratio`.
    """,
)  # fmt: skip
