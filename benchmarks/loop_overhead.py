"""What the lab's loop costs beside the loop anyone would write, on digits_cnn.

Both train the same network on the same batches with AdaMomentum, epoch by epoch in turns.
"""

import statistics
import time

import torch
from torch import nn

from adamomentum import AdaMomentum
from adamomentum_lab.training.supervised import Supervised
from adamomentum_lab.workloads import find


def bare(model, optimizer, x, y, batch):
    order = torch.randperm(len(y))
    model.train()
    total = torch.zeros(())
    for start in range(0, len(y), batch):
        indices = order[start : start + batch]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[indices]), y[indices])
        loss.backward()
        optimizer.step()
        total += loss.detach()
    return float(total)


def main(name: str = "digits_cnn", rounds: int = 60) -> None:
    torch.set_num_threads(1)
    workload = find(name).load()("full")
    loop = Supervised(workload, AdaMomentum, seed=1)
    loop._finish_epoch = lambda _: loop.__dict__.update(_epoch=loop._epoch + 1, _update=0)
    model = workload.model()
    optimizer = AdaMomentum(model.parameters())
    x, y = workload.splits().train
    ratios = []
    times = {"the lab's loop": [], "bare": []}
    for _ in range(rounds):
        started = time.perf_counter()
        bare(model, optimizer, x, y, workload.batch)
        middle = time.perf_counter()
        loop._saved_at = time.monotonic()
        loop._train()
        ended = time.perf_counter()
        times["bare"].append(middle - started)
        times["the lab's loop"].append(ended - middle)
        ratios.append((ended - middle) / (middle - started))
    for what, values in times.items():
        print(f"{what:16} {1e3 * statistics.median(values):8.2f} ms an epoch")
    print(f"ratio            {statistics.median(ratios):8.3f} (median of {rounds} pairs)")


if __name__ == "__main__":
    main()
