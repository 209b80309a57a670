"""The sphere function: the paper's toy experiment, over many starting points and lr."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from adamomentum_lab import contenders
from adamomentum_paper.theory import Figure, Finding, Numbers, Size, Table, TheoryClaim, Tick, Word
from adamomentum_paper.theory._drawing import COLOURS, NAMES
from adamomentum_paper.theory._findings import list_findings

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

METHODS = ("adamomentum", "adam")
CONTROL = "adamomentum-debiased"  # AdaMomentum without its long first steps
PICTURED = (("adamomentum", 0.1), ("adam", 0.1), ("adam", 0.5), ("adam", 1.0))
PICTURED_LRS = (0.1, 0.5, 1.0)
START = (-2.0, 1.5)  # starting point of the picture; the paper gives none
TOLERANCE = 0.01  # distance to the minimum
STAY = 50  # a run has settled after this many steps within the tolerance
LRS = sorted({0.1, 0.5, 1.0, *(round(10 ** (k / 4 - 2.5), 4) for k in range(13))})  # 0.003 to 3
DISTANCES = (0.1, 0.3, 1.0, 3.0, 10.0)  # bounds of the classes of starting points
# Starting points, steps.
_SIZES = {"smoke": (40, 400), "default": (400, 3_000), "paper": (2_000, 50_000)}


class Descent:
    """Minimises f = x1^2 + x2^2 from many points, each with its own lr, without eps.

    Without eps, lr a from x is a times lr 1 from x/a, for both methods.
    """

    def __init__(self, name: str, starts: Tensor, lrs: Tensor) -> None:
        self._lrs = lrs
        self._scaled = nn.Parameter(starts / lrs)
        self._optimizer = contenders.get(name).build([self._scaled], lr=1.0, eps=0.0)
        self.x = starts
        self._side, self._distance = starts.sign(), starts.norm(dim=-1)
        self._beyond = torch.zeros_like(starts)
        self._stay = torch.zeros_like(self._distance)  # steps within the tolerance, without a break
        self.settled = torch.full_like(self._distance, math.inf)
        """Steps until the distance was within the tolerance for STAY steps."""
        self.left = torch.zeros_like(self._distance, dtype=torch.bool)
        """Whether it left the tolerance again."""
        self._t = 0

    def step(self) -> None:
        """Take one step from all points."""
        self._scaled.grad = 2 * self._scaled.detach()
        self._optimizer.step()
        self._t += 1
        self.x = self._scaled.detach() * self._lrs
        underway = self.settled.isinf()[..., None]
        self._beyond = torch.maximum(self._beyond, -self.x * self._side * underway)
        inside = self.x.norm(dim=-1) <= TOLERANCE
        self._stay = (self._stay + 1) * inside
        new = (self._stay == STAY) & self.settled.isinf()
        self.settled[new] = self._t - STAY + 1
        self.left |= self.settled.isfinite() & ~inside

    @property
    def overshoot(self) -> Tensor:
        """The distance beyond the minimum before it settled, over the starting distance."""
        part: Tensor = self._beyond.norm(dim=-1) / self._distance
        return part


def compute(size: Size, tick: Tick) -> Numbers:
    """Run the picture's cases, and all learning rates from many starting points."""
    many, steps = _SIZES[size]
    random = torch.Generator().manual_seed(1)
    angle = 2 * math.pi * torch.rand(many, generator=random, dtype=torch.float64)
    radius = 10 ** (2 * torch.rand(many, generator=random, dtype=torch.float64) - 1)  # 0.1 to 10
    starts = radius[:, None] * torch.stack([angle.cos(), angle.sin()], 1)
    lrs = torch.tensor(LRS, dtype=torch.float64)
    numbers: Numbers = {"starts": many, "steps": steps, "lrs": LRS, "radius": radius.tolist()}
    pictured = []
    for name, lr in PICTURED:
        run = Descent(name, torch.tensor([START]).double(), torch.tensor([[lr]]).double())
        path = [run.x[0].tolist()]
        for _ in range(steps):
            run.step()
            path.append(run.x[0].tolist())
        outcome = {"steps": run.settled.item(), "overshoot": run.overshoot.item()}
        pictured.append({"optimizer": name, "lr": lr, "path": path[:201], **outcome})
    numbers["pictured"] = pictured
    for i, name in enumerate((*METHODS, CONTROL)):
        runs = Descent(name, starts.expand(len(lrs), -1, -1), lrs[:, None, None])
        for step in range(steps):
            runs.step()
            tick((i + step / steps) / (1 + len(METHODS)))
        times = runs.settled  # lr, start
        numbers[name] = {
            "settled": times.isfinite().double().mean(1).tolist(),
            "median_steps": times.median(1).values.tolist(),
            "left": runs.left.double().mean(1).tolist(),
            "median_overshoot": runs.overshoot.median(1).values.tolist(),
            "best_steps": times.amin(0).tolist(),
            "steps_at": {f"{lr}": times[LRS.index(lr)].tolist() for lr in PICTURED_LRS},
            "overshoot_at": {
                f"{lr}": runs.overshoot[LRS.index(lr)].tolist() for lr in PICTURED_LRS
            },
        }
    return numbers


