"""The step under torch.compile on the CPU, beside torch.optim.Adam's and the uncompiled ones.

    python benchmarks/compiled.py [rounds]

Every round times each optimizer once, and ratios are taken within a round, so that a busy machine
slows both. The first calls, which compile, are told apart.
"""

import statistics
import sys
import time

import torch

from adamomentum import AdaMomentum

# Shapes, and how many parameters have each.
MODELS = {
    "16 x 64": ([(64,)], 16),
    "8 x (256 x 256 and 256)": ([(256, 256), (256,)], 8),
}
OPTIONS = {"lr": 1e-3, "weight_decay": 1e-2}


def prepared(optimizer, shapes, count, compiled, **options):
    """A step, and the seconds of its first two calls."""
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes * count]
    for param in params:
        param.grad = torch.randn_like(param)
    step = optimizer(params, **OPTIONS, **options).step
    if compiled:
        step = torch.compile(step)
    start = time.perf_counter()
    step()
    step()
    return step, time.perf_counter() - start


def timed(step):
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def main(rounds=50):
    print("ratio: median over rounds of AdaMomentum's time over Adam's in the same form")
    for name, (shapes, count) in MODELS.items():
        steps, first = {}, {}
        for form in ("compiled", "eager"):
            for optimizer in (AdaMomentum, torch.optim.AdamW):
                key = (form, optimizer)
                steps[key], first[key] = prepared(optimizer, shapes, count, form == "compiled")
        times = {key: [] for key in steps}
        for _ in range(rounds):
            for key, step in steps.items():
                times[key].append(timed(step))
        for form in ("compiled", "eager"):
            ours, theirs = (form, AdaMomentum), (form, torch.optim.AdamW)
            ratios = [a / b for a, b in zip(times[ours], times[theirs], strict=True)]
            compiling = (
                f", compiled in {first[ours]:.1f} s and {first[theirs]:.1f} s"
                if form == "compiled"
                else ""
            )
            print(
                f"{name:26} {form:9} ratio {statistics.median(ratios):.2f}, "
                f"AdaMomentum {1e6 * statistics.median(times[ours]):.0f} us, "
                f"AdamW {1e6 * statistics.median(times[theirs]):.0f} us{compiling}"
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
