"""Sources of batches. A source plans which examples make up each batch, and loads them.

`training/feed` handles processes, seeds and resuming; a source need not.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, IterableDataset, default_collate

from adamomentum_lab.datasets import Stream, collate_examples, fetch, source_of
from adamomentum_lab.errors import LabError

Split = tuple[Tensor, ...]  # examples along the first dimension of each tensor
EXPECTED = (
    "a tuple of tensors, a Dataset, a DataLoader, a function that returns one of these, a Stream "
    "or another Source (with __len__, plan and load)"
)


@runtime_checkable
class Source(Protocol):
    """Batches of examples, in a new order for each pass.

    If a source has an attribute `workers` above 0, that many processes load its batches ahead. The
    source must then support pickle.
    """

    def __len__(self) -> int:
        """Return the number of batches in a pass. It may be approximate if lengths are random."""
        ...

    def plan(self, order: torch.Generator | None) -> Sequence[Any]:
        """Return the examples of each batch of a pass.

        The examples of a batch may be anything that has a length and supports slices, such as a
        tensor of indices.

        Args:
            order: the only source of random numbers. None is a pass in order, without randomness.
        """
        ...

    def load(self, examples: Any) -> Any:
        """Load a batch. `examples` are those of a planned batch, or a slice of them."""
        ...


def make_plan(source: Source, order: torch.Generator | None) -> Sequence[Any]:
    """Return the plan of a source. A LabError if it is not a list of batches of examples."""
    plan: Any = source.plan(order)
    name = f"plan() of {type(source).__name__}"
    if not hasattr(plan, "__len__") or not hasattr(plan, "__getitem__"):
        raise LabError(f"{name} returns {describe(plan)}; it must return a list of batches.")
    if not len(plan):
        raise LabError(f"{name} returns no batches; it must return at least one.")
    if not hasattr(plan[0], "__len__"):
        raise LabError(
            f"{name} has {describe(plan[0])} for a batch; it must be a list of examples."
        )
    return plan  # type: ignore[no-any-return]


def permutation(size: int, order: torch.Generator | None) -> Tensor:
    """Return the numbers below `size`, shuffled unless `order` is None."""
    return torch.arange(size) if order is None else torch.randperm(size, generator=order)


@dataclass(frozen=True, eq=False)
class Tensors:
    """Tensors in memory, with the examples along the first dimension of each."""

    tensors: Sequence[Tensor]
    batch: int

    def __post_init__(self) -> None:
        sizes = {len(tensor): None for tensor in self.tensors}
        if len(sizes) > 1:
            raise LabError(f"its tensors differ in length: {' and '.join(map(str, sizes))}.")

    def __len__(self) -> int:
        return -(-len(self.tensors[0]) // self.batch)

    def plan(self, order: torch.Generator | None) -> Sequence[Any]:
        """Return the indices of each batch."""
        return torch.split(permutation(len(self.tensors[0]), order), self.batch)

    def load(self, examples: Any) -> Split:
        """Return a tuple of tensors."""
        return tuple(tensor[examples] for tensor in self.tensors)


@dataclass(frozen=True, eq=False)
class Examples:
    """A map-style Dataset.

    Args:
        dataset: `dataset[i]` is an example.
        batch: examples per batch.
        collate: makes a batch from a list of examples.
        workers: processes that load ahead. The batches do not depend on it.
    """

    dataset: Any
    batch: int
    collate: Callable[[list[Any]], Any] = default_collate
    workers: int = 0

    def __len__(self) -> int:
        return -(-len(self.dataset) // self.batch)

    def plan(self, order: torch.Generator | None) -> Sequence[Any]:
        """Return the indices of each batch."""
        return torch.split(permutation(len(self.dataset), order), self.batch)

    def load(self, examples: Any) -> Any:
        """Return the collated examples."""
        return collate_examples(self.collate, fetch(self.dataset, examples.tolist()), self.dataset)


class Span(NamedTuple):
    """A part of one column of the tokens."""

    column: int
    start: int
    stop: int
    drawn: int
    """The length drawn for this part. The last part may be shorter than drawn."""


@dataclass(frozen=True, eq=False)
class Tokens:
    """A stream of tokens, cut into columns of equal length that are read in parallel.

    A batch is two tensors (columns, length): the next `length` tokens of each column, and the same
    tokens shifted by one, as targets. Every pass reads the columns from start to end, so a network
    may carry its state from batch to batch. Leftover tokens are dropped.
    """

    tokens: Tensor
    columns: int
    length: int
    shortest: ClassVar[int] = 1
    """A remainder of the columns that is shorter than this is dropped."""

    def __len__(self) -> int:
        return max(0, -(-(len(self.tokens) // self.columns - 1) // self.length))

    def draw(self, order: torch.Generator | None) -> int:
        """Return the length of the next sequence. A subclass may draw it from `order`."""
        del order
        return self.length

    def plan(self, order: torch.Generator | None) -> Sequence[Any]:
        """Return a span of each column for each batch."""
        last = len(self.tokens) // self.columns - 1
        spans = []
        start = 0
        while last - start >= self.shortest:
            drawn = self.draw(order)
            stop = min(start + drawn, last)
            spans.append([Span(i, start, stop, drawn) for i in range(self.columns)])
            start = stop
        return spans

    def load(self, examples: Any) -> Any:
        """Return the tokens of these spans, and the same shifted by one."""
        length = len(self.tokens) // self.columns
        text = self.tokens[: length * self.columns].view(self.columns, length)
        first: Span = examples[0]
        part = text[:, first.start : first.stop + 1][[span.column for span in examples]]
        return part[:, :-1], part[:, 1:]


@dataclass(frozen=True, eq=False)
class Repeated:
    """As many passes over a source as fill `steps` batches of size `batch`.

    A batch may hold the end of one pass and the start of the next, so any examples of the source
    must be able to form a batch.
    """

    source: Source
    steps: int
    batch: int

    def __len__(self) -> int:
        return self.steps

    def plan(self, order: torch.Generator | None) -> Sequence[Any]:
        """Return the examples of `steps` batches."""
        parts: list[Any] = []
        while sum(map(len, parts)) < self.steps * self.batch:
            parts += make_plan(self.source, order)
        tensors = isinstance(parts[0], Tensor)
        joined: Any = torch.cat(parts) if tensors else [*itertools.chain.from_iterable(parts)]
        return [joined[i * self.batch : (i + 1) * self.batch] for i in range(self.steps)]

    def load(self, examples: Any) -> Any:
        """Load the examples as the source does."""
        return self.source.load(examples)


def wrap(split: Any, batch: int) -> Source:
    """Return the split as a source. Tensors and Datasets get batches of this size."""
    if isinstance(split, Source) and not isinstance(split, type):
        source: Source = split
    elif isinstance(split, (tuple, list)):
        wrong = [part for part in split if not isinstance(part, Tensor) or not part.ndim]
        if wrong or not split:
            what = f"it holds {describe(wrong[0])}" if wrong else "it is empty"
            raise LabError(f"{what}; a tuple must hold tensors, with examples along dimension 0.")
        source = Tensors(split, batch)
    elif isinstance(split, DataLoader):
        source = source_of(split)
    elif _is_dataset(split):
        source = Examples(split, batch)
    elif isinstance(split, IterableDataset):
        source = Stream(split, batch)
    else:
        raise LabError(f"it is {describe(split)}; it must be {EXPECTED}.")
    if len(source) < 1:
        raise LabError("it has no examples; it must have at least one.")
    return source


def describe(value: Any) -> str:
    """Describe a value for an error message."""
    if isinstance(value, (type(None), bool, int, float, str)):
        return repr(value)
    return f"a class, {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"


def make_split(split: Any) -> Any:
    """Return a split, which a function may make."""
    is_function = callable(split) and not isinstance(split, type) and not hasattr(split, "plan")
    return split() if is_function and not _is_dataset(split) else split


def _is_dataset(split: Any) -> bool:
    others = (str, bytes, tuple, list, Mapping, Tensor, IterableDataset, DataLoader, Source, type)
    if isinstance(split, others):
        return False
    return hasattr(split, "__getitem__") and hasattr(split, "__len__")


def join(one: Any, other: Any) -> Any:
    """Concatenate two splits: tuples of tensors, or Datasets."""
    if isinstance(one, (tuple, list)) and isinstance(other, (tuple, list)):
        return tuple(torch.cat(pair) for pair in zip(one, other, strict=True))
    if _is_dataset(one) and _is_dataset(other):
        return ConcatDataset([one, other])
    raise TypeError("neither tensors nor Datasets")


def to_device(value: Any, device: torch.device) -> Any:
    """Return a batch with all its tensors on a device. Nested containers are supported."""
    if isinstance(value, Tensor):
        return value.to(device, non_blocking=True)  # asynchronous from pinned memory alone
    if callable(getattr(value, "to", None)):
        return value.to(device)
    if isinstance(value, Mapping):
        return {key: to_device(part, device) for key, part in value.items()}
    if isinstance(value, (tuple, list)):
        parts = [to_device(part, device) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def count_examples(batch: Any) -> int:
    """Return the length of the first tensor in a batch."""
    first = next(_tensors(batch), None)
    if (
        first is None
        and hasattr(batch, "__len__")
        and not isinstance(batch, (Mapping, tuple, list, str, bytes))
    ):
        return len(batch)
    if first is None or not first.ndim:
        raise LabError(
            "a batch holds no tensor with a dimension, so its examples cannot be counted; "
            "override evaluate()."
        )
    return len(first)


def split_batch(batch: Any, parts: int) -> list[tuple[float, Any]]:
    """Return the parts of a batch, each with its share of the examples."""
    if parts == 1:
        return [(1.0, batch)]
    count = count_examples(batch)
    parts = min(parts, count)
    ends = [count * i // parts for i in range(parts + 1)]
    pieces = [slice(start, end) for start, end in itertools.pairwise(ends)]
    return [((one.stop - one.start) / count, _cut(batch, one, count)) for one in pieces]


def _cut(value: Any, piece: slice, count: int) -> Any:
    """A part of the examples. Tensors of another length, and what is no tensor, stay whole."""
    if isinstance(value, Tensor):
        return value[piece] if value.ndim and len(value) == count else value
    if isinstance(value, Mapping):
        return {key: _cut(part, piece, count) for key, part in value.items()}
    if isinstance(value, (tuple, list)):
        parts = [_cut(part, piece, count) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (Mapping, tuple, list)):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _tensors(part)
