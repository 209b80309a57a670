"""What the lab's loop costs beside the loop anyone would write.

    python benchmarks/loop_overhead.py [WORKLOAD [SCALE [ROUNDS]]]

Both train the same network on the same batches in memory with AdaMomentum and the same loss, so
many updates in turns. The bare loop steps, and does nothing else.
"""

import statistics
import sys
import time

import torch

from adamomentum import AdaMomentum
from adamomentum_lab.catalog import find_workload
from adamomentum_lab.training.feed import seed_for
from adamomentum_lab.training.supervised import Supervised

SEED = 1
SECONDS = 1.0  # of each turn, about


def bare(workload, model, optimizer, split, updates):
    """The loss, and how many labels or words were predicted."""
    model.train()
    workload.state = None
    total, predicted = torch.zeros(()), 0
    order = torch.Generator().manual_seed(seed_for(SEED, 0))  # the lab's, of its first epoch
    source = workload.source(split, training=True)
    for batch in map(source.load, source.plan(order)[:updates]):
        optimizer.zero_grad()
        loss = workload.loss(model, batch)
        loss.backward()
        if workload.clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), workload.clip)
        optimizer.step()
        total += loss.detach()
        predicted += batch[1].numel()
    return float(total), predicted


def lab(loop, updates):
    """As many updates of the lab's own epoch, from its beginning."""
    loop._update, loop._loss, loop._saved_at = 0, 0.0, time.monotonic()
    loop.stopped = lambda: loop._update == updates
    loop._train()


def timed(function, *arguments):
    started = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - started


def main(name: str = "digits_cnn", scale: str = "full", rounds: str = "40") -> None:
    torch.set_num_threads(1)
    workload = find_workload(name).load()(scale)
    loop = Supervised(workload, lambda net: AdaMomentum(net.parameters()), SEED)
    loop._finish_epoch = lambda _: None
    split = loop.data.train
    model = workload.model()
    optimizer = AdaMomentum(model.parameters())
    once = min(timed(bare, workload, model, optimizer, split, 3) for _ in range(3)) / 3
    updates = min(loop.per_epoch, max(1, round(SECONDS / once)))
    times = {"bare": [], "the lab's loop": []}
    for _ in range(int(rounds)):
        times["bare"].append(timed(bare, workload, model, optimizer, split, updates))
        times["the lab's loop"].append(timed(lab, loop, updates))
    _, predicted = bare(workload, model, optimizer, split, updates)
    print(f"{name}, {scale}: {updates} updates, {rounds} pairs")
    for what, values in times.items():
        seconds = statistics.median(values)
        each = f"{1e3 * seconds / updates:9.3f} ms an update"
        print(f"{what:16} {each}, {predicted / seconds:,.0f} labels or words a second")
    pairs = zip(*times.values(), strict=True)
    print(
        f"ratio            {statistics.median(ours / bare for bare, ours in pairs):9.3f} (median)"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