def _first(ours: list[float | None], theirs: list[float | None]) -> list[bool]:
    """Return for each starting point whether the first number is smaller. None is infinite."""
    return [a is not None and (b is None or a < b) for a, b in zip(ours, theirs, strict=True)]


def _by_distance(numbers: Numbers, won: list[bool]) -> str:
    """Format the fraction of starting points that were won, in each class of distances."""
    parts = []
    for low, high in pairwise(DISTANCES):
        mine = [w for w, r in zip(won, numbers["radius"], strict=True) if low <= r < high]
        parts.append(f"{sum(mine) / max(len(mine), 1):.0%} between {low:g} and {high:g}")
    return "by distance, " + ", ".join(parts)


@list_findings
def judge(numbers: Numbers) -> Iterator[Finding]:
    """Judge the paper's statements over starting points and learning rates."""
    won = _first(*(numbers[name]["steps_at"]["0.1"] for name in METHODS))
    ours, theirs = (numbers[name]["median_steps"][LRS.index(0.1)] for name in METHODS)
    part = sum(won) / len(won)
    yield Finding(
        "With the same lr of 0.1 Adam is much slower than AdaMomentum.",
        _word(part),
        f"AdaMomentum settles first from {part:.0%} of {numbers['starts']} starting points: "
        f"{_by_distance(numbers, won)}. Median {_steps(ours)} against {_steps(theirs)} steps.",
    )
    calm = numbers["adamomentum"]["overshoot_at"]["0.1"]
    for lr in ("0.5", "1.0"):
        more = _first(calm, numbers["adam"]["overshoot_at"][lr])
        part = sum(more) / len(more)
        a, b = _median(calm), _median(numbers["adam"]["overshoot_at"][lr])
        yield Finding(
            f"With a larger lr, {lr}, Adam oscillates much more violently.",
            _word(part),
            f"It goes further beyond the minimum than AdaMomentum at 0.1 from {part:.0%} of "
            f"the starting points: {_by_distance(numbers, more)}. Median overshoot "
            f"{b:.2f} against {a:.2f} of the starting distance.",
        )
    ours, theirs, control = (numbers[name]["best_steps"] for name in (*METHODS, CONTROL))
    wins, left = (sum(_first(mine, theirs)) / numbers["starts"] for mine in (ours, control))
    yield Finding(
        "Replacing g by m makes the steps more suitable for the sphere.",
        _word(min(wins, left)),
        f"With the best lr of {len(LRS)} for each starting point, AdaMomentum is faster from "
        f"{wins:.0%} of them; median {_steps(_median(ours))} against {_steps(_median(theirs))} "
        f"steps. Without its first steps of up to ten times lr (debias_momentum) it is faster "
        f"from {left:.0%}, with {_steps(_median(control))} steps: so much is due to the start, "
        "not to the average.",
    )


def _word(part: float) -> Word:
    """Return the verdict: from 95 % on it holds, up to 5 % it does not."""
    return "holds" if part >= 0.95 else "does not hold" if part <= 0.05 else "holds only when"


