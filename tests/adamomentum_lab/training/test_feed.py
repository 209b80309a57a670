"""The feed: worker processes. What holds for every source is in tests/contract/test_source.py."""

import os
import random
import sys
import threading

import numpy
import pytest
import torch

from adamomentum_lab.catalog import find_workload
from adamomentum_lab.datasets import Stream
from adamomentum_lab.errors import LabError
from adamomentum_lab.source import Examples, wrap
from adamomentum_lab.training.feed import CPU, copy_ahead, feed, in_order
from adamomentum_lab.training.workers import end_workers
from tests.adamomentum_lab.problems import write_problem

DATASET = """

class Noisy(torch.utils.data.Dataset):
    def __init__(self, size, broken=None):
        self.size, self.broken = size, broken

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        if i == self.broken:
            raise KeyError("no such example")
        return {"x": i + torch.rand(3)}
"""


@pytest.fixture
def noisy(tmp_path):
    """A Dataset that draws, as a user's file defines one: not to be found by an import."""
    file = write_problem(tmp_path, "plain").rename(tmp_path / "with_a_dataset.py")
    file.write_text(file.read_text() + DATASET)
    cls = find_workload(str(file)).load()
    return sys.modules[cls.__module__].Noisy


@pytest.mark.slow
def test_worker_processes_load_the_same_and_leave_the_update_its_numbers(noisy):
    here = Examples(noisy(9), 4)
    ahead = Examples(noisy(9), 4, workers=2)
    expected = []
    for batch in feed(here, 1, 0, rank=1, world=2):
        expected.append((batch["x"], torch.rand(2)))  # the update draws
    got = []
    for batch in feed(ahead, 1, 0, rank=1, world=2):
        got.append((batch["x"], torch.rand(2)))
    assert len(expected) == 3
    for one, other in zip(expected, got, strict=True):
        assert all(map(torch.equal, one, other))
    (rest,) = feed(ahead, 1, 0, rank=1, world=2, skip=2)
    assert torch.equal(rest["x"], expected[2][0])


@pytest.mark.slow
def test_an_error_in_a_worker_is_one_line(noisy):
    source = Examples(noisy(3, broken=2), 2, workers=1)
    ready = in_order(source)
    next(ready)
    with pytest.raises(LabError, match=r"with_a_dataset\.py:\d+: KeyError: 'no such") as error:
        next(ready)
    assert "\n" not in str(error.value)


def test_a_source_that_cannot_be_pickled_raises_an_error(noisy):
    lock = threading.Lock()
    source = Examples(noisy(3), 2, collate=lambda examples: (lock, examples), workers=1)
    with pytest.raises(LabError, match=r"Examples cannot be sent to worker processes .*lock"):
        next(in_order(source))
    end_workers()


class Skipping(list):
    """Ends an iteration in the middle, as a generator's next() does where it is not caught."""

    def __getitem__(self, i):
        return next(iter(())) if i == 5 else super().__getitem__(i)


def read_all(source):
    """A pass in training, and one in an evaluation."""
    return (lambda: list(feed(source, 1, 0)), lambda: list(in_order(source)))


def test_a_batch_of_none_is_not_the_end_of_the_epoch():
    dataset = Examples([*range(8)], 2, collate=lambda rows: None if 4 in rows else rows)
    for read in read_all(dataset):
        with pytest.raises(LabError, match=r"^a batch of Examples is None; load\(\) or collate"):
            read()


def test_a_stop_in_users_code_is_not_the_end_of_the_batches():
    for read in read_all(Examples(Skipping(range(8)), 2)):
        with pytest.raises(RuntimeError, match="StopIteration while a batch was loaded"):
            read()


class Augmented(torch.utils.data.Dataset):
    """Draws with every generator that augmentations use, and says which process it is in."""

    def __len__(self):
        return 12

    def __getitem__(self, i):
        drawn = [random.random(), numpy.random.rand(), float(torch.rand(()))]  # noqa: NPY002
        return i, torch.tensor(drawn, dtype=torch.float64), os.getpid()


