"""What the lab's loop costs beside the loop anyone would write.

    python benchmarks/loop_overhead.py [WORKLOAD [SCALE [ROUNDS]]]

Both train the same network on the same data in memory with AdaMomentum and the same loss, so many
updates in turns. The bare loop shuffles, cuts batches and steps, and does nothing else.
"""

import itertools
import statistics
import sys
import time

import torch

from adamomentum import AdaMomentum
from adamomentum_lab.training.supervised import Supervised
from adamomentum_lab.workloads import find

SECONDS = 1.0  # of each turn, about


def bare(workload, model, optimizer, split, updates):
    size = len(split[0])
    order = torch.randperm(size)
    model.train()
    total = torch.zeros(())
    for start in itertools.islice(range(0, size, workload.batch), updates):
        indices = order[start : start + workload.batch]
        optimizer.zero_grad()
        loss = workload.loss(model, tuple(tensor[indices] for tensor in split))
        loss.backward()
        optimizer.step()
        total += loss.detach()
    return float(total)


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
    workload = find(name).load()(scale)
    loop = Supervised(workload, AdaMomentum, seed=1)
    loop._finish_epoch = lambda _: None
    split = loop.data.train
    model = workload.model()
    optimizer = AdaMomentum(model.parameters())
    once = min(timed(bare, workload, model, optimizer, split, 3) for _ in range(3)) / 3
    updates = min(workload.updates(split), max(1, round(SECONDS / once)))
    times = {"bare": [], "the lab's loop": []}
    for _ in range(int(rounds)):
        times["bare"].append(timed(bare, workload, model, optimizer, split, updates))
        times["the lab's loop"].append(timed(lab, loop, updates))
    print(f"{name}, {scale}: {updates} updates of {workload.batch}, {rounds} pairs")
    for what, values in times.items():
        print(f"{what:16} {1e3 * statistics.median(values) / updates:9.3f} ms an update")
    pairs = zip(*times.values(), strict=True)
    print(
        f"ratio            {statistics.median(ours / bare for bare, ours in pairs):9.3f} (median)"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
