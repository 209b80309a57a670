"""Step time of AdaMomentum beside torch.optim.Adam, on the shapes of the paper's models.

    python benchmarks/step_time.py [--threads N] [--rounds N] [--json FILE]

Contestants take turns in one process, so that a noisy machine disturbs all alike. Ratios of
medians come first; milliseconds are this machine's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from shapes import MODELS, count

from adamomentum import AdaMomentum

CONTESTANTS = {
    "Adam fused": lambda params: torch.optim.Adam(params, fused=True),
    "Adam foreach": lambda params: torch.optim.Adam(params, foreach=True),
    "Adam loop": lambda params: torch.optim.Adam(params, foreach=False),
    "AdaMomentum": lambda params: AdaMomentum(params),
    "AdaMomentum foreach": lambda params: AdaMomentum(params, foreach=True),
    "AdaMomentum single": lambda params: AdaMomentum(params, foreach=False),
}


def measure(shapes, rounds):
    """Median seconds per step of each contestant."""
    optimizers = {}
    for name, build in CONTESTANTS.items():
        params = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
        for param in params:
            param.grad = torch.randn_like(param)
        optimizers[name] = build(params)
    times = {name: [] for name in optimizers}
    for turn in range(rounds + 2):
        for name, optimizer in optimizers.items():
            start = time.perf_counter()
            optimizer.step()
            if turn >= 2:  # the first steps make state
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=2, help="torch threads (default: 2)")
    parser.add_argument("--rounds", type=int, default=20, help="timed steps each (default: 20)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    results = {}
    print(f"torch {torch.__version__}, {args.threads} threads. Times faster than Adam fused:")
    print(f"{'':16}{'tensors':>8}{'parameters':>12}" + "".join(f"{n:>20}" for n in CONTESTANTS))
    for model, shapes in MODELS.items():
        seconds = results[model] = measure(shapes, args.rounds)
        row = "".join(
            f"{seconds['Adam fused'] / s:>9.2f} ({s * 1e3:>6.2f} ms)" for s in seconds.values()
        )
        print(f"{model:16}{len(shapes):>8}{count(shapes):>12,}{row}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
