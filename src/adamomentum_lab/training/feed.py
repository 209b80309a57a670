"""The batches of a run. Sharding, resuming, seeding and loading ahead are done here only."""

from __future__ import annotations

import pickle
import random
import signal
import sys
import warnings
from collections.abc import Iterable, Iterator
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from adamomentum_lab.errors import LabError, locate
from adamomentum_lab.modules import import_files, imported_files
from adamomentum_lab.source import Source, make_plan

CPU = torch.device("cpu")
AHEAD = 4
"""Batches that each worker process loads ahead."""
_LOADING = 1  # a separate stage, so numbers that `load` draws do not shift those of the update


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
        yield from _load_ahead(source, zip(seeds, shares, strict=True), workers)
        return
    for seed, examples in zip(seeds, shares, strict=True):
        set_seed(device, seed)
        yield _load_one(source, examples)


class _UserFiles:
    """Unpickling this imports the users' files, so that their classes can be unpickled too."""

    def __reduce__(self) -> tuple[Any, ...]:
        return import_files, (imported_files(),)


class _Loading(Dataset[Any]):
    """The dataset of a worker process: item (seed, examples) is a loaded batch."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def __getstate__(self) -> tuple[object, Source]:
        return _UserFiles(), self.source  # the files must be unpickled first

    def __setstate__(self, state: tuple[object, Source]) -> None:
        self.source = state[1]

    def __getitem__(self, item: tuple[int, Any]) -> Any:
        seed, examples = item
        try:
            set_seed(CPU, seed)
            return _load_one(self.source, examples)
        # Returned, since an error raised in a worker arrives with the text of its traceback.
        except LabError as error:
            return error
        except Exception as error:
            return locate(error, Path())


def _load_ahead(source: Source, items: Iterable[tuple[int, Any]], workers: int) -> Iterator[Any]:
    def own(examples: Any) -> Any:
        # A view would be sent with the whole tensor behind it.
        return examples.clone() if isinstance(examples, Tensor) else examples

    loader: DataLoader[Any] = DataLoader(
        _Loading(source),
        batch_size=None,
        sampler=[(seed, own(examples)) for seed, examples in items],
        num_workers=workers,
        generator=torch.Generator(),  # by default it would draw one of the update's numbers
        multiprocessing_context="spawn",  # a fork of a process with threads may hang
        prefetch_factor=AHEAD,
    )
    resource_tracker.ensure_running()  # starting it later would unblock SIGINT again
    # Ctrl-C is for this process alone. Workers inherit the blocked signals.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Got pickle error")  # reported below
            ready = iter(loader)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise LabError(
            f"{type(source).__name__} cannot be sent to worker processes ({error}); define its "
            "functions and classes at the top of a file, or use no workers."
        ) from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    for batch in ready:
        if isinstance(batch, LabError):
            raise batch
        yield batch
