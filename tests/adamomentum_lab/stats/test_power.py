"""What a race can see, against SciPy and simulation."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from adamomentum_lab.stats.power import equivalent_margin, sight, spread_limit


@pytest.mark.parametrize(
    ("seeds", "level", "difference"),
    [
        # One look of one pair, then the looks at 5, 10 and 20 seeds.
        (3, 0.05, 3.3), (5, 0.05, 1.7), (10, 0.05, 1.0), (20, 0.05, 0.66),
        (5, 0.010, 2.6), (10, 0.015, 1.25), (20, 0.025, 0.74),
    ],
)  # fmt: skip
def test_the_difference_that_is_found_with_80_percent_power(seeds, level, difference):
    found = sight(seeds, level)
    assert found.difference == pytest.approx(difference, rel=0.015)
    shift = found.difference * math.sqrt(seeds)
    critical = stats.t.ppf(1 - level / 2, seeds - 1)
    assert stats.nct.sf(critical, seeds - 1, shift) == pytest.approx(0.8, abs=1e-8)


@pytest.mark.parametrize(
    ("n", "level"), [(2, 0.05), (3, 0.05), (5, 0.01), (10, 0.025), (20, 0.05 / 7), (50, 0.05)]
)
def test_the_margin_that_equals_stay_within_with_80_percent_power(n, level):
    margin, t = equivalent_margin(n, level), stats.t.ppf(1 - level / 2, n - 1)

    def inside(spread):
        density = stats.chi(n - 1, scale=1 / math.sqrt(n - 1)).pdf(spread)
        return (2 * stats.norm.cdf(margin * math.sqrt(n) - t * spread) - 1) * density

    exact, _ = integrate.quad(inside, 0, margin * math.sqrt(n) / t, limit=200)
    assert exact == pytest.approx(0.8, abs=1e-5)


def test_the_margin_by_simulation():
    draw = np.random.default_rng(0).normal(size=(100_000, 6))
    half = stats.t.ppf(0.975, 5) * draw.std(1, ddof=1) / math.sqrt(6)
    inside = abs(draw.mean(1)) + half < equivalent_margin(6, 0.05)
    assert inside.mean() == pytest.approx(0.8, abs=0.005)


def test_nothing_is_seen_without_seeds_or_level():
    assert sight(1, 0.05) is None
    assert sight(5, 0.0) is None


@pytest.mark.parametrize("n", [2, 3, 5, 10, 30])
def test_the_limit_of_a_spread(n):
    values = np.random.default_rng(n).normal(size=n)
    limit = spread_limit(values.tolist())
    exact = values.std(ddof=1) * math.sqrt((n - 1) / stats.chi2.ppf(0.2, n - 1))
    assert limit == pytest.approx(exact, rel=1e-6)
    assert limit > values.std(ddof=1)


def test_one_pilot_has_no_spread():
    assert spread_limit([1.0]) is None
    assert spread_limit([1.0, math.inf]) is None