@pytest.mark.slow
def test_workers_start_once_a_run_and_draw_what_this_process_draws():
    dataset = Augmented()
    here = [[*feed(Examples(dataset, 4), 1, epoch)] for epoch in (0, 1)]
    ahead, processes = [], []
    for epoch in (0, 1):
        batches = [*feed(Examples(dataset, 4, workers=2), 1, epoch)]
        ahead.append(batches)
        processes.append({pid for *_, pids in batches for pid in pids.tolist()})
        tested = [*in_order(Examples(dataset, 4, workers=2))]
        processes.append({pid for *_, pids in tested for pid in pids.tolist()})
    end_workers()
    assert len(set().union(*processes)) == 2
    for one, other in zip([*here[0], *here[1]], [*ahead[0], *ahead[1]], strict=True):
        assert torch.equal(one[0], other[0])
        assert torch.equal(one[1], other[1])


@pytest.mark.slow
def test_a_pass_may_begin_while_another_is_under_way():
    source = Examples(Augmented(), 4, workers=1)
    outer = feed(source, 1, 0)
    first = next(outer)
    inner = [*in_order(source)]
    rest = [*outer]
    end_workers()
    expected = [*feed(Examples(Augmented(), 4), 1, 0)]
    assert len(inner) == 3
    for one, other in zip([first, *rest], expected, strict=True):
        assert torch.equal(one[1], other[1])


def test_batches_are_copied_ahead_to_a_gpu():
    told = []

    def load():
        for i in range(3):
            told.append(f"load {i}")
            yield {"x": torch.full((2,), i)}

    def pin(batch):
        told.append("pin")
        return batch

    got = []
    for batch in copy_ahead(load(), CPU, pin):
        got.append(int(batch["x"][0]))
        told.append(f"use {got[-1]}")
    assert got == [0, 1, 2]
    assert told.index("load 1") < told.index("use 0")
    assert told.count("pin") == 3


class Ragged(Augmented):
    def __getitem__(self, i):
        return torch.zeros(i + 1)


def test_examples_that_form_no_batch_are_one_sentence():
    for split in (Ragged(), torch.utils.data.DataLoader(Ragged(), 4)):
        with pytest.raises(
            LabError, match=r"^examples of Ragged do not form a batch \(stack"
        ) as one:
            next(in_order(wrap(split, 4)))
        assert "\n" not in str(one.value)


class Endless(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(torch.arange(10))


def test_a_stream_has_a_size_that_it_keeps():
    with pytest.raises(LabError, match=r"^Endless has no length; say how many .*size=10_000"):
        wrap(Endless(), 4)
    assert [len(batch) for batch in in_order(wrap(Stream(Endless(), 4, 10), 1))] == [4, 4, 2]
    with pytest.raises(LabError, match=r"^Endless ended after 10 examples, and its size is 11"):
        [*in_order(Stream(Endless(), 4, 11))]
    with pytest.raises(LabError, match="at most 1 worker"):
        Stream(Endless(), 4, 10, workers=2)


def test_datasets_of_hugging_face(tmp_path):
    datasets = pytest.importorskip("datasets")
    rows = {"x": [[float(i), 1.0] for i in range(10)], "y": [*range(10)]}
    dataset = datasets.Dataset.from_dict(rows).with_format("torch")
    one, *_ = feed(wrap(dataset, 4), 1, 0)
    assert one["x"].shape == (4, 2)
    assert torch.equal(one["x"][:, 0].long(), one["y"])
    stream = dataset.to_iterable_dataset(num_shards=2).shuffle(buffer_size=5)
    source = Stream(stream, 4, 10)
    whole = [batch["y"].tolist() for batch in feed(source, 1, 0)]
    assert sorted(number for batch in whole for number in batch) == [*range(10)]
    assert [batch["y"].tolist() for batch in feed(source, 1, 0, skip=1)] == whole[1:]
    assert [batch["y"].tolist() for batch in feed(source, 1, 1)] != whole