def _median(values: list[float | None]) -> float | None:
    middle = sorted(math.inf if value is None else value for value in values)[len(values) // 2]
    return middle if math.isfinite(middle) else None


def _steps(value: float | None) -> str:
    return "too many" if value is None else f"{value:.0f}"


def tables(numbers: Numbers) -> list[Table]:
    """Tabulate the picture's runs, and the learning rates."""
    return [
        Table(
            f"The pictured runs, from {START}",
            ("optimizer", "lr", f"steps until within {TOLERANCE}", "overshoot"),
            [[NAMES[r["optimizer"]], r["lr"], r["steps"], r["overshoot"]]
             for r in numbers["pictured"]],
        ),
        Table(
            f"From {numbers['starts']} starting points, at most {numbers['steps']} steps",
            ("lr", *(f"{NAMES[name]}: {what}" for name in METHODS
                     for what in ("settled", "left again", "median steps", "median overshoot"))),
            [[lr, *(numbers[name][what][i] for name in METHODS
                    for what in ("settled", "left", "median_steps", "median_overshoot"))]
             for i, lr in enumerate(numbers["lrs"])],
        ),
    ]  # fmt: skip


def draw(numbers: Numbers, figure: Figure) -> None:
    """Draw the paper's three pictures, and steps and overshoot over lr."""
    from matplotlib.patches import Circle

    top, bottom = cast("tuple[SubFigure, SubFigure]", figure.subfigures(2, 1))
    ours, *others = numbers["pictured"]
    for axes, other in zip(top.subplots(1, 3, sharex=True, sharey=True), others, strict=True):
        for run in (other, ours):
            x, y = zip(*run["path"], strict=True)
            label = f"{NAMES[run['optimizer']]}, lr {run['lr']:g}"
            axes.plot(x, y, ".-", markersize=3, color=COLOURS[run["optimizer"]], label=label)
        for radius in (0.5, 1, 1.5, 2, 2.5):
            axes.add_artist(
                Circle((0, 0), radius, fill=False, color="0.85", linewidth=0.8, zorder=0)
            )
        axes.plot(0, 0, "k+", markersize=9)
        axes.set(aspect="equal", title=f"Adam at {other['lr']:g}", xlabel="$x_1$", ylabel="$x_2$")
        axes.legend(loc="lower left")
    times, over = bottom.subplots(1, 2)
    for name in METHODS:
        style = {"color": COLOURS[name], "label": NAMES[name], "marker": "o", "markersize": 3}
        steps = [math.nan if s is None else s for s in numbers[name]["median_steps"]]
        times.loglog(numbers["lrs"], steps, **style)
        over.loglog(numbers["lrs"], numbers[name]["median_overshoot"], **style)
    times.set(
        title=f"Median steps until within {TOLERANCE}",
        xlabel="lr (no point: half of the starts never settle)",
    )
    over.set(title="Median overshoot, of the starting distance", xlabel="lr")
    times.legend()


CLAIM = TheoryClaim(
    name="sphere",
    title="AdaMomentum and Adam on the sphere function",
    place="section 5.1, Figure 3",
    says="""On f(x) = x1^2 + x2^2 without eps, AdaMomentum at lr 0.1 converges much faster than Adam
    at the same lr, and Adam at a larger lr oscillates much more violently. So replacing g by m in
    the second moment makes the steps smoother and more suitable.""",
    done=f"""The three pictures were repeated. Then both methods, and as a control AdaMomentum
    without its long first steps, ran from many starting points, at distances from 0.1 to 10 in all
    directions, with learning rates from 0.003 to 3. A run has settled when it stays within
    {TOLERANCE} of the minimum for {STAY} steps. Overshoot is the distance beyond the minimum before
    that.""",
    compute=compute, judge=judge, tables=tables, draw=draw,
    notes="""
    The text of the paper says that Adam oscillates at lr 0.5 and 0.1; its figure has 0.1, 0.5 and
    1.0. This page follows the figure.

    The paper gives no starting point. The pictures here start at (-2, 1.5).

    AdaMomentum's first step is 1/(1-beta1) = 10 times lr, since the squared momentum is not
    bias-corrected. So the same lr does not mean the same steps.

    Without eps neither method comes to rest. v forgets more slowly than the gradient falls, so the
    steps grow until both leave the minimum again ('left again').

    Gradients here have no noise. With noise, steps at the same lr have different lengths
    throughout; see the page `noise_ratio`.
    """,
)  # fmt: skip
