"""Means and their intervals."""

import pytest

from adamomentum_lab.stats.estimates import Estimate


def test_an_interval_of_three_values():
    # Mean 2, standard deviation 1, t(0.975, 2) = 4.302653: half is 4.302653 / sqrt(3).
    estimate = Estimate.of([1.0, 2.0, 3.0])
    assert (estimate.mean, estimate.n) == (2.0, 3)
    assert estimate.half == pytest.approx(2.484138)
    assert Estimate.of([5.0]) == Estimate(5.0, None, 1)
    assert Estimate.of([]) == Estimate(None, None, 0)


def test_an_estimate_of_what_is_not_finite():
    estimate = Estimate.of([1.0, float("inf")])
    assert estimate.mean != estimate.mean
    assert (estimate.half, estimate.n) == (None, 2)
