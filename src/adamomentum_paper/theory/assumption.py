"""Test Assumptions 5 and 3 of the paper on the network of its Figure 2."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

import torch

from adamomentum_lab import contenders
from adamomentum_paper.theory import Figure, Finding, Numbers, Size, Table, TheoryClaim, Tick
from adamomentum_paper.theory._drawing import COLOURS, NAMES
from adamomentum_paper.theory._findings import list_findings, word_for
from adamomentum_paper.theory._network import Network

BETA1, BETA2 = 0.9, 0.999
FACTOR = BETA1 / (2 - BETA1)  # the factor of m^2 in Assumption 5
PURE_NOISE = FACTOR * (1 - BETA1) / (1 + BETA1)  # ratio of the two sides for independent noise
BATCHES = (8, 32, 128, 512, 850)
METHODS = {"adamomentum": "exp_avg_momentum_sq", "adam": "exp_avg_sq"}
LR = 1e-3
WINDOW = 50  # steps over which the two sides are averaged for a coordinate
_SIZES = {"smoke": (100, 1), "default": (1_000, 2), "paper": (10_000, 5)}  # steps, seeds


def compute(size: Size, tick: Tick) -> Numbers:
    """Compute both sides of Assumption 5 and the product of Assumption 3 at every step."""
    steps, seeds = _SIZES[size]
    numbers: Numbers = {"steps": steps, "seeds": seeds, "window": WINDOW, "runs": []}
    numbers["examples"] = len(Network(0).labels)
    cases = [(name, batch) for name in METHODS for batch in BATCHES]
    for i, (name, batch) in enumerate(cases):
        traces = []
        for seed in range(seeds):
            traces.append(_run(name, batch, steps, seed))
            tick((i + (seed + 1) / seeds) / len(cases))
        numbers["runs"].append(_summary(name, batch, traces))
    return numbers


def _run(name: str, batch: int, steps: int, seed: int) -> dict[str, torch.Tensor]:
    """Train once, and record the quantities of the assumptions at each step."""
    net = Network(seed)
    random = torch.Generator().manual_seed(50 + seed)
    optimizer = contenders.get(name).build([net.weights], lr=LR, betas=(BETA1, BETA2))
    m = torch.zeros_like(net.weights)  # before a step, as in the assumption
    found: dict[str, list[float]] = defaultdict(list)
    window = torch.zeros(2, len(m))
    for t in range(1, steps + 1):
        loss, true = net.gradient()
        gradient = net.gradient(net.batch(batch, random))[1]
        squares = torch.stack([(gradient - true) ** 2, FACTOR * m * m])
        for key, side in zip(("noise", "momentum"), squares.sum(1).tolist(), strict=True):
            found[key].append(side)
        window += squares
        if t % WINDOW == 0:
            alive = window[0] > 0  # weights of pixels that are always dark have no gradient
            found["coordinates"].append(float((window[0] <= window[1])[alive].double().mean()))
            window.zero_()
        net.weights.grad = gradient
        optimizer.step()
        state = optimizer.state[net.weights]
        m = state["exp_avg"].clone()
        root = (state[METHODS[name]] / (1 - BETA2**t)).sqrt()
        pace = torch.where(root > 0, m / root, 0.0) / (1 - BETA1**t)
        found["product"].append(float(true @ pace) / (1 + loss))
    return {key: torch.tensor(values, dtype=torch.float64) for key, values in found.items()}


def _summary(name: str, batch: int, traces: list[dict[str, torch.Tensor]]) -> Numbers:
    def over_seeds(key: str) -> torch.Tensor:
        return torch.stack([trace[key] for trace in traces])

    noise, momentum, product = map(over_seeds, ("noise", "momentum", "product"))
    steps = noise.shape[1]
    late = slice(steps // 2, None)
    # The figure shows means over this many steps.
    stretch = max(1, steps // 50)

    def smooth(values: torch.Tensor) -> list[float]:
        whole = values[:, : steps // stretch * stretch].reshape(len(values), -1, stretch)
        shown: list[float] = whole.mean((0, 2)).tolist()
        return shown

    return {
        "optimizer": name,
        "batch": batch,
        "stretch": stretch,
        "noise": smooth(noise),
        "momentum": smooth(momentum),
        "ratio_late": float(momentum[:, late].sum() / noise[:, late].sum()),
        "ratio_early": float(momentum[:, 1:21].sum() / noise[:, 1:21].sum()),
        "steps_held": float((noise <= momentum)[:, late].double().mean()),
        "coordinates": over_seeds("coordinates").mean(0).tolist(),
        "coordinates_held": float(over_seeds("coordinates")[:, -1].mean()),
        "product_positive": float((product >= 0).double().mean()),
        "product_positive_late": float((product >= 0)[:, late].double().mean()),
        "product_integral": smooth(product.cumsum(1)),
        "integral_least": float(product.cumsum(1).amin()),
    }


@list_findings
def judge(numbers: Numbers) -> Iterator[Finding]:
    """Judge Figure 2 late in training, the choice of the batch, coordinates, and Assumption 3."""
    ours = [run for run in numbers["runs"] if run["optimizer"] == "adamomentum"]
    held = [run["batch"] for run in ours if run["steps_held"] >= 0.95]
    yield Finding(
        "The squared noise is consistently below b1 m^2/(2-b1) late in training (Figure 2).",
        word_for(len(held), len(ours)),
        "With AdaMomentum it is so, summed over the weights, in "
        + ", ".join(f"{r['steps_held']:.0%} of the later steps with batches of {r['batch']}"
                    for r in ours)
        + ". Means of the two sides: "
        + ", ".join(f"{r['ratio_late']:.3f}" for r in ours)
        + f" of what is needed; independent noise alone gives {PURE_NOISE:.3f}.",
    )  # fmt: skip
    yield Finding(
        "It becomes so as the iterations go on.",
        word_for(sum(run["ratio_late"] >= max(1, run["ratio_early"]) for run in ours), len(ours)),
        "From the first 20 steps to the second half of training the ratio goes from "
        + ", ".join(
            f"{r['ratio_early']:.3f} to {r['ratio_late']:.3f} (batch {r['batch']})" for r in ours
        )
        + ".",
    )
    grows = all(a["ratio_late"] < b["ratio_late"] for a, b in pairwise(ours))
    enough = [run["batch"] for run in ours if run["ratio_late"] >= 1]
    yield Finding(
        "A batch that is large enough satisfies it.",
        word_for(len(enough), len(ours)),
        f"The ratio {'grows' if grows else 'does not always grow'} with the batch; on average "
        "over the later steps it suffices with batches of "
        f"{', '.join(map(str, enough)) or 'none of these sizes'} "
        f"(all examples: {numbers['examples']}).",
    )
    parts = [run["coordinates_held"] for run in ours]
    yield Finding(
        "It holds for each coordinate, which is what the proof uses.",
        word_for(sum(part >= 0.95 for part in parts), len(parts)),
        f"In the last {numbers['window']} steps for "
        + ", ".join(f"{p:.1%} (batch {r['batch']})" for p, r in zip(parts, ours, strict=True))
        + " of the weights.",
    )
    fine = [run for run in numbers["runs"] if run["integral_least"] >= 0]
    yield Finding(
        "The integral of the product of gradient and momentum, Assumption 3, is not negative.",
        word_for(len(fine), len(numbers["runs"])),
        f"It never was in {len(fine)} of {len(numbers['runs'])} settings of optimizer and "
        "batch; the product itself is positive in "
        f"{min(r['product_positive_late'] for r in numbers['runs']):.0%} to "
        f"{max(r['product_positive_late'] for r in numbers['runs']):.0%} of the later steps.",
    )


def tables(numbers: Numbers) -> list[Table]:
    """Return one row for each optimizer and batch."""
    return [
        Table(
            f"After {numbers['steps']} steps, {numbers['seeds']} seeds. Ratio: b1 m^2/(2-b1) over "
            "noise^2, 1 or more means that Assumption 5 holds",
            ("optimizer", "batch", "ratio, steps 2 to 21", "ratio, second half",
             "steps for which it holds", "weights for which it holds",
             "Assumption 3: product positive", "least value of the integral"),
            [[NAMES[r["optimizer"]], r["batch"], r["ratio_early"], r["ratio_late"],
              r["steps_held"], r["coordinates_held"], r["product_positive"], r["integral_least"]]
             for r in numbers["runs"]],
        )
    ]  # fmt: skip


def draw(numbers: Numbers, figure: Figure) -> None:
    """Draw both sides over the steps, their ratio over batches, and the integral."""
    (small, large), (ratio, integral) = figure.subplots(2, 2)
    ours = {r["batch"]: r for r in numbers["runs"] if r["optimizer"] == "adamomentum"}
    for axes, batch in ((small, BATCHES[1]), (large, BATCHES[-1])):
        run = ours[batch]
        at = [run["stretch"] * (i + 0.5) for i in range(len(run["noise"]))]
        axes.plot(at, run["noise"], color=COLOURS["adam"], label=r"$\|\zeta_t\|^2$")
        axes.plot(at, run["momentum"], color=COLOURS["adamomentum"],
                  label=r"$\beta_1 \|m_{t-1}\|^2 / (2-\beta_1)$")  # fmt: skip
        axes.set(yscale="log", xlabel="step", title=f"AdaMomentum, batches of {batch}")
        axes.legend()
    for name in METHODS:
        runs = [r for r in numbers["runs"] if r["optimizer"] == name]
        style = {"color": COLOURS[name], "marker": "o", "ms": 4}
        ratio.loglog([r["batch"] for r in runs], [r["ratio_late"] for r in runs],
                     label=f"{NAMES[name]}, second half", **style)  # fmt: skip
        ratio.loglog([r["batch"] for r in runs], [r["ratio_early"] for r in runs],
                     linestyle="--", label=f"{NAMES[name]}, steps 2 to 21", **style)  # fmt: skip
    ratio.axhline(1, color="0.4", linewidth=0.8)
    ratio.axhline(PURE_NOISE, color="0.6", linestyle=":")
    ratio.text(BATCHES[0], PURE_NOISE, "independent noise alone", va="bottom", color="0.35")
    ratio.set_xticks(BATCHES, list(map(str, BATCHES)))
    ratio.minorticks_off()
    ratio.set(title="Right over left side of Assumption 5 (it holds above 1)", xlabel="batch")
    ratio.legend()
    shades = ("#56b4e9", "#0072b2", "#009e73", "#e69f00", "#cc79a7")
    for (batch, run), colour in zip(ours.items(), shades, strict=True):
        at = [run["stretch"] * (i + 0.5) for i in range(len(run["product_integral"]))]
        integral.plot(at, run["product_integral"], color=colour, label=f"batch {batch}")
    integral.set(title="Integral of Assumption 3, AdaMomentum", xlabel="step")
    integral.legend()


CLAIM = TheoryClaim(
    name="assumption",
    title="Is the noise small beside the momentum?",
    place="section 3.2, Assumptions 3 and 5, Figure 2",
    says="""The proof that AdaMomentum stays longer in flat basins needs E[noise^2] to be at most
    b1 E[m^2]/(2-b1) for large t. The paper calls this mild, since batches can be large and noise is
    usually much smaller than gradients. Figure 2 shows it for a network of five layers of width 30.
    Assumption 3 needs gradient and momentum to have the same direction most of the time.""",
    done=f"""That network was trained on real images (the digits) with AdaMomentum and Adam, with
    {len(BATCHES)} sizes of batches. At every step the gradient over all examples was computed as
    well, which gives the exact noise. From it follow both sides of Assumption 5, summed over all
    weights and for each weight (averaged over {WINDOW} steps), and the product of Assumption 3.""",
    compute=compute, judge=judge, tables=tables, draw=draw,
    notes="""
    The paper does not name the data, the batch, the activation or the lr of its Figure 2. This page
    uses the digits of scikit-learn, ReLU, and lr 0.001.

    If gradients are independent noise, E[m^2] = 0.053 E[noise^2]. The ratio of the two sides is
    then 0.043, which is too small by a factor of 23. Late in training the ratio is close to that,
    although noise and momentum both fall.

    Batches are drawn without replacement. A batch of all examples would therefore have no noise,
    and the assumption would hold trivially.

    Assumption 3 also requires beta1 <= beta2 <= 2 beta1, which holds for the usual values, and
    bounds on v.
    """,
)  # fmt: skip
