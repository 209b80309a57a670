"""What every source must do, alone and in the feed.

The table has a case for each kind: a source of some size, and the examples that a batch holds.
"""

import functools
import itertools
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Dataset, IterableDataset, WeightedRandomSampler

from adamomentum_lab.source import Examples, Repeated, Source, Tensors, Tokens, wrap
from adamomentum_lab.training.feed import feed, in_order, seed_for
from adamomentum_paper.data.images import Files
from adamomentum_paper.data.parallel import PAD, Pairs, Text
from adamomentum_paper.workloads import shakespeare_gpt
from adamomentum_paper.workloads._ptb import Passages
from tests.adamomentum_paper.image_trees import write_image


class Squares(Dataset):
    """Examples that are dictionaries."""

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        return {"x": torch.tensor([i, i + 1]), "y": i * i}


class Noisy(Tensors):
    """Its batches are drawn: torch's random numbers belong to `load` too."""

    def load(self, examples):
        return (*super().load(examples), torch.rand(len(examples)))


class Words:
    """A source as a user may write it: examples are strings."""

    def __init__(self, size, batch):
        self.words, self.batch = [f"word {i}" for i in range(size)], batch

    def __len__(self):
        return -(-len(self.words) // self.batch)

    def plan(self, order):
        words = sorted(self.words)
        if order is not None:
            words = [words[i] for i in torch.randperm(len(words), generator=order).tolist()]
        return [words[i : i + self.batch] for i in range(0, len(words), self.batch)]

    def load(self, examples):
        return [word.upper() for word in examples]


class Letters:
    """Cuts a sentence into its letters."""

    size = 300

    def numbers(self, sentences):
        return [[3 + ord(letter) % 200 for letter in sentence] for sentence in sentences]

    def sentence(self, numbers):
        raise NotImplementedError


def in_memory(size):
    return torch.arange(size), torch.arange(size) ** 2


def pairs(size, batch):
    words = [f"{'ab' * (1 + i % 7)}{i}" for i in range(size)]
    return Pairs.of(Text(words, words[::-1]), Letters(), 20 * batch)


@functools.cache
def image_files():
    """Seven images of all sizes; they live as long as the tests."""
    folder = tempfile.TemporaryDirectory()
    files = [
        str(write_image(Path(folder.name) / f"{i}.png", (10 + i, 20 - i), seed=i)) for i in range(7)
    ]
    return files, folder


def files(size, batch):
    names, _ = image_files()
    return Files(names, torch.arange(7), torch.arange(min(size, 7)), batch, 8)


def rows(batch):
    """Of tensors with the examples in a row, each example."""
    tensors = batch.values() if isinstance(batch, dict) else batch
    return [
        tuple(map(str, example)) for example in zip(*(t.tolist() for t in tensors), strict=True)
    ]


def labels(batch):
    """Of images: crops differ from pass to pass, so the label, which is unique here, names them."""
    images, numbers = batch
    pairs = zip(numbers.tolist(), images.tolist(), strict=True)
    return [(label, str(image)) for label, image in pairs]


def columns(batch):
    """Of texts side by side with time first."""
    words, following, drawn = batch
    return [(*example, str(drawn)) for example in rows((words.t(), following.t()))]


def without_padding(batch):
    return [
        tuple(tuple(token for token in side if token != PAD) for side in pair)
        for pair in zip(*(side.tolist() for side in batch), strict=True)
    ]


@dataclass(frozen=True)
class Case:
    """A kind of source."""

    name: str
    make: Callable[[int, int], Source]
    """Of a number of examples (or tokens), and the size of a batch."""
    rows: Callable[[Any], list[Any]] = rows
    """The examples of a batch."""
    name_of: Callable[[Any], Any] | None = str
    """What of an example is the same in every pass; None if passes differ in their examples."""
    is_exact: bool = True
    """Whether its length is that of every plan."""
    draws: bool = False
    """Whether `load` draws random numbers, which are the last of an example."""
    is_shuffled: bool = True
    """Whether passes differ in their batches."""


def texts(batch):
    return [str(example) for example in batch]


def first(row):
    return row[0]


def make_passages(size, batch):
    return Passages(torch.arange(90 * (size + 2)), batch, 70)


def characters(size, batch):
    """As many passages in order as there are updates."""
    return shakespeare_gpt.Passages(torch.arange(4 * batch * size + 1), 4, batch, size)


class Shuffling(IterableDataset):
    """Draws its order from a buffer, with the random numbers of Python, NumPy and torch."""

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __iter__(self):
        left = [*range(self.size)]
        while left:
            at = (
                random.randrange(99)
                + numpy.random.randint(99)  # noqa: NPY002
                + int(torch.randint(99, ()))
            ) % len(left)
            i = left.pop(at)
            yield torch.tensor(i), torch.tensor(i * i)


def loader(size, batch):
    return wrap(DataLoader(Squares(size), batch, shuffle=True), 1)


def weighted(size, batch):
    sampler = WeightedRandomSampler(torch.ones(size), size, replacement=False)
    return wrap(DataLoader(Squares(size), batch, sampler=sampler), 1)


CASES = [
    Case("loader", loader),
    Case("weighted loader", weighted),
    Case("stream", lambda size, batch: wrap(Shuffling(size), batch)),
    Case("stream of a loader", lambda size, batch: wrap(DataLoader(Shuffling(size), batch), 1)),
    Case("tensors", lambda size, batch: wrap(in_memory(size), batch)),
    Case("dataset", lambda size, batch: wrap(Squares(size), batch)),
    Case("collated", lambda size, batch: Examples(Squares(size), batch, list), texts),
    Case(
        "tokens",
        lambda size, batch: Tokens(torch.arange(9 * size + 9), batch, 4),
        is_shuffled=False,
    ),
    Case("passages", make_passages, columns, None, is_exact=False),
    Case("passages of characters", characters, rows, None),
    Case("pairs", pairs, without_padding, is_shuffled=False),
    Case("repeated", lambda size, batch: Repeated(wrap(in_memory(size), 4), 5, batch), rows, None),
    Case("repeated words", lambda size, batch: Repeated(Words(size, 4), 3, batch), list, None),
    Case("files", files, labels, first),
    Case("noisy", lambda size, batch: Noisy(in_memory(size), batch), rows, first, draws=True),
    Case("a user's", Words, list),
]
table = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
shapes = given(
    size=st.integers(1, 23),
    batch=st.integers(1, 9),
    seed=st.integers(0, 2**32),
    epoch=st.integers(0, 3),
)
few = settings(max_examples=15, deadline=None)


def seen(case, source, *args, **options):
    return [case.rows(batch) for batch in feed(source, *args, **options)]


@table
@few
@shapes
def test_a_plan_is_repeatable_and_draws_from_its_order_alone(case, size, batch, seed, epoch):
    source = case.make(size, batch)
    torch.manual_seed(1)
    state = torch.get_rng_state()
    for order in (lambda: None, lambda: torch.Generator().manual_seed(seed + epoch)):
        one, same = (list(map(list, source.plan(order()))) for _ in range(2))
        assert str(one) == str(same)
        assert all(len(examples) for examples in one)
        assert abs(len(one) - len(source)) <= (0 if case.is_exact else max(2, len(source) // 2))
    assert torch.equal(torch.get_rng_state(), state)


@table
@few
@shapes
def test_every_pass_holds_the_same_examples(case, size, batch, seed, epoch):
    if case.name_of is None:
        return
    source = case.make(size, batch)
    passes = (seen(case, source, seed, epoch), map(case.rows, in_order(source)))
    one, other = (
        Counter(str(case.name_of(row)) for row in itertools.chain.from_iterable(batches))
        for batches in passes
    )
    assert one == other


@table
@few
@shapes
def test_processes_share_what_one_would_see(case, size, batch, seed, epoch):
    source = case.make(size, batch)
    whole = seen(case, source, seed, epoch)
    for world in range(1, 5):
        shares = [seen(case, source, seed, epoch, rank=r, world=world) for r in range(world)]
        for rank, share in enumerate(shares):
            for got, batch_of_all in zip(share, whole, strict=True):
                alone = len(batch_of_all) < world
                expected = batch_of_all if alone else batch_of_all[rank::world]
                if case.draws:  # each process draws its own
                    got, expected = ([row[:-1] for row in some] for some in (got, expected))
                assert got == expected


@table
@few
@shapes
def test_a_resumed_pass_sees_the_rest(case, size, batch, seed, epoch):
    source = case.make(size, batch)
    for where in ({}, {"rank": 1, "world": 3}):
        whole = seen(case, source, seed, epoch, **where)
        for skip in range(len(whole) + 1):
            assert seen(case, source, seed, epoch, skip=skip, **where) == whole[skip:]


@table
@few
@shapes
def test_each_update_and_the_evaluation_have_a_seed_of_their_own(case, size, batch, seed, epoch):
    """Whatever was loaded before, and wherever the pass began."""
    source = case.make(size, batch)
    for skip in (0, 1):
        i = skip
        for i, _ in enumerate(feed(source, seed, epoch, rank=2, world=3, skip=skip), skip):
            state = torch.Generator().manual_seed(seed_for(seed, epoch, i, 2)).get_state()
            assert torch.equal(torch.get_rng_state(), state)
            torch.rand(3)  # an update
            torch.manual_seed(0)
        end = len(source.plan(torch.Generator().manual_seed(seed_for(seed, epoch))))
        state = torch.Generator().manual_seed(seed_for(seed, epoch, end, 2)).get_state()
        assert torch.equal(torch.get_rng_state(), state)


@table
def test_epochs_and_seeds_differ_in_order(case):
    if not case.is_shuffled:
        return
    source = case.make(20, 4)
    one = seen(case, source, 1, 0)
    assert one == seen(case, source, 1, 0)
    assert one != seen(case, source, 1, 1)
    assert one != seen(case, source, 2, 0)


@table
def test_an_evaluation_reads_in_order_and_draws_nothing(case):
    source = case.make(20, 4)
    torch.manual_seed(1)
    state = torch.get_rng_state()
    one = list(map(case.rows, in_order(source)))
    if not case.draws:
        assert torch.equal(torch.get_rng_state(), state)
        assert one == list(map(case.rows, in_order(source)))
        assert one == [case.rows(source.load(examples)) for examples in source.plan(None)]
