"""Processes that load batches ahead. They start once a run and serve all its sources."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from adamomentum_lab.errors import LabError, locate
from adamomentum_lab.modules import import_files, imported_files

AHEAD = 4
"""Batches that each process loads ahead."""
KEPT = 8
"""Sources that a pool holds at most."""


class Sent(NamedTuple):
    """A source that workers can read."""

    number: int
    place: str


Item = tuple[Sent, int, Any]
"""The source, the seed, and the examples."""


class _UserFiles:
    """Unpickling this imports the users' files, so that their classes can be unpickled too."""

    def __reduce__(self) -> tuple[Any, ...]:
        return import_files, (imported_files(),)


class _Loading(Dataset[Any]):
    """The dataset of a worker process: an item is a loaded batch."""

    def __init__(self, load: Callable[[Any, int, Any], Any]) -> None:
        self._load = load
        self._sources: dict[int, Any] = {}

    def __getitem__(self, item: Item) -> Any:
        sent, seed, examples = item
        try:
            if sent.number not in self._sources:
                with open(sent.place, "rb") as file:
                    _, self._sources[sent.number] = pickle.load(file)
            return self._load(self._sources[sent.number], seed, examples)
        # Returned, since an error raised in a worker arrives with the text of its traceback.
        except LabError as error:
            return error
        except Exception as error:
            return locate(error, Path())


class _Items:
    """The items of the pass that is under way, as the sampler of a DataLoader."""

    now: list[Item]

    def __iter__(self) -> Iterator[Item]:
        return iter(self.now)

    def __len__(self) -> int:
        return len(self.now)


class Pool:
    """Worker processes, and the sources that they have.

    Args:
        workers: how many processes.
        load: loads a batch of a source, with a seed and its examples.
    """

    def __init__(self, workers: int, load: Callable[[Any, int, Any], Any]) -> None:
        self._items = _Items()
        self._sources: dict[Any, tuple[Sent, Any, Any]] = {}  # with the source and its open file
        self._count = 0
        self.busy = False
        # A fork of a process with threads may hang. The server imports torch once, and is alone.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["adamomentum_lab.training.workers"])
        self._loader: DataLoader[Any] = DataLoader(
            _Loading(load),
            batch_size=None,
            sampler=self._items,
            num_workers=workers,
            generator=torch.Generator(),  # by default it would draw one of the update's numbers
            multiprocessing_context=context,
            prefetch_factor=AHEAD,
            persistent_workers=True,
        )

    def load(self, source: Any, items: Iterable[tuple[int, Any]]) -> Iterator[Any]:
        """Yield the batches of a pass."""
        sent = self._send(source)
        self._items.now = [(sent, seed, _own(examples)) for seed, examples in items]
        self.busy = True
        try:
            for batch in _begin(self._loader):
                if isinstance(batch, LabError):
                    raise batch
                yield batch
        finally:
            self.busy = False

    def _send(self, source: Any) -> Sent:
        """Write a source to a file without a name, for the workers to read."""
        key = _key(source)
        if key not in self._sources:
            if len(self._sources) >= KEPT:
                self._sources.pop(next(iter(self._sources)))[2].close()
            import cloudpickle

            try:
                content = cloudpickle.dumps((_UserFiles(), source))
            except Exception as error:
                raise LabError(
                    f"{type(source).__name__} cannot be sent to worker processes ({error}); use no "
                    "workers, or let it open files and locks in __getitem__."
                ) from error
            # Without a name where the system allows it: a killed process then leaves nothing.
            hidden = os.path.exists("/proc/self/fd")
            file: Any = tempfile.TemporaryFile() if hidden else tempfile.NamedTemporaryFile()  # noqa: SIM115
            file.write(content)
            file.flush()
            place = f"/proc/{os.getpid()}/fd/{file.fileno()}" if hidden else file.name
            self._count += 1
            self._sources[key] = Sent(self._count, place), source, file
        return self._sources[key][0]

    def close(self) -> None:
        """End the processes."""
        iterator = getattr(self._loader, "_iterator", None)
        if iterator is not None:
            iterator._shutdown_workers()
        self._loader._iterator = None
        for *_, file in self._sources.values():
            file.close()
        self._sources.clear()


def _begin(loader: DataLoader[Any]) -> Iterator[Any]:
    """Start a pass, and the workers with the first one."""
    resource_tracker.ensure_running()  # starting it later would unblock SIGINT again
    # Ctrl-C is for this process alone. Workers inherit the blocked signals.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Got pickle error")
            return iter(loader)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _own(examples: Any) -> Any:
    # A view would be sent with the whole tensor behind it.
    return examples.clone() if isinstance(examples, Tensor) else examples


def _key(source: Any) -> Any:
    """What two sources share that load the same: an evaluation makes a new source each time."""
    if not is_dataclass(source) or isinstance(source, type):
        return id(source)
    values = [getattr(source, one.name) for one in fields(source)]
    own = [value if isinstance(value, (int, str, type(None))) else id(value) for value in values]
    return type(source), *own


_pools: dict[int, Pool] = {}


def load_ahead(
    source: Any,
    items: Iterable[tuple[int, Any]],
    workers: int,
    load: Callable[[Any, int, Any], Any],
) -> Iterator[Any]:
    """Yield batches that worker processes load. The processes stay for the next pass."""
    pool = _pools.get(workers)
    if pool is not None and pool.busy:  # another pass is under way
        other = Pool(workers, load)
        try:
            yield from other.load(source, items)
        finally:
            other.close()
        return
    if pool is None:
        pool = _pools[workers] = Pool(workers, load)
    yield from pool.load(source, items)


def end_workers() -> None:
    """End all worker processes of this process."""
    while _pools:
        _pools.popitem()[1].close()
