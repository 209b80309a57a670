"""The covering arrays of pairs.py: complete, small and repeatable."""

import itertools
import math

import pytest

from tests.adamomentum.pairs import all_pairs


@pytest.mark.parametrize("sizes", [(2, 2), (3, 2, 2, 2, 2, 2), (4, 3, 5, 1)], ids=str)
def test_every_pair_of_values_occurs(sizes):
    groups = [[(name, i) for i in range(size)] for name, size in enumerate(sizes)]
    rows = all_pairs(*groups)
    for (i, first), (j, second) in itertools.combinations(enumerate(groups), 2):
        assert {(row[i], row[j]) for row in rows} == set(itertools.product(first, second))
    assert all(len(row) == len(groups) for row in rows)
    assert len(rows) <= math.prod(sizes)


def test_the_rows_are_few_and_the_same_every_time():
    groups = [range(3), *[range(2)] * 5]
    assert len(all_pairs(*groups)) <= 9  # of 96; six is the least
    assert all_pairs(*groups) == all_pairs(*groups)
