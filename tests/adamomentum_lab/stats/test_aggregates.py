"""Several workloads: measures by hand, by SciPy, and the coverage of their intervals."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from adamomentum_lab.stats.aggregates import (
    improvements,
    interquartile_means,
    mean_ranks,
    tuning_bands,
)

TABLE = {
    "one": {"a": [1.0, 2.0, 3.0], "b": [2.0, 3.0, 4.0]},
    "two": {"a": [10.0, 30.0], "b": [10.0, 20.0]},
}


def test_the_probability_of_improvement_counts_pairs():
    def share(x, y):
        pairs = list(itertools.product(x, y))
        return sum((p > q) + 0.5 * (p == q) for p, q in pairs) / len(pairs)

    found = improvements(TABLE, "a")
    wanted = np.mean([share(own["b"], own["a"]) for own in TABLE.values()])
    assert found["b"].value == pytest.approx(wanted)
    assert found["b"].low <= wanted <= found["b"].high
    assert list(found) == ["b"]


def test_the_interquartile_mean_is_that_of_scipy():
    random = np.random.default_rng(0)
    table = {w: {n: list(random.normal(size=6)) for n in "abc"} for w in ("x", "y", "z")}
    scaled = {n: [] for n in "abc"}
    for own in table.values():
        means = [np.mean(own[n]) for n in "abc"]
        for n in "abc":
            scaled[n] += list((np.array(own[n]) - min(means)) / (max(means) - min(means)))
    for name, band in interquartile_means(table).items():
        assert band.value == pytest.approx(stats.trim_mean(scaled[name], 0.25))
        assert band.low < band.value < band.high


def test_optimizers_that_were_not_raced_everywhere_are_left_out():
    table = {"one": {"a": [1.0], "b": [2.0]}, "two": {"a": [1.0]}}
    assert list(interquartile_means(table)) == ["a"]


def test_intervals_cover():
    """Of two equal optimizers, 0.5 is within the interval in about 95 % of 100 simulations."""
    random, inside = np.random.default_rng(1), 0
    for _ in range(100):
        table = {w: {n: list(random.normal(size=10)) for n in "ab"} for w in "wxyz"}
        band = improvements(table, "a")["b"]
        inside += band.low <= 0.5 <= band.high
    assert inside >= 86


def test_ranks_need_ten_workloads():
    random = np.random.default_rng(2)
    table = {
        str(i): {n: list(random.normal(place, 1, 3)) for place, n in enumerate("abc")}
        for i in range(10)
    }
    assert mean_ranks(dict(itertools.islice(table.items(), 9))) is None
    found = mean_ranks(table)
    assert sum(found.means.values()) == pytest.approx(6)
    assert min(found.means, key=found.means.get) == "c"
    # Demšar 2006, table 5: q is 2.343 for three methods.
    assert found.critical == pytest.approx(2.343 * math.sqrt(3 * 4 / 60), rel=1e-3)


def test_tuning_bands_by_hand():
    bands = tuning_bands(range(1, 101))
    assert bands[0].value == 50  # the median of one trial
    assert bands[1].value == 71  # the best of two: 0.5 ** 0.5 = 0.7071
    room = math.sqrt(math.log(40) / 200)
    assert bands[0].low == math.ceil(100 * (0.5 - room))
    assert bands[0].high == math.ceil(100 * (0.5 + room))
    assert bands[-1].high == math.inf


def test_tuning_bands_cover_the_truth():
    random, inside = np.random.default_rng(3), 0
    for _ in range(200):
        bands = tuning_bands(random.uniform(size=20))
        truth = [0.5 ** (1 / k) for k in range(1, 21)]
        inside += all(b.low <= t <= b.high for b, t in zip(bands, truth, strict=True))
    assert inside >= 184  # the band is simultaneous: 95 % at least, but for chance
