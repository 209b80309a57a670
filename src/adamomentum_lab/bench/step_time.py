"""Step time, bandwidth and memory of optimizers on the parameter shapes of real models.

Optimizers take turns in one process, so that noise of the machine affects all of them. Results are
ratios to torch's fused Adam in the same turns.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypedDict

import torch
from torch.utils._pytree import tree_leaves

from adamomentum_lab.contenders._benchmark import PLAIN, SUBJECT, SUBJECTS, Build
from adamomentum_lab.engine.environment import environment
from adamomentum_lab.plugins import provided
from adamomentum_lab.training.stopwatch import Peak

Shapes = list[tuple[int, ...]]
ALWAYS: dict[str, Shapes] = {"one of 64 Mi": [(64 * 2**20,)], "1,000 x 64": [(64,)] * 1000}
BASE = "Adam, fused"


def contestants() -> dict[str, Build]:
    """Return the optimizers to measure. The first is the base of the ratios."""
    adam, adamw = torch.optim.Adam, torch.optim.AdamW
    everyone: dict[str, Build] = {
        BASE: lambda p: adam(p, fused=True),
        "AdamW, fused": lambda p: adamw(p, fused=True),
        "Adam, foreach": lambda p: adam(p, foreach=True),
        "Adam, loop": lambda p: adam(p, foreach=False),
        **SUBJECTS,
    }
    if importlib.util.find_spec("pytorch_optimizer"):
        theirs = importlib.import_module("pytorch_optimizer")
        everyone["pytorch_optimizer.AdaBelief"] = lambda p: theirs.AdaBelief(p)
    return everyone


class Measured(TypedDict):
    """The measurements of one optimizer on one model."""

    state_bytes_per_parameter: float
    extra_bytes_at_peak: int
    seconds: float
    times_as_fast_as_adam_fused: float
    gb_per_second: float
    """Bandwidth of one pass: parameter and moments are read and written, the gradient is read."""


class Steps(TypedDict):
    """The measurements on one model."""

    tensors: int
    parameters: int
    steps: dict[str, Measured]


class Report(TypedDict):
    """The output of `adamomentum bench --json`."""

    machine: Mapping[str, object]
    add_gb_per_second: float
    models: dict[str, Steps]


def bandwidth_of_an_add(seconds: float = 0.5) -> float:
    """GB/s of an in-place add of 64 Mi floats: two reads and a write."""
    a, b = torch.zeros(64 * 2**20), torch.ones(64 * 2**20)
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        a.add_(b)
        times.append(time.perf_counter() - start)
    return 3 * 4 * a.numel() / statistics.median(times) / 1e9


def models() -> dict[str, Shapes]:
    """Return the parameter shapes of each model to measure."""
    found = {name: its for shapes in provided("shapes") for name, its in shapes().items()}
    return found | ALWAYS


def count(shapes: Shapes) -> int:
    """Return the number of parameters."""
    return sum(map(math.prod, shapes))


def measure(shapes: Shapes, builds: Mapping[str, Build], seconds: float) -> dict[str, Measured]:
    """Measure step time, state and peak memory of each optimizer, with the same gradients."""
    grads = [torch.randn(shape) for shape in shapes]
    size = count(shapes)
    optimizers, state, peak = {}, {}, {}
    for name, build in builds.items():
        params = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
        for param, grad in zip(params, grads, strict=True):
            param.grad = grad
        optimizer = optimizers[name] = build(params)
        optimizer.step()
        moments = [x for x in tree_leaves(dict(optimizer.state)) if torch.is_tensor(x)]
        state[name] = round(sum(x.numel() * x.element_size() for x in moments) / size, 2)
        with Peak() as memory:
            optimizer.step()
        peak[name] = memory.peak
    times: dict[str, list[float]] = {name: [] for name in builds}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or min(map(len, times.values())) < 9:
        for name, optimizer in optimizers.items():
            optimizer.step()  # not timed: it fills the caches, which the previous optimizer used
            turn = time.perf_counter() + 0.05
            for i in range(50):
                start = time.perf_counter()
                if i >= 3 and start > turn:
                    break
                optimizer.step()
                times[name].append(time.perf_counter() - start)
    took = {name: statistics.median(values) for name, values in times.items()}
    return {
        name: Measured(
            state_bytes_per_parameter=state[name],
            extra_bytes_at_peak=peak[name],
            seconds=took[name],
            times_as_fast_as_adam_fused=took[BASE] / took[name],
            gb_per_second=size * (12 + 2 * state[name]) / took[name] / 1e9,
        )
        for name in builds
    }


def main(
    names: list[str] | None = None,
    threads: int = 2,
    seconds: float = 5.0,
    json_file: Path | None = None,
    say: Callable[[str], None] = print,
) -> Report:
    """Measure all models, and say the results of each. Returns them; also writes `json_file`."""
    known = models()
    torch.set_num_threads(threads)
    builds = contestants()
    add = bandwidth_of_an_add()
    say(
        f"torch {torch.__version__}, {threads} threads, {platform.machine()}; an in-place add "
        f"reaches {add:.1f} GB/s.\nRatios are to Adam(fused=True); larger is faster. Extra memory "
        f"is the memory of new tensors."
    )
    machine = environment("cpu")
    report: Report = {"machine": machine, "add_gb_per_second": add, "models": {}}
    for model in names or known:
        shapes = known[model]
        size = count(shapes)
        say(f"\n{model}: {size:,} parameters in {len(shapes)} tensors")
        say(f"{'':28}{'ratio':>8}{'ms':>10}{'state B/param':>15}{'extra MB':>10}{'GB/s':>8}")
        results = measure(shapes, builds, seconds)
        report["models"][model] = {"tensors": len(shapes), "parameters": size, "steps": results}
        for name, r in results.items():
            say(
                f"{name:28}{r['times_as_fast_as_adam_fused']:>8.2f}{r['seconds'] * 1e3:>10.3f}"
                f"{r['state_bytes_per_parameter']:>15}{r['extra_bytes_at_peak'] / 1e6:>10.2f}"
                f"{r['gb_per_second']:>8.1f}"
            )
        plain, subject = results[PLAIN]["seconds"], results[SUBJECT]["seconds"]
        say(f"{SUBJECT} is {plain / subject:.1f} times as fast as the plain loop.")
    if json_file:
        json_file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return report
