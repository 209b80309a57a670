"""The ratio of AdaMomentum's step length to Adam's at the same lr, and the advice on lr."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from adamomentum.torch import lr_from_adam
from adamomentum_lab import contenders
from adamomentum_paper.theory import Figure, Finding, Numbers, Size, Table, TheoryClaim, Tick
from adamomentum_paper.theory._drawing import COLOURS
from adamomentum_paper.theory._findings import list_findings, word_for
from adamomentum_paper.theory._network import Network
from adamomentum_paper.theory._pair import TwoOptimizers

BETA1S = (0.5, 0.9, 0.99)
SIGNALS = [0.0, *(round(10 ** (k / 4 - 2), 6) for k in range(17))]  # mean over deviation, to 100
CURVATURES = [round(10 ** (k / 4 - 4), 8) for k in range(21)]  # h lr / sigma, 1e-4 to 10
BATCHES = (8, 32, 128, 897)  # of the network; the last is all examples
LR = 1e-3  # Adam's default
NEAR = 0.03  # relative deviation that counts as agreement
SLACK = 1.05  # beyond the upper end
NEARLY = 1.25  # factor that counts as the same length of steps
# Replicas of a stream, its steps; steps of the network, seeds.
_SIZES = {
    "smoke": (50, 1_500, 60, 1),
    "default": (150, 6_000, 500, 2),
    "paper": (2_000, 30_000, 3_000, 10),
}


def predicted(signal: float, beta1: float) -> float:
    """Return the ratio of AdaMomentum's step to Adam's for independent gradients.

    The signal s is the mean over the standard deviation. Both steps have the same numerator, and
    E[g^2] = s^2 + 1 and E[m^2] = s^2 + (1-b1)/(1+b1).
    """
    return math.sqrt((signal**2 + 1) / (signal**2 + (1 - beta1) / (1 + beta1)))


def over_replicas(theirs: Tensor, ours: Tensor) -> tuple[list[float], list[float]]:
    """Return the root of the ratio of means over the last dimension, and half its interval."""
    factor = (theirs.mean(-1) / ours.mean(-1)).sqrt()
    relative = (theirs / theirs.mean(-1, keepdim=True) - ours / ours.mean(-1, keepdim=True)).std(-1)
    half = 1.96 * factor * relative / (2 * math.sqrt(theirs.shape[-1]))  # by the delta method
    return factor.tolist(), half.tolist()


def compute(size: Size, tick: Tick) -> Numbers:
    """Measure independent streams, noisy quadratics and a network, then try the advice."""
    replicas, steps, updates, seeds = _SIZES[size]
    numbers: Numbers = {"replicas": replicas, "steps": steps, "updates": updates, "seeds": seeds}
    random = torch.Generator().manual_seed(8)
    numbers["streams"] = list(_streams(replicas, steps, random, lambda done: tick(0.4 * done)))
    numbers["quadratics"] = _quadratics(replicas, steps, random)
    tick(0.6)
    for key, run, start in (("network", _network, 0.6), ("advice", _advice, 0.8)):
        numbers[key] = []
        for i, batch in enumerate(BATCHES):
            numbers[key].append(run(batch, updates, seeds))
            tick(start + 0.2 * (i + 1) / len(BATCHES))
    return numbers


def _streams(replicas: int, steps: int, random: torch.Generator, tick: Tick) -> Iterator[Numbers]:
    """Yield the ratio of mean squares for independent gradients s + noise, over replicas."""
    signals = torch.tensor(SIGNALS, dtype=torch.float64)[:, None].expand(-1, replicas)
    for i, beta1 in enumerate(BETA1S):
        pair = TwoOptimizers(nn.Parameter(torch.zeros_like(signals)), 0.0, (beta1, 0.999))
        for step in range(steps):
            pair.step(signals + torch.randn(signals.shape, generator=random, dtype=torch.float64))
            tick((i + step / steps) / len(BETA1S))
        measured, half = over_replicas(*pair.squares())
        expected = [predicted(s, beta1) for s in SIGNALS]
        yield {"beta1": beta1, "measured": measured, "half": half, "predicted": expected}


def _quadratics(replicas: int, steps: int, random: torch.Generator) -> Numbers:
    """Run Adam on h x^2/2 with noise of standard deviation sigma, from the minimum.

    Only h lr/sigma matters: in units of lr and sigma the gradient is h lr/sigma x + noise, and lr
    is 1.
    """
    curvature = torch.tensor(CURVATURES, dtype=torch.float64)[:, None].expand(-1, replicas)
    x = nn.Parameter(torch.zeros_like(curvature))
    pair = TwoOptimizers(x, 1.0, (0.9, 0.999))
    signal = torch.zeros_like(curvature)
    for step in range(steps):
        true = curvature * x.detach()
        pair.step(true + torch.randn(x.shape, generator=random, dtype=torch.float64))
        if step >= steps // 2:
            signal += true * true / (steps - steps // 2)
    measured, half = over_replicas(*pair.squares())
    return {
        "curvature": CURVATURES,
        "signal": signal.mean(1).sqrt().tolist(),
        "measured": measured,
        "half": half,
    }


def _network(batch: int, updates: int, seeds: int) -> Numbers:
    """Train with Adam at its default lr; take the ratio of every weight that had a gradient."""
    at = sorted({max(1, round(updates * k / 20)) for k in range(21)})
    quantiles = torch.zeros(len(at), 3)
    for seed in range(seeds):
        net = Network(seed)
        random = torch.Generator().manual_seed(1000 + seed)
        pair = TwoOptimizers(net.weights, LR, (0.9, 0.999))
        for step in range(1, updates + 1):
            pair.step(net.gradient(net.batch(batch, random))[1])
            if step in at:
                theirs, ours = pair.squares()
                ratio = (theirs / ours)[ours > 0].sqrt()
                quantiles[at.index(step)] += ratio.quantile(torch.tensor([0.05, 0.5, 0.95])) / seeds
    low, median, high = quantiles.double().t().tolist()
    return {"batch": batch, "at": at, "low": low, "median": median, "high": high}


def _advice(batch: int, updates: int, seeds: int) -> Numbers:
    """Train with Adam, and with AdaMomentum at the same and at the translated lr."""
    entrants = {
        "adam": ("adam", LR, 1e-8),
        "same": ("adamomentum", LR, 1e-16),
        "translated": ("adamomentum", lr_from_adam(LR, 0.9), 1e-16),
    }
    found: Numbers = {"batch": batch}
    for key, (name, lr, eps) in entrants.items():
        curves, lengths = [], []
        for seed in range(seeds):
            net = Network(seed)
            random = torch.Generator().manual_seed(1000 + seed)
            optimizer = contenders.get(name).build([net.weights], lr=lr, eps=eps)
            curve, length = [], 0.0
            for step in range(updates):
                before = net.weights.detach().clone()
                net.weights.grad = net.gradient(net.batch(batch, random))[1]
                optimizer.step()
                # AdaMomentum's long first steps would distort the mean.
                if step >= updates // 2:
                    length += float((net.weights.detach() - before).norm())
                if step % max(1, updates // 30) == 0:
                    curve.append(net.gradient()[0])
            curves.append(curve)
            lengths.append(length / (updates - updates // 2))
        found[key] = {
            "loss": torch.tensor(curves, dtype=torch.float64).mean(0).tolist(),
            "step_length": sum(lengths) / seeds,
        }
    return found


@list_findings
def judge(numbers: Numbers) -> Iterator[Finding]:
    """Judge the formula, noisy minima, the network, and whether the advice equalises steps."""
    worst = max(
        abs(m / p - 1)
        for stream in numbers["streams"]
        for m, p in zip(stream["measured"], stream["predicted"], strict=True)
    )
    limit = predicted(0.0, 0.9)
    yield Finding(
        "For independent gradients AdaMomentum's steps are longer than Adam's by a factor "
        "between 1 (signal) and sqrt((1+b1)/(1-b1)) (noise).",
        "holds" if worst <= NEAR else "does not hold",
        f"Over beta1 of {', '.join(map(str, BETA1S))} and {len(SIGNALS)} ratios of signal to "
        f"noise the measured factor is within {worst:.1%} of the formula; {limit:.2f} at "
        "beta1 0.9 for pure noise.",
    )
    quadratics = numbers["quadratics"]
    rows = zip(*(quadratics[key] for key in ("curvature", "measured", "half")), strict=True)
    inside = [c for c, m, half in rows if m + half >= 1 and m - half <= limit]
    most = max(quadratics["measured"])
    yield Finding(
        "So it is near a minimum, where the noise remains.",
        "holds" if len(inside) == len(CURVATURES) else "holds only when",
        f"Around the minimum of a noisy quadratic the factor is "
        f"{quadratics['measured'][0]:.2f} at h lr / sigma = {CURVATURES[0]:g}, and not above "
        f"{limit:.2f} beyond its error up to {max(inside, default=0):g}. Where lr is larger "
        f"the gradient changes sign from step to step, momentum cancels it, and the factor "
        f"reaches {most:.2f}.",
    )
    medians = {net["batch"]: net["median"][-1] for net in numbers["network"]}
    between = [b for b, m in medians.items() if 1 <= m <= SLACK * limit]
    yield Finding(
        "So it is in the training of a network, for the median weight.",
        word_for(len(between), len(BATCHES)),
        f"Within {SLACK - 1:.0%} of these bounds for {len(between)} of {len(medians)} sizes: "
        + ", ".join(f"{m:.2f} with batches of {batch}" for batch, m in medians.items())
        + f". One weight in twenty is above "
        f"{max(net['high'][-1] for net in numbers['network']):.1f} for some size.",
    )
    translated = {batch: median / limit for batch, median in medians.items()}
    good = [batch for batch, length in translated.items() if 1 / NEARLY <= length <= NEARLY]
    yield Finding(
        f"Advice: an Adam lr divided by {limit:.2f} (lr_from_adam) gives steps of Adam's length.",
        word_for(len(good), len(BATCHES)),
        "On the same gradients the median step is then "
        + ", ".join(f"{x:.2f} of Adam's with batches of {b}" for b, x in translated.items())
        + f". Right within a quarter for batches of {', '.join(map(str, good)) or 'no size'}.",
    )


def tables(numbers: Numbers) -> list[Table]:
    """Tabulate streams, quadratics, network and advice."""
    streams = numbers["streams"]
    return [
        Table(
            "Independent gradients: AdaMomentum's step over Adam's, measured (95 %) and predicted",
            ("signal/noise", *(f"beta1 {s['beta1']}: {what}" for s in streams
                               for what in ("measured", "±", "predicted"))),
            [[signal, *(s[what][i] for s in streams for what in ("measured", "half", "predicted"))]
             for i, signal in enumerate(SIGNALS)],
        ),
        Table(
            "Around the minimum of a noisy quadratic, beta1 0.9",
            ("h lr / sigma", "root mean square of the true gradient / sigma", "factor", "95 %"),
            [list(row) for row in zip(*(numbers["quadratics"][key] for key in
                                        ("curvature", "signal", "measured", "half")), strict=True)],
        ),
        Table(
            f"Network trained by Adam, after {numbers['updates']} updates: factor over the weights",
            ("batch", "5 %", "median", "95 %"),
            [[n["batch"], n["low"][-1], n["median"][-1], n["high"][-1]]
             for n in numbers["network"]],
        ),
        Table(
            f"Training loss after {numbers['updates']} updates, and mean length of the later steps",
            ("batch", "Adam: loss", "length", "AdaMomentum, same lr: loss", "length",
             "AdaMomentum, translated lr: loss", "length"),
            [[a["batch"], *(value for key in ("adam", "same", "translated")
                            for value in (a[key]["loss"][-1], a[key]["step_length"]))]
             for a in numbers["advice"]],
        ),
    ]  # fmt: skip


def draw(numbers: Numbers, figure: Figure) -> None:
    """Draw the streams with the formula, the quadratics, the network and the advice."""
    (streams, quadratics), (network, advice) = figure.subplots(2, 2)
    shades = ("#56b4e9", "#0072b2", "#003f63")
    for stream, colour in zip(numbers["streams"], shades, strict=True):
        streams.plot(SIGNALS[1:], stream["predicted"][1:], color=colour, alpha=0.6)
        label = rf"$\beta_1$ = {stream['beta1']}"
        streams.plot(SIGNALS[1:], stream["measured"][1:], "o", ms=4, color=colour, label=label)
    streams.set(xscale="log", yscale="log", xlabel="signal / noise", ylabel="step over Adam's",
                title="Independent gradients: points measured, lines predicted")  # fmt: skip
    streams.legend()
    quadratics.semilogx(CURVATURES, numbers["quadratics"]["measured"], "o-", ms=4, color=shades[1])
    quadratics.axhline(predicted(0.0, 0.9), color="0.5", linestyle=":")
    quadratics.text(CURVATURES[0], predicted(0.0, 0.9) + 0.1, "pure noise", color="0.35")
    quadratics.set(title="Around the minimum of a noisy quadratic", xlabel=r"$h\,lr/\sigma$",
                   ylabel="step over Adam's")  # fmt: skip
    for net, colour in zip(numbers["network"], ("#0072b2", "#009e73", "#e69f00", "#cc79a7"),
                           strict=True):  # fmt: skip
        network.plot(net["at"], net["median"], color=colour, label=f"batch {net['batch']}")
        network.fill_between(net["at"], net["low"], net["high"], color=colour, alpha=0.12)
    network.axhline(predicted(0.0, 0.9), color="0.5", linestyle=":")
    network.set(title="Network: median and 90 % of the weights", xlabel="update",
                ylabel="step over Adam's", yscale="log")  # fmt: skip
    network.legend(ncols=2)
    shown = numbers["advice"][1]
    labels = {
        "adam": ("Adam", COLOURS["adam"]),
        "same": ("AdaMomentum, same lr", "#56b4e9"),
        "translated": ("AdaMomentum, translated lr", COLOURS["adamomentum"]),
    }
    for key, (label, colour) in labels.items():
        loss = shown[key]["loss"]
        every = max(1, numbers["updates"] // 30)
        advice.plot([i * every for i in range(len(loss))], loss, color=colour, label=label)
    advice.set(title=f"Training loss, batches of {shown['batch']}", xlabel="update", yscale="log")
    advice.legend()


CLAIM = TheoryClaim(
    name="noise_ratio",
    title="At the same lr, AdaMomentum's steps differ from Adam's",
    place="follows from Algorithm 1; concerns sections 3.1 and 5",
    says="""The paper compares AdaMomentum with Adam at the same lr in most of its experiments, and
    says that AdaMomentum's steps are smaller near a minimum. For noisy gradients its algorithm does
    the opposite: momentum has less noise than the gradient, so its square, the divisor, is smaller
    and the step is longer. For pure noise the factor is sqrt((1+b1)/(1-b1)), which is 4.36 at beta1
    0.9.""",
    done="""Both optimizers received the same gradients, and the lengths of their steps were
    compared: on independent gradients of known mean and deviation, around the minimum of noisy
    quadratics, and during the training of a network of five layers on real images. Then the network
    was trained with AdaMomentum at Adam's lr, and at the lr of lr_from_adam.""",
    compute=compute, judge=judge, tables=tables, draw=draw,
    notes="""
    The advice for moving from Adam: if batches are small and gradients noisy, divide the lr by 4.36
    (adamomentum.torch.lr_from_adam). With large batches early in training, divide by less. If a
    comparison at the same lr shows a difference, check whether Adam at 4.36 times that lr shows it
    too (the control adam-translated).

    The factor may exceed 4.36: gradients that change sign from step to step cancel in the momentum,
    but not in their squares.

    Longer steps may help or hurt. The page does not say which lr is best, only that the same lr
    gives different steps. In the last table, losses and step lengths are from runs that are at
    different points after the same number of updates.

    The gradients of a network are not independent from step to step, so the formula is only a guide
    there.
    """,
)  # fmt: skip
