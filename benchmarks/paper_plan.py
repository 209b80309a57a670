"""What the whole paper costs at `full`: updates, FLOPs, hours and money.

    python benchmarks/paper_plan.py [--tflops 8] [--price 2.5]

FLOPs of an update are counted by torch.utils.flop_counter on the lab's own networks at `full`, on
meta tensors: nothing is computed, and no data is needed. Hours follow from an ASSUMED speed
(--tflops, the same for all) and money from an ASSUMED price of an hour; no GPU was measured.
Evaluation, reading of data and whatever keeps a GPU waiting are not in it.
"""

import argparse

import torch
from torch.utils.flop_counter import FlopCounterMode

from adamomentum_lab import contenders
from adamomentum_lab.catalog import find_workload
from adamomentum_lab.rules import at_scale
from adamomentum_paper.data.parallel import PAD
from adamomentum_paper.models.transformer import Transformer

# Section 5.2 of the paper; 5 for all others.
SEEDS = {"imagenet_resnet18": 3}
# The mean batch of the 4,600 pairs of IWSLT'14 at hand: 41 of them, of 4,096 tokens at most on
# either side. The whole training side is taken to be alike.
SENTENCES, GERMAN, ENGLISH, PIECES = 110, 36, 27, 10_000
IWSLT14_UPDATES = round(41 * 160_239 / 4_600)
# Examples of a pass under the protocol `paper`, by which updates follow.
IMAGES = {"cifar10": 50_000, "imagenet": 1_281_167}
TREEBANK = 929_589
PAPER = (
    "cifar10_vgg16", "cifar10_resnet34", "cifar10_densenet121", "imagenet_resnet18",
    "ptb_lstm1", "ptb_lstm2", "ptb_lstm3", "iwslt14_transformer",
    "cifar10_dcgan", "cifar10_sngan", "cifar10_biggan",
)  # fmt: skip


def counted(compute) -> int:
    """FLOPs of what is called, and of the way back from the loss it returns."""
    with FlopCounterMode(display=False) as counter:
        compute().backward()
    return counter.get_total_flops()


def flops_of_an_update(name: str, workload) -> int:
    with torch.device("meta"):
        if name.endswith("transformer"):
            model = Transformer(PIECES, PAD, workload.shapes["full"])
            source = torch.zeros(SENTENCES, GERMAN, dtype=torch.long)
            before = torch.zeros(SENTENCES, ENGLISH, dtype=torch.long)
            return counted(lambda: model(source, before).sum())
        model = workload.model().train()
        if name.startswith("ptb"):
            words = torch.zeros(70, workload.batch, dtype=torch.long)
            return counted(lambda: workload.loss(model, (words, words, 1.0)))
        if name.endswith("gan"):
            images = torch.zeros(workload.batch * workload.d_updates, 3, 32, 32, dtype=torch.uint8)
            batch = (images, torch.zeros(len(images), dtype=torch.long))
            part = next(workload.parts(batch))
            d = counted(lambda: workload.discriminator_loss(model, part))
            model.discriminator.requires_grad_(False)
            return d * workload.d_updates + counted(lambda: workload.loss(model, batch))
        size = 224 if name.startswith("imagenet") else 32
        return counted(lambda: model(torch.zeros(workload.batch, 3, size, size)).sum())


def updates_of_a_run(name: str, workload) -> int:
    epochs = at_scale(workload.epochs, "full")
    if name.endswith("gan"):
        return epochs * at_scale(workload.steps, "full")
    if name.startswith("ptb"):
        return epochs * len(workload.source((range(TREEBANK),), training=True))
    if name.startswith("iwslt14"):
        return epochs * IWSLT14_UPDATES
    return epochs * -(-IMAGES[name.split("_")[0]] // workload.batch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tflops", type=float, default=8.0, help="assumed, of one GPU")
    parser.add_argument("--price", type=float, default=2.5, help="assumed, of its hour")
    given = parser.parse_args()
    hours = 0.0
    print(
        "| workload | optimizers x seeds | epochs | updates of a run | GFLOP of an update "
        "| PFLOP of a run | GPU hours of a run | of all |"
    )
    print("| --- " * 8 + "|")
    for name in PAPER:
        workload = find_workload(name).load()("full", "paper")
        flops, updates = flops_of_an_update(name, workload), updates_of_a_run(name, workload)
        epochs = at_scale(workload.epochs, "full")
        optimizers = len(workload.settings.get("paper") or contenders.STANDARD)
        seeds = SEEDS.get(name, 5)
        run = flops * updates / (given.tflops * 1e12) / 3600
        hours += run * optimizers * seeds
        print(
            f"| `{name}` | {optimizers} x {seeds} | {epochs} | {updates:,} "
            f"| {flops / 1e9:,.1f} | {flops * updates / 1e15:,.1f} | {run:,.1f} "
            f"| {run * optimizers * seeds:,.0f} |"
        )
    print(
        f"\n{hours:,.0f} GPU hours at {given.tflops:g} TFLOP/s: {hours * given.price:,.0f} at "
        f"{given.price:g} an hour, or {hours / 24 / 8:,.0f} days on eight GPUs."
    )


if __name__ == "__main__":
    main()
