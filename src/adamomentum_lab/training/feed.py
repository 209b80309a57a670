"""The batches of a run: shared between processes, resumed, seeded and loaded ahead, here alone."""

from __future__ import annotations

import pickle
import signal
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
"""Batches that a worker process has ready."""
_LOADING = 1  # a stage of its own: what `load` draws does not change what the update draws


def seed_for(seed: int, *stages: int) -> int:
    """A seed of its own for every stage of a run: its random numbers do not depend on how many
    were drawn before it, and a continued run needs no memory of them."""
    mixed = seed & 0xFFFFFFFFFFFFFFFF
    for stage in (len(stages), *stages):
        mixed = (mixed * 0x9E3779B97F4A7C15 + stage + 1) & 0xFFFFFFFFFFFFFFFF
        mixed = ((mixed ^ (mixed >> 31)) * 0xD6E8FEB86659FD93) & 0xFFFFFFFFFFFFFFFF
    return mixed >> 1


def set_seed(device: torch.device, seed: int) -> None:
    """torch.manual_seed for the devices in use: for all others it would note the call, at length,
    in case they are used one day."""
    torch.default_generator.manual_seed(seed)
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
    """The batches of an epoch in training, from the one after the first `skip` on.

    Of several processes, each gets its part of every batch. torch is seeded for the update of each
    batch before it is given out, and for the evaluation after the last.
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
    """All batches of a source in order, as an evaluation reads them."""
    plan = make_plan(source, None)
    if getattr(source, "workers", 0):
        yield from _load(source, plan, range(len(plan)), CPU)
    else:
        for examples in plan:
            yield _load_one(source, examples)


def _load_one(source: Source, examples: Any) -> Any:
    """One batch. Nothing that a user's code does may pass for the end of the batches."""
    try:
        batch = source.load(examples)
    except StopIteration as error:
        raise RuntimeError("StopIteration while a batch was loaded") from error
    if batch is None:
        name = type(source).__name__
        raise LabError(f"a batch of {name} is None; load() or collate must return a batch.")
    return batch


def _share(examples: Any, rank: int, world: int) -> Any:
    # A batch of fewer examples than processes goes to all: nobody may have none.
    return examples if world == 1 or len(examples) < world else examples[rank::world]


def _load(
    source: Source, shares: Iterable[Any], seeds: Iterable[int], device: torch.device
) -> Iterator[Any]:
    """The batches of some examples, each loaded with its seed, here or in worker processes."""
    workers: int = getattr(source, "workers", 0)
    if workers:
        yield from _load_ahead(source, zip(seeds, shares, strict=True), workers)
        return
    for seed, examples in zip(seeds, shares, strict=True):
        set_seed(device, seed)
        yield _load_one(source, examples)


class _UserFiles:
    """Where this is unpickled, classes of users' files can be found from then on."""

    def __reduce__(self) -> tuple[Any, ...]:
        return import_files, (imported_files(),)


class _Loading(Dataset[Any]):
    """What a worker process does: load a batch."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def __getstate__(self) -> tuple[object, Source]:
        return _UserFiles(), self.source  # in this order

    def __setstate__(self, state: tuple[object, Source]) -> None:
        self.source = state[1]

    def __getitem__(self, item: tuple[int, Any]) -> Any:
        seed, examples = item
        try:
            set_seed(CPU, seed)
            return _load_one(self.source, examples)
        # Raised in a worker, they would bring their tracebacks along.
        except LabError as error:
            return error
        except Exception as error:
            return locate(error, Path())


def _load_ahead(source: Source, items: Iterable[tuple[int, Any]], workers: int) -> Iterator[Any]:
    def own(examples: Any) -> Any:
        """A view would be sent with all that it is a view of."""
        return examples.clone() if isinstance(examples, Tensor) else examples

    loader: DataLoader[Any] = DataLoader(
        _Loading(source),
        batch_size=None,
        sampler=[(seed, own(examples)) for seed, examples in items],
        num_workers=workers,
        generator=torch.Generator(),  # else it draws a number that belongs to the update
        multiprocessing_context="spawn",  # a fork of a process with threads may hang
        prefetch_factor=AHEAD,
    )
    resource_tracker.ensure_running()  # to start it later would unblock SIGINT again
    # Ctrl-C is for this process; workers inherit what is blocked.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Got pickle error")  # said below
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
