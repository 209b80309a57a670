"""Time and memory of an update, measured on an otherwise idle process, contenders in turns."""

from __future__ import annotations

import contextlib
import statistics
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from adamomentum_lab.training.feed import feed
from adamomentum_lab.training.loop import Loop

TURN = 10
"""Updates in a turn. The one before them is not timed: it fills the caches."""


class Peak(TorchDispatchMode):
    """Counts the bytes of new tensors that are alive at the same time. `peak` is the largest."""

    def __init__(self) -> None:
        super().__init__()
        self.alive = self.peak = 0
        self._seen: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = (x for x in tree_leaves((args, kwargs)) if torch.is_tensor(x))
        old = {x.untyped_storage()._cdata for x in given}
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if torch.is_tensor(tensor):
                storage = tensor.untyped_storage()
                if storage._cdata not in old | self._seen:
                    self._seen.add(storage._cdata)
                    self.alive += storage.nbytes()
                    weakref.finalize(tensor, self._free, storage._cdata, storage.nbytes())
        self.peak = max(self.peak, self.alive)
        return out

    def _free(self, key: int, nbytes: int) -> None:
        self._seen.discard(key)
        self.alive -= nbytes


def measure(
    loops: Mapping[str, Callable[[], Loop]], updates: int = 200, seconds: float = 10.0
) -> dict[str, dict[str, float | int]]:
    """Measure each loop: so many updates, or as many as it does in so many seconds.

    The keys are those of `StepTime`. Nothing is evaluated or kept.
    """
    made = {name: make() for name, make in loops.items()}
    steps = {name: _updates(loop) for name, loop in made.items()}
    memory = {}
    for name, own in steps.items():
        next(own)  # makes the state of the optimizer
        memory[name] = _memory_of_step(made[name], own)
    times: dict[str, list[float]] = {name: [] for name in steps}
    computed, began = time.process_time(), time.perf_counter()
    while min(map(len, times.values())) < updates:
        for name, own in steps.items():
            next(own)
            times[name] += [next(own) for _ in range(min(TURN, updates - len(times[name])))]
        if time.perf_counter() - began > seconds * len(steps):
            break
    alone = (time.process_time() - computed) / (time.perf_counter() - began)
    alone = min(1.0, alone / torch.get_num_threads())
    found: dict[str, dict[str, float | int]] = {}
    for name, own_times in times.items():
        milliseconds = sorted(1e3 * one for one in own_times)
        quarter = len(milliseconds) // 4
        found[name] = {
            "milliseconds": statistics.median(milliseconds),
            "low": milliseconds[quarter],
            "high": milliseconds[-1 - quarter],
            "updates": len(milliseconds),
            "memory": memory[name],
            "alone": alone,
        }
    return found


def _updates(loop: Loop) -> Iterator[float]:
    """The seconds of one update after the other: its batch, and the step. Learning rates stay as
    they begin, which changes no time."""
    for epoch in count():
        loop.workload.state = None
        loop._set_modes(training=True)
        loop._train_mode()
        batches = feed(loop.source, loop.seed, epoch, device=loop.fabric.device)
        # On processors, their time: it is that of the clock where nothing else runs, and hardly
        # longer where something does.
        clock = time.process_time if loop.fabric.device.type == "cpu" else time.perf_counter
        while True:
            began = clock()
            batch = next(batches, None)
            if batch is None:
                break
            loop.workload.measured = {}
            float(loop._step(batch).sum())
            yield clock() - began


def _memory_of_step(loop: Loop, updates: Iterator[float]) -> int:
    """Bytes of model, gradients and optimizer state, and of what the optimizer's step adds."""
    peaks: list[int] = []
    modes: list[Peak] = []
    step = contextlib.ExitStack()

    def begin(*_: object) -> None:
        modes.append(step.enter_context(Peak()))

    def end(*_: object) -> None:
        step.close()
        peaks.append(modes[-1].peak)

    hooks = []
    for optimizer, _ in loop._optimizers:
        hooks += [optimizer.register_step_pre_hook(begin), optimizer.register_step_post_hook(end)]
    next(updates)
    for hook in hooks:
        hook.remove()
    tensors: list[Tensor] = []
    for optimizer, _ in loop._optimizers:
        tensors += [x for x in tree_leaves(dict(optimizer.state)) if torch.is_tensor(x)]
        for group in optimizer.param_groups:
            for param in group["params"]:
                tensors += [param] if param.grad is None else [param, param.grad]
    storages = {x.untyped_storage()._cdata: x.untyped_storage().nbytes() for x in tensors}
    return sum(storages.values()) + max(peaks, default=0)
