"""Sources of batches: which examples make up each batch of a pass, and how to load them.

A source knows nothing of processes, seeds or resumed runs: `training/feed` takes care of these.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, IterableDataset, default_collate

from adamomentum_lab.errors import LabError

Split = tuple[Tensor, ...]  # examples along the first dimension of each tensor
EXPECTED = "a tuple of tensors, a map-style Dataset or a Source (with __len__, plan and load)"


@runtime_checkable
class Source(Protocol):
    """Batches of examples, in an order that can be drawn anew for each pass.

    A source with an attribute `workers` above 0 is loaded ahead by so many processes. It must be
    possible to pickle it.
    """

    def __len__(self) -> int:
        """The number of batches in a pass, about, if lengths are random."""
        ...

    def plan(self, order: torch.Generator | None) -> Sequence[Any]:
        """For each batch of a pass its examples: anything with a length that can be sliced.

        The order is drawn from `order`, and from nothing else; None stands for a pass in order.
        """
        ...

    def load(self, examples: Any) -> Any:
        """A batch of these examples, which are all or some of those of a planned batch."""
        ...


def make_plan(source: Source, order: torch.Generator | None) -> Sequence[Any]:
    """The plan of a source, which may be a user's: it must have batches, and these examples."""
    plan: Any = source.plan(order)
    name = f"plan() of {type(source).__name__}"
    if not hasattr(plan, "__len__") or not hasattr(plan, "__getitem__"):
        raise LabError(f"{name} returns {describe(plan)}; it must return a list of batches.")
    if not len(plan):
        raise LabError(f"{name} returns no batches; there must be one at least.")
    if not hasattr(plan[0], "__len__"):
        raise LabError(f"{name} has {describe(plan[0])} for a batch, not a list of its examples.")
    return plan  # type: ignore[no-any-return]


def permutation(size: int, order: torch.Generator | None) -> Tensor:
    """The numbers below `size`, shuffled if there is an order."""
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
        """The indices of each batch."""
        return torch.split(permutation(len(self.tensors[0]), order), self.batch)

    def load(self, examples: Any) -> Split:
        """A tuple of tensors."""
        return tuple(tensor[examples] for tensor in self.tensors)


@dataclass(frozen=True, eq=False)
class Examples:
    """A map-style Dataset: `dataset[i]` is an example, and `collate` makes a batch of a list.

    With `workers`, so many processes load ahead. The batches are the same.
    """

    dataset: Any
    batch: int
    collate: Callable[[list[Any]], Any] = default_collate
    workers: int = 0

    def __len__(self) -> int:
        return -(-len(self.dataset) // self.batch)

    def plan(self, order: torch.Generator | None) -> Sequence[Any]:
        """The indices of each batch."""
        return torch.split(permutation(len(self.dataset), order), self.batch)

    def load(self, examples: Any) -> Any:
        """The examples, collated."""
        return self.collate([self.dataset[i] for i in examples.tolist()])


class Span(NamedTuple):
    """A part of one column of a text."""

    column: int
    start: int
    stop: int
    drawn: int
    """The length that was drawn for it; the last one of a text may be shorter."""


@dataclass(frozen=True, eq=False)
class Tokens:
    """A stream of tokens, cut into columns of equal length that are read side by side.

    A batch is the next `length` tokens of each column, and the tokens that follow them: two tensors
    (columns, length). Every pass reads from the beginning to the end, so that a network may carry
    its state from batch to batch. Tokens left over by the columns are dropped.
    """

    tokens: Tensor
    columns: int
    length: int
    shortest: ClassVar[int] = 1
    """A shorter rest at the end of the columns is left out."""

    def __len__(self) -> int:
        return max(0, -(-(len(self.tokens) // self.columns - 1) // self.length))

    def draw(self, order: torch.Generator | None) -> int:
        """The length of the next sequence. A subclass may draw it."""
        del order
        return self.length

    def plan(self, order: torch.Generator | None) -> Sequence[Any]:
        """A span of each column."""
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
        """The tokens of some columns, and those that follow."""
        length = len(self.tokens) // self.columns
        text = self.tokens[: length * self.columns].view(self.columns, length)
        first: Span = examples[0]
        part = text[:, first.start : first.stop + 1][[span.column for span in examples]]
        return part[:, :-1], part[:, 1:]


@dataclass(frozen=True, eq=False)
class Repeated:
    """Passes over a source, one after another, cut anew into `steps` batches of one size.

    A batch may hold the end of one pass and the beginning of the next, so the examples of the
    source must be such that any of them make up a batch.
    """

    source: Source
    steps: int
    batch: int

    def __len__(self) -> int:
        return self.steps

    def plan(self, order: torch.Generator | None) -> Sequence[Any]:
        """As many passes as it takes."""
        parts: list[Any] = []
        while sum(map(len, parts)) < self.steps * self.batch:
            parts += make_plan(self.source, order)
        tensors = isinstance(parts[0], Tensor)
        joined: Any = torch.cat(parts) if tensors else [*itertools.chain.from_iterable(parts)]
        return [joined[i * self.batch : (i + 1) * self.batch] for i in range(self.steps)]

    def load(self, examples: Any) -> Any:
        """As the source does."""
        return self.source.load(examples)


def wrap(split: Any, batch: int) -> Source:
    """The source that a split is, or that it becomes with batches of this size."""
    if isinstance(split, Source) and not isinstance(split, type):
        source: Source = split
    elif isinstance(split, (tuple, list)):
        wrong = [part for part in split if not isinstance(part, Tensor) or not part.ndim]
        if wrong or not split:
            what = f"it holds {describe(wrong[0])}" if wrong else "it is empty"
            raise LabError(f"{what}; a tuple must hold tensors, with the examples in a row.")
        source = Tensors(split, batch)
    elif _is_dataset(split):
        source = Examples(split, batch)
    else:
        raise LabError(f"it is {describe(split)}; it must be {EXPECTED}.")
    if len(source) < 1:
        raise LabError("it has no examples; it must have one at least.")
    return source


def describe(value: Any) -> str:
    """What a value is, for an error."""
    if isinstance(value, (type(None), bool, int, float, str)):
        return repr(value)
    return f"a class, {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"


def _is_dataset(split: Any) -> bool:
    if isinstance(split, (str, bytes, tuple, list, Mapping, Tensor, IterableDataset, Source, type)):
        return False
    return hasattr(split, "__getitem__") and hasattr(split, "__len__")


def join(one: Any, other: Any) -> Any:
    """A split with the examples of two: tuples of tensors, or Datasets."""
    if isinstance(one, (tuple, list)) and isinstance(other, (tuple, list)):
        return tuple(torch.cat(pair) for pair in zip(one, other, strict=True))
    if _is_dataset(one) and _is_dataset(other):
        return ConcatDataset([one, other])
    raise TypeError("neither tensors nor Datasets")


def to_device(value: Any, device: torch.device) -> Any:
    """A batch with all its tensors on a device, however they are nested."""
    if callable(getattr(value, "to", None)):
        return value.to(device)
    if isinstance(value, Mapping):
        return {key: to_device(part, device) for key, part in value.items()}
    if isinstance(value, (tuple, list)):
        parts = [to_device(part, device) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def count_examples(batch: Any) -> int:
    """The length of the first tensor in a batch."""
    first = next(_tensors(batch), None)
    if first is None or not first.ndim:
        raise LabError(
            "a batch holds no tensor with a dimension, so its examples cannot be counted; "
            "override evaluate()."
        )
    return len(first)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (Mapping, tuple, list)):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _tensors(part)
