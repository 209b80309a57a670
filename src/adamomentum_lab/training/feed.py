"""The batches of a run. Sharding, resuming, seeding and loading ahead are done here only."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils.data._utils.pin_memory import pin_memory

from adamomentum_lab.errors import LabError
from adamomentum_lab.source import Source, make_plan, to_device
from adamomentum_lab.training.workers import load_ahead

CPU = torch.device("cpu")
_LOADING = 1  # a separate stage, so numbers that `load` draws do not shift those of the update


CORES = "ADAMOMENTUM_CORES"
"""Environment variable: cores that a run may use. Engines with several runs at a time set it."""


def cores() -> int:
    """Return the number of cores that a run may use for loading: its share of this machine's."""
    given = os.environ.get(CORES, "")
    return int(given) if given.isdigit() and int(given) else len(os.sched_getaffinity(0))


def seed_for(seed: int, *stages: int) -> int:
    """Derive the seed of one stage of a run, such as an epoch or an update.

    The random numbers of a stage then do not depend on how many were drawn before it, and a resumed
    run needs no saved generator.
    """
    mixed = seed & 0xFFFFFFFFFFFFFFFF
    for stage in (len(stages), *stages):
        mixed = (mixed * 0x9E3779B97F4A7C15 + stage + 1) & 0xFFFFFFFFFFFFFFFF
        mixed = ((mixed ^ (mixed >> 31)) * 0xD6E8FEB86659FD93) & 0xFFFFFFFFFFFFFFFF
    return mixed >> 1


def set_seed(device: torch.device, seed: int) -> None:
    """Seed the CPU and this device only, and the generators of Python and NumPy, which a workload
    may use.

    torch.manual_seed also queues a call for every device that is not initialised, which is slow.
    """
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed & 0xFFFFFFFF)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)


def feed(
    source: Source,
    seed: int,
    epoch: int,
    *,
    rank: int = 0,
    world: int = 1,
    skip: int = 0,
    device: torch.device = CPU,
) -> Iterator[Any]:
    """Yield the training batches of an epoch, without the first `skip`.

    Each of several processes gets its share of every batch. torch is seeded before each batch is
    yielded, for its update, and after the last one, for the evaluation.
    """
    order = torch.Generator().manual_seed(seed_for(seed, epoch))
    plan = make_plan(source, order)
    numbers = range(skip, len(plan))
    shares = (_share(plan[i], rank, world) for i in numbers)
    seeds = (seed_for(seed, epoch, i, rank, _LOADING) for i in numbers)
    batches = _load(source, shares, seeds, device)
    if device.type == "cuda":
        batches = copy_ahead(batches, device)
    for i in numbers:
        batch = next(batches)
        set_seed(device, seed_for(seed, epoch, i, rank))
        yield batch
    set_seed(device, seed_for(seed, epoch, len(plan), rank))


def in_order(source: Source) -> Iterator[Any]:
    """Yield all batches of a source in order, as for an evaluation."""
    plan = make_plan(source, None)
    if getattr(source, "workers", 0):
        yield from _load(source, plan, range(len(plan)), CPU)
    else:
        for examples in plan:
            yield _load_one(source, examples)


def _load_one(source: Source, examples: Any) -> Any:
    """Load one batch. A StopIteration of the user's code must not end the loop over batches."""
    try:
        batch = source.load(examples)
    except StopIteration as error:
        raise RuntimeError("StopIteration while a batch was loaded") from error
    if batch is None:
        name = type(source).__name__
        raise LabError(f"a batch of {name} is None; load() or collate must return a batch.")
    return batch


def _share(examples: Any, rank: int, world: int) -> Any:
    # A batch with fewer examples than processes goes to all of them: no share may be empty.
    return examples if world == 1 or len(examples) < world else examples[rank::world]


def _load(
    source: Source, shares: Iterable[Any], seeds: Iterable[int], device: torch.device
) -> Iterator[Any]:
    """Load batches, each with its seed, in this process or in workers."""
    workers: int = getattr(source, "workers", 0)
    if workers:
        yield from load_ahead(source, zip(seeds, shares, strict=True), workers, _load_with_seed)
        return
    for seed, examples in zip(seeds, shares, strict=True):
        set_seed(device, seed)
        yield _load_one(source, examples)


def _load_with_seed(source: Source, seed: int, examples: Any) -> Any:
    """Load a batch in a worker process."""
    set_seed(CPU, seed)
    return _load_one(source, examples)


def copy_ahead(
    batches: Iterator[Any], device: torch.device, pin: Callable[[Any], Any] = pin_memory
) -> Iterator[Any]:
    """Yield batches on a GPU. Each is copied while the one before it is used."""
    before: list[Any] = []
    for batch in batches:
        before.append(to_device(pin(batch), device))
        if len(before) > 1:
            yield before.pop(0)
    yield from before
