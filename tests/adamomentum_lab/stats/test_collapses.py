"""Seeds far off the others, and two valleys."""

import math

import numpy as np
import pytest

from adamomentum_lab.stats.collapses import far_off, has_two_valleys


def test_a_collapsed_seed_is_found():
    assert far_off([97.1, 97.3, 10.0, 97.2, 97.4]) == [2]
    assert far_off([1.0, 1.1, 0.9, 1.05, 1.2]) == []


def test_two_collapses_do_not_hide_each_other():
    scores = [97.1, 97.3, 10.0, 97.2, 97.4, 97.0, 12.0, 97.1, 97.2, 97.3]
    assert far_off(scores) == [2, 6]


def test_three_seeds_or_a_divergence_tell_nothing():
    assert far_off([97.0, 97.1, 10.0]) == []
    assert far_off([1.0, 1.1, math.inf, 0.9, 1.0]) == []


def test_scores_that_differ_by_less_than_their_resolution_are_no_collapse():
    scores = [97.0, 97.0, 97.0, 97.0, 98.0]
    assert far_off(scores) == [4]
    assert far_off(scores, floor=1.0) == []


@pytest.mark.parametrize("n", [4, 5, 10, 20])
def test_normal_seeds_are_rarely_called_far_off(n):
    draw = np.random.default_rng(n).normal(size=(3000, n))
    assert sum(bool(far_off(row.tolist())) for row in draw) / 3000 < 0.02


def test_two_valleys():
    assert has_two_valleys([3, 1, 2.5, 0.5, 4], spread=0.1)
    assert not has_two_valleys([3, 1, 2.5, 0.5, 4], spread=0.5)  # by chance
    assert not has_two_valleys([5, 4, 1, 2, 5], spread=0.0)
    assert not has_two_valleys([9, 1, 1.2, 0.9, 9], spread=0.0)  # shallow
    assert not has_two_valleys([3, math.inf, 2], spread=0.1)
