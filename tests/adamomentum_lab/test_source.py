"""Sources, and what becomes one."""

from collections import namedtuple

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from adamomentum_lab.errors import LabError
from adamomentum_lab.source import (
    Examples,
    Repeated,
    Tensors,
    Tokens,
    count_examples,
    join,
    to_device,
    wrap,
)
from adamomentum_lab.training.feed import feed, in_order


class Squares(Dataset):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        return {"x": torch.tensor([i]), "y": i * i}


class Endless(IterableDataset):
    def __iter__(self):
        return iter(range(3))


def test_tensors():
    source = wrap((torch.arange(5), torch.arange(5) * 2), 2)
    assert isinstance(source, Tensors)
    assert len(source) == 3
    assert [part.tolist() for part in source.plan(None)] == [[0, 1], [2, 3], [4]]
    shuffled = torch.cat(source.plan(torch.Generator().manual_seed(3)))
    assert torch.equal(shuffled, torch.randperm(5, generator=torch.Generator().manual_seed(3)))
    x, y = source.load(torch.tensor([3, 0]))
    assert (x.tolist(), y.tolist()) == ([3, 0], [6, 0])
    assert isinstance(wrap([torch.zeros(3)], 2), Tensors)


def test_a_dataset():
    source = wrap(Squares(5), 2)
    assert isinstance(source, Examples)
    assert len(source) == 3
    batch = source.load(source.plan(None)[1])
    assert {name: value.tolist() for name, value in batch.items()} == {
        "x": [[2], [3]],
        "y": [4, 9],
    }
    listed = Examples(Squares(5), 2, collate=list)
    assert listed.load(torch.tensor([1]))[0]["y"] == 1


def test_a_source_stays_what_it_is():
    source = Tokens(torch.arange(9), 2, 3)
    assert wrap(source, 64) is source


def test_tokens_are_read_side_by_side_to_the_end():
    source = Tokens(torch.arange(17), columns=2, length=3)  # columns 0..7 and 8..15
    batches = [source.load(part) for part in source.plan(None)]
    assert len(source) == len(batches) == 3
    x, y = batches[1]
    assert x.tolist() == [[3, 4, 5], [11, 12, 13]]
    assert y.tolist() == [[4, 5, 6], [12, 13, 14]]
    assert [part.tolist() for part in batches[2]] == [[[6], [14]], [[7], [15]]]
    assert torch.equal(torch.cat([x for x, _ in batches], 1), torch.arange(16).view(2, 8)[:, :-1])


def test_repeated_passes_are_cut_anew():
    source = Repeated(Tensors((torch.arange(5),), 2), steps=4, batch=3)
    assert len(source) == 4
    parts = [source.load(part)[0].tolist() for part in source.plan(None)]
    assert parts == [[0, 1, 2], [3, 4, 0], [1, 2, 3], [4, 0, 1]]
    order = torch.Generator().manual_seed(0)
    drawn = torch.cat(source.plan(torch.Generator().manual_seed(0)))
    passes = torch.cat([torch.randperm(5, generator=order) for _ in range(3)])
    assert torch.equal(drawn, passes[:12])


@pytest.mark.parametrize(
    ("split", "words"),
    [
        (
            {"x": torch.zeros(3)},
            "it is a dict; it must be a tuple of tensors, a Dataset",
        ),
        (None, "it is None; it must be a tuple of tensors"),
        ("train.csv", "it is 'train.csv'; it must be"),
        (torch.zeros(3), "it is a Tensor; it must be a tuple of tensors"),
        (Endless(), r"Endless has no length; say how many .*Stream\(Endless"),
        (Squares, "it is a class, Squares; it must be"),
        (Tokens, "it is a class, Tokens; it must be"),
        ((np.zeros(3), np.zeros(3)), "it holds a ndarray; a tuple must hold tensors"),
        ((torch.zeros(3), torch.tensor(1)), "it holds a Tensor; a tuple must hold tensors, with"),
        ((), "it is empty; a tuple must hold tensors"),
        ((torch.zeros(3), torch.zeros(4)), "its tensors differ in length: 3 and 4"),
        ((torch.zeros(0),), "it has no examples"),
        (Squares(0), "it has no examples"),
        (Tokens(torch.arange(1), 1, 2), "it has no examples"),
        (Tokens(torch.arange(1), 2, 1), "it has no examples"),
    ],
)
def test_a_wrong_split_raises_an_error(split, words):
    with pytest.raises(LabError, match=words):
        wrap(split, 2)


class Planned(Tensors):
    """A user's, with a plan that may be wrong."""

    planned = ()

    def plan(self, order):
        return self.planned


@pytest.mark.parametrize(
    ("planned", "words"),
    [
        (
            iter([]),
            r"plan\(\) of Planned returns a list_iterator; it must return a list of batches",
        ),
        ([], r"plan\(\) of Planned returns no batches; it must return at least one"),
        ([1, 2], r"plan\(\) of Planned has 1 for a batch; it must be a list of examples"),
    ],
)
def test_a_wrong_plan_raises_an_error(planned, words, monkeypatch):
    monkeypatch.setattr(Planned, "planned", planned)
    source = Planned((torch.arange(5),), 2)
    for read in (lambda: next(in_order(source)), lambda: next(feed(source, 0, 0))):
        with pytest.raises(LabError, match=words):
            read()
    with pytest.raises(LabError, match=words):
        Repeated(source, 2, 2).plan(None)


def test_two_splits_are_joined():
    (x,) = join((torch.arange(2),), (torch.arange(3),))
    assert x.tolist() == [0, 1, 0, 1, 2]
    both = join(Squares(2), TensorDataset(torch.arange(3)))
    assert len(both) == 5
    assert both[1]["y"] == 1
    for one, other in [
        ((x,), Squares(2)),
        ((x,), (x, x)),
        (Tokens(x, 1, 2), Tokens(x, 1, 2)),
        (None, Squares(2)),
    ]:
        with pytest.raises((TypeError, ValueError)):
            join(one, other)


Pair = namedtuple("Pair", "first second")


class Movable:
    device = "cpu"

    def to(self, device):
        moved = Movable()
        moved.device = device.type
        return moved


def test_everything_in_a_batch_moves():
    batch = {"a": (torch.zeros(2), [torch.ones(1)]), "b": Pair(torch.zeros(3), "text"), "c": 3}
    batch["d"] = Movable()
    meta = to_device(batch, torch.device("meta"))
    assert meta["a"][0].is_meta
    assert type(meta["a"][1]) is list
    assert meta["a"][1][0].is_meta
    assert isinstance(meta["b"], Pair)
    assert meta["b"].first.is_meta
    assert meta["b"].second == "text"
    assert meta["c"] == 3
    assert meta["d"].device == "meta"
    assert torch.equal(to_device(torch.ones(2), torch.device("cpu")), torch.ones(2))


def test_examples_are_counted_by_the_first_tensor():
    assert count_examples((torch.zeros(4, 2), torch.zeros(9))) == 4
    assert count_examples({"ids": [["a"], torch.zeros(3)], "y": torch.zeros(9)}) == 3
    assert count_examples(torch.zeros(5)) == 5
    for batch in ("text", torch.tensor(1.0), {}):
        with pytest.raises(LabError, match=r"examples cannot be counted; override evaluate"):
            count_examples(batch)
