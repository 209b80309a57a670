"""Sources made of a user's Dataset, DataLoader or stream."""

from __future__ import annotations

import contextlib
import itertools
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, default_collate

from adamomentum_lab.errors import LabError


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch, NumPy and Python for a while. The states of before come back."""
    numpy = sys.modules["numpy"]  # torch imports it
    before, others = random.getstate(), numpy.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        numpy.random.seed(seed % 2**32)
        try:
            yield
        finally:
            random.setstate(before)
            numpy.random.set_state(others)


def collate_examples(collate: Callable[[list[Any]], Any], rows: list[Any], dataset: Any) -> Any:
    """Return a batch. An error of torch's own collate, which has no line of the user, is a sentence
    about the dataset."""
    if collate is not default_collate:
        return collate(rows)
    try:
        return default_collate(rows)
    except (RuntimeError, TypeError, ValueError, KeyError) as error:
        name, why = type(dataset).__name__, str(error).partition("\n")[0].rstrip(".")
        raise LabError(
            f"examples of {name} do not form a batch ({why}); give a function that collates them, "
            f"as Examples({name}(...), batch, collate)."
        ) from error


def fetch(dataset: Any, indices: Sequence[int]) -> list[Any]:
    """Return examples, together where the dataset can, as those of Hugging Face."""
    if callable(getattr(dataset, "__getitems__", None)):
        rows: Any = dataset.__getitems__(indices)
        return [*rows]
    return [dataset[i] for i in indices]


@dataclass(frozen=True, eq=False)
class Loader:
    """What a DataLoader of a map-style Dataset loads: its batches and collate, in the lab's order.

    Its sampler is drawn anew for each pass. Its `worker_init_fn` is not called, since the lab seeds
    every batch.
    """

    loader: DataLoader[Any]

    @property
    def workers(self) -> int:
        """Processes that load ahead."""
        return self.loader.num_workers

    def __len__(self) -> int:
        return len(self.loader)

    def plan(self, order: torch.Generator | None) -> Sequence[Any]:
        """Return the indices of each batch."""
        loader: Any = self.loader
        if order is None and isinstance(loader.sampler, RandomSampler):
            everything, size = range(len(loader.dataset)), loader.batch_size or 1
            batches: list[Any] = [
                list(everything[i : i + size]) for i in range(0, len(everything), size)
            ]
        else:
            seed = 0 if order is None else order.initial_seed()
            own = [one for one in (loader.sampler, loader.batch_sampler, loader) if one is not None]
            generators = [one.generator for one in own if getattr(one, "generator", None)]
            with seeded(seed):
                for generator in generators:
                    generator.manual_seed(seed)
                batches = [
                    *(loader.sampler if loader.batch_sampler is None else loader.batch_sampler)
                ]
        if loader.batch_sampler is None:  # an example is a batch
            return [one if isinstance(one, list) else [one] for one in batches]
        return batches

    def load(self, examples: Any) -> Any:
        """Return the collated examples."""
        loader: Any = self.loader
        rows = fetch(loader.dataset, examples)
        if loader.batch_sampler is None:
            return loader.collate_fn(rows[0])
        return collate_examples(loader.collate_fn, rows, loader.dataset)

    def __reduce__(self) -> Any:
        loader: Any = self.loader
        if loader.batch_sampler is None:
            return Part, (loader.dataset, loader.collate_fn, False)
        return Part, (loader.dataset, loader.collate_fn, True)


@dataclass(frozen=True, eq=False)
class Part:
    """The part of a `Loader` that loads, in a worker process."""

    dataset: Any
    collate: Callable[[Any], Any]
    batched: bool

    def load(self, examples: Any) -> Any:
        """Return the collated examples."""
        rows = fetch(self.dataset, examples)
        if not self.batched:
            return self.collate(rows[0])
        return collate_examples(self.collate, rows, self.dataset)


@dataclass(frozen=True)
class Stretch:
    """Consecutive examples of a pass over a stream."""

    seed: int
    numbers: range

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, part: slice) -> Stretch:
        return Stretch(self.seed, self.numbers[part])


@dataclass(frozen=True, eq=False)
class Stream:
    """An iterable dataset: its first `size` examples are a pass, in the order in which they come.

    A resumed epoch reads the stream again from its start and skips what was used. That is exact if
    the stream gives the same examples each time, which random numbers of torch, NumPy and Python
    may decide: they are seeded for each pass. Several processes each read all of it.

    Args:
        dataset: anything that can be iterated over more than once.
        batch: examples per batch.
        size: examples in a pass; None asks the dataset for its length.
        collate: makes a batch from a list of examples.
        workers: 1 loads in another process, 0 in this one.
    """

    dataset: Iterable[Any]
    batch: int
    size: int | None = None
    collate: Callable[[list[Any]], Any] = default_collate
    workers: int = 0
    _place: dict[str, Any] = field(default_factory=dict)
    """The pass that is under way: its seed, its iterator, how many examples it gave."""

    def __post_init__(self) -> None:
        name = type(self.dataset).__name__
        if self.workers > 1:
            raise LabError("a Stream has at most 1 worker; each would read all of the stream.")
        if self.size is None:
            try:
                object.__setattr__(self, "size", len(self.dataset))  # type: ignore[arg-type]
            except TypeError as error:
                say = f"Stream({name}(...), batch, size=10_000)"
                raise LabError(
                    f"{name} has no length; say how many of its examples are a pass, as {say}."
                ) from error

    def __len__(self) -> int:
        return -(-self._size // self.batch)

    @property
    def _size(self) -> int:
        assert self.size is not None
        return self.size

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_place": {}}

    def plan(self, order: torch.Generator | None) -> Sequence[Any]:
        """Return a stretch of the pass for each batch."""
        seed = 0 if order is None else order.initial_seed()
        starts = range(0, self._size, self.batch)
        return [Stretch(seed, range(i, min(i + self.batch, self._size))) for i in starts]

    def load(self, examples: Any) -> Any:
        """Read on to these examples, and return them collated."""
        place, numbers = self._place, examples.numbers
        first = numbers[0] // self.batch * self.batch
        if place.get("seed") != examples.seed or place["given"] > first:
            place.update(seed=examples.seed, given=0, rows=self._begin(examples.seed))
        rows: list[Any] = []
        while place["given"] <= first:  # batch by batch, so that each has its seed
            with seeded(examples.seed + place["given"]):
                wanted = min(self.batch, self._size - place["given"])
                rows = [*itertools.islice(place["rows"], wanted)]
            place["given"] += len(rows)
            if len(rows) < wanted:
                name, given = type(self.dataset).__name__, place.pop("given")
                place.clear()
                raise LabError(f"{name} ended after {given} examples, and its size is {self.size}.")
        return collate_examples(self.collate, [rows[i - first] for i in numbers], self.dataset)

    def _begin(self, seed: int) -> Iterator[Any]:
        dataset: Any = self.dataset
        if callable(getattr(dataset, "set_epoch", None)):  # of Hugging Face: it shuffles by this
            dataset.set_epoch(seed % 2**31)
        with seeded(seed):
            return iter(dataset)


def source_of(loader: DataLoader[Any]) -> Loader | Stream:
    """Return the source that a DataLoader stands for."""
    if not isinstance(loader.dataset, IterableDataset):
        return Loader(loader)
    if loader.batch_size is None:
        raise LabError("a DataLoader of an iterable dataset must have a batch_size.")
    return Stream(
        loader.dataset,
        loader.batch_size,
        collate=loader.collate_fn,
        workers=min(1, loader.num_workers),
    )
