"""The feed: worker processes. What holds for every source is in tests/contract/test_source.py."""

import sys

import pytest
import torch

from adamomentum_lab.catalog import find_workload
from adamomentum_lab.errors import LabError
from adamomentum_lab.source import Examples
from adamomentum_lab.training.feed import feed, in_order
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
    source = Examples(noisy(3), 2, collate=lambda examples: examples, workers=1)
    with pytest.raises(LabError, match=r"Examples cannot be sent to worker processes .*lambda"):
        next(in_order(source))


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
