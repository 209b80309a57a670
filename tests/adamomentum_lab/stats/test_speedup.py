"""Speedups: against SciPy's interpolation, exact t-tests, and simulations with a known truth."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.interpolate import PchipInterpolator

from adamomentum_lab.stats.speedup import speedup

HALF, FOUR = (0.5, 1.0, 2.0), (0.25, 0.5, 1.0, 2.0, 4.0)


def loss(budget):
    """A loss that falls as losses of networks do."""
    return 1.5 + budget**-0.3


def shifted(values, by=0.0):
    return {budget: [value + by for value in own] for budget, own in values.items()}


def test_the_factor_is_where_scipys_curve_reaches_the_score():
    random = np.random.default_rng(0)
    for _ in range(200):
        budgets = np.exp(np.sort(random.uniform(-2, 2, random.integers(2, 6))))
        means = np.sort(random.normal(size=len(budgets)))[::-1]
        score = random.uniform(means[-1], means[0])
        curve = PchipInterpolator(np.log(budgets), means)
        wanted = math.exp(curve.solve(score, extrapolate=False)[0])
        found = speedup({b: [m] for b, m in zip(budgets, means, strict=True)}, [score])
        assert found.factor == pytest.approx(wanted, rel=1e-9)
        assert found.low is found.high is None


def test_two_budgets_are_joined_by_a_line():
    found = speedup({1.0: [3.0, 3.2], 4.0: [1.0, 1.2]}, [2.0, 2.2])
    assert found.factor == pytest.approx(2.0)  # halfway in the logarithm


@pytest.mark.parametrize(("score", "factor"), [(0.4, math.inf), (4.0, 0.0), (1.0, 1.0), (0.5, 2.0)])
def test_nothing_is_extrapolated(score, factor):
    found = speedup({0.5: [3.0], 1.0: [1.0], 2.0: [0.5]}, [score])
    assert (found.factor, found.shortest, found.longest) == (pytest.approx(factor), 0.5, 2.0)


def test_a_longer_run_that_ended_worse_does_not_count():
    table = {0.5: [3.0], 1.0: [1.0], 2.0: [1.5]}
    assert speedup(table, [1.0]).factor == pytest.approx(1.0)
    assert speedup(table, [1.2]).factor < 1.0
    assert speedup(table, [0.9]).factor == math.inf


def test_lost_runs():
    table = {0.5: [3.0, 3.1], 1.0: [1.0, 1.1], 2.0: [0.5, math.inf]}
    assert speedup(table, [2.0, 2.0]).longest == 1.0
    assert speedup(table, [2.0, math.inf]) is None
    assert speedup({1.0: [1.0, 1.1]}, [1.0, 1.0]) is None


def test_itself_with_the_same_runs_is_exactly_one():
    table = {0.5: [3.0, 3.3], 1.0: [1.0, 1.4], 2.0: [0.5, 0.9]}
    found = speedup(table, table[1.0])
    assert (found.factor, found.low, found.high) == pytest.approx((1.0, 1.0, 1.0))


@pytest.mark.parametrize("seeds", [2, 3, 5, 10])
def test_the_interval_inverts_paired_t_tests(seeds):
    """A factor is outside exactly if a t-test says that the curve there is not the score: with two
    budgets the curve is linear in the scores, so the test is exact."""
    random = np.random.default_rng(seeds)
    for _ in range(5):
        common = random.normal(size=seeds)
        table = {b: loss(b) + 0.02 * (common + random.normal(size=seeds)) for b in (0.5, 2.0)}
        scores = loss(1.1) + 0.02 * (common + random.normal(size=seeds))
        found = speedup({b: list(own) for b, own in table.items()}, list(scores))

        def p_of(factor, table=table, scores=scores):
            part = math.log(factor / 0.5) / math.log(4)
            gap = (1 - part) * table[0.5] + part * table[2.0] - scores
            return stats.ttest_1samp(gap, 0.0).pvalue

        for end in (found.low, found.high):
            if 0 < end < math.inf:
                assert 0.03 < p_of(end) < 0.07  # 4,000 draws


def coverage(true, seeds, budgets, shared, count):
    """How often the interval of a contender that is where the baseline is at `true` contains it,
    and the median factor. Seeds share a part of their noise."""
    random = np.random.default_rng([seeds, round(10 * true), len(budgets), round(10 * shared)])
    inside, factors = 0, []
    for _ in range(count):
        common = math.sqrt(shared) * random.normal(size=seeds)

        def scores(budget, common=common):
            own = math.sqrt(1 - shared) * random.normal(size=seeds)
            return list(loss(budget) + 0.02 * (common + own))

        found = speedup({b: scores(b) for b in budgets}, scores(true))
        inside += found.low <= true <= found.high
        factors.append(found.factor)
    return inside / count, np.median(factors)


@pytest.mark.parametrize("true", [1.0, 1.4])
def test_a_known_speedup_is_within_its_interval(true):
    """Itself (1.0), and a contender with a dilated schedule: 95 % but for the error of 100
    simulations."""
    inside, factor = coverage(true, 5, HALF, 0.5, 100)
    assert inside >= 0.88
    assert factor == pytest.approx(true, rel=0.03)


@pytest.mark.full
@pytest.mark.parametrize("true", [1.0, 1.4, 0.7])
@pytest.mark.parametrize(("seeds", "budgets"), [(2, HALF), (3, HALF), (5, FOUR), (10, HALF)])
@pytest.mark.parametrize("shared", [0.0, 0.8])
def test_known_speedups_are_within_their_intervals(true, seeds, budgets, shared):
    inside, factor = coverage(true, seeds, budgets, shared, 400)
    assert 0.92 <= inside <= 0.985
    assert factor == pytest.approx(true, rel=0.03)


def test_the_interval_of_the_tool_is_the_same_every_time():
    table = {0.5: [3.0, 3.3], 1.0: [1.0, 1.4], 2.0: [0.5, 0.9]}
    assert speedup(table, [1.2, 1.3]) == speedup(table, [1.2, 1.3])
    moved = speedup(shifted(table, 7.0), [8.2, 8.3])
    assert moved.factor == pytest.approx(speedup(table, [1.2, 1.3]).factor)
