"""Curves over epochs and seconds, worked by hand."""

import pytest

from adamomentum_lab.stats import curves


def test_a_band_by_hand():
    found = curves.band([[1.0, 2.0, 9.0], [3.0, None]])
    # t(0.975, 1) = 12.706205; the standard deviation of 1 and 3 is sqrt(2).
    assert found["mean"] == [2.0, None]
    assert found["high"][0] == pytest.approx(2 + 12.706205)
    assert found["low"][0] == pytest.approx(2 - 12.706205)
    assert curves.band([]) == {"mean": [], "low": [], "high": []}


def test_test_is_carried_to_epochs_that_did_not_read_it():
    records = [
        {"epoch": 1},
        {"epoch": 2, "test": {"a": 5.0}},
        {"epoch": 3},
        {"epoch": 4, "test": {}},
    ]
    assert curves.values(records, "test", "a") == [None, 5.0, None, None]
    assert curves.values(records, "test", "a", carried=True) == [None, 5.0, 5.0, None]


def test_seconds_are_added_up():
    assert curves.clock([[1.0, 2.0], [3.0, 2.0, 9]]) == [2.0, 4.0]
    assert curves.clock([[]]) == []
