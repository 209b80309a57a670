"""Where the time of an update goes on images, and what two choices make of it.

    python benchmarks/vision.py [WORKLOAD [SCALE [ROUNDS]]]

The input pipeline (cutting a batch, augmentation, normalisation) as a part of the update;
channels-last beside the usual layout; bfloat16 autocast beside float32. All in turns, one thread.
"""

import statistics
import sys
import time

import torch

from adamomentum import AdaMomentum
from adamomentum_lab.catalog import find_workload


def main(name: str = "cifar10_resnet34", scale: str = "mini", rounds: str = "12") -> None:
    torch.set_num_threads(1)
    workload = find_workload(name).load()(scale)
    source = workload.source(workload.splits().train, training=True)
    order = torch.Generator()

    def batch():
        return source.load(source.plan(order)[0])

    def update(layout, dtype):
        model = workload.model().to(memory_format=layout).train()
        optimizer = AdaMomentum(model.parameters())

        def once(x, y):
            x = x.contiguous(memory_format=layout)
            with torch.autocast("cpu", torch.bfloat16, enabled=dtype is torch.bfloat16):
                loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        return once

    ways = {
        "channels-last": update(torch.channels_last, torch.float32),
        "usual layout": update(torch.contiguous_format, torch.float32),
        "channels-last, bf16": update(torch.channels_last, torch.bfloat16),
    }
    times = {"input pipeline": [], **{way: [] for way in ways}}
    for turn in range(int(rounds) + 1):
        for way, once in ways.items():
            started = time.perf_counter()
            x, y = batch()
            x = workload.augmented(x)
            ready = time.perf_counter()
            once(x, y)
            if turn:  # the first warms up
                times["input pipeline"].append(ready - started)
                times[way].append(time.perf_counter() - ready)
    medians = {what: 1e3 * statistics.median(values) for what, values in times.items()}
    print(f"{name}, {scale}, batch {workload.batch}, {rounds} rounds")
    for what, ms in medians.items():
        print(f"{what:20} {ms:9.2f} ms, {ms / medians['channels-last']:6.3f} of channels-last")
    share = medians["input pipeline"] / (medians["input pipeline"] + medians["channels-last"])
    print(f"input pipeline: {100 * share:.1f} % of an update")


if __name__ == "__main__":
    main(*sys.argv[1:])
