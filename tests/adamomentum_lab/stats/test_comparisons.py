"""The mathematics of comparisons: worked examples, brute force, and what must not matter."""

import itertools
import math
import random
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from adamomentum_lab.files import dumps
from adamomentum_lab.stats.comparisons import (
    compare,
    detectable,
    holm,
    sign_flips,
)
from adamomentum_lab.stats.estimates import Estimate

# Student 1908, "The probable error of a mean": additional hours of sleep by two drugs.
SLEEP_1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SLEEP_2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
# Darwin 1876, crossed minus self-fertilised maize, in eighths of an inch.
MAIZE = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]


def one(base, other, larger=True):
    return compare("adamomentum", base, {"adam": other}, larger)[0]


def test_students_sleep():
    # R's t.test(paired = TRUE): t = 4.0621, p = 0.002833, interval 0.7001142 to 2.4598858.
    found = one(SLEEP_1, SLEEP_2)
    assert (found.n, found.test, found.comparisons) == (10, "paired t", 1)
    assert found.difference.mean == pytest.approx(1.58)
    assert found.difference.mean - found.difference.half == pytest.approx(0.7001142, abs=1e-7)
    assert found.p == pytest.approx(0.002833, abs=5e-7)
    assert found.p_holm == found.p
    assert found.verdict == "better"
    worse = one(SLEEP_1, SLEEP_2, larger=False)
    assert worse.verdict == "worse"
    assert worse.difference == found.difference


def test_fishers_permutations_of_darwins_maize():
    # Fisher 1935, The Design of Experiments, section 21: 1726 of 32768, where t gives 0.0497.
    assert sign_flips(MAIZE) == 1726 / 32768
    found = one([0.0] * 15, MAIZE)
    assert found.p == pytest.approx(0.0497, abs=5e-5)
    assert found.verdict == "better"


@pytest.mark.parametrize("n", [1, 2, 3, 6, 9])
def test_sign_flips_by_brute_force_and_scipy(n):
    chance = random.Random(n)
    for _ in range(20):
        values = [chance.choice([chance.gauss(0.5, 1), chance.randint(-2, 3)]) for _ in range(n)]
        sums = [
            abs(math.fsum(s * v for s, v in zip(signs, values, strict=True)))
            for signs in itertools.product([1, -1], repeat=n)
        ]
        least = abs(math.fsum(values)) - 1e-9
        assert sign_flips(values) == sum(total >= least for total in sums) / 2**n
    if n > 1:
        found = stats.permutation_test(
            (values,), np.mean, permutation_type="samples", n_resamples=np.inf
        )
        assert sign_flips(values) == pytest.approx(found.pvalue)


def test_sign_flips_of_many():
    assert sign_flips([1.0] * 40) == 2**-39
    assert sign_flips([1.0, -1.0] * 20) == 1.0
    with pytest.raises(ValueError, match="41 differences cannot be counted, but of 1 to 40"):
        sign_flips([1.0] * 41)


def test_holms_correction():
    # R's p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm").
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.5]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_is_never_below_p_and_keeps_their_order(ps):
    adjusted = holm(ps)
    assert all(p <= a <= 1 for p, a in zip(ps, adjusted, strict=True))
    assert all(a <= min(1, len(ps) * p) for p, a in zip(ps, adjusted, strict=True))
    for (p, a), (q, b) in itertools.combinations(zip(ps, adjusted, strict=True), 2):
        assert p >= q or a <= b


def test_published_sample_sizes():
    # Pairs for 80 % power at 5 %, as G*Power has them: 199, 34 and 15 for d_z 0.2, 0.5 and 0.8.
    for effect, pairs in ((0.2, 199), (0.5, 34), (0.8, 15)):
        assert detectable(pairs, 0.05) <= effect < detectable(pairs - 1, 0.05)
    with pytest.raises(ValueError, match="1 pairs have no t-test"):
        detectable(1, 0.05)


@pytest.mark.parametrize("n", [2, 3, 5, 10, 40])
@pytest.mark.parametrize("comparisons", [1, 7, 105])
def test_power_by_integration(n, comparisons):
    freedom, level = n - 1, 0.05 / comparisons
    shift = detectable(n, level) * math.sqrt(n)
    critical = stats.t.isf(level / 2, freedom)

    def density(z):  # of the mean's error, times the chance that the deviation lets it reject
        ratio = max(0.0, (shift + z) / critical)
        return stats.norm.pdf(z) * stats.chi2.cdf(freedom * ratio**2, freedom)

    power, _ = integrate.quad(density, -9, 9, limit=400)
    assert power == pytest.approx(0.8, abs=1e-6)


def test_p_is_that_of_scipy():
    chance = np.random.default_rng(1)
    for n in (2, 3, 5, 30):
        ours, others = chance.normal(90, 1, n), chance.normal(90.5, 1, (4, n))
        found = compare("x", list(ours), dict(zip("abcd", others.tolist(), strict=True)), True)
        for comparison, other in zip(found, others, strict=True):
            expected = stats.ttest_rel(other, ours)
            assert comparison.p == pytest.approx(expected.pvalue, rel=1e-9)
            interval = expected.confidence_interval()
            middle, half = comparison.difference.mean, comparison.difference.half
            assert (middle - half, middle + half) == pytest.approx(tuple(interval))
        assert [c.p_holm for c in found] == holm([c.p for c in found])


scores = st.lists(st.integers(0, 360).map(lambda n: n / 3.6), min_size=2, max_size=12)


@given(st.data(), scores)
def test_shift_scale_order_and_direction_do_not_matter(data, ours):
    draw = st.lists(
        st.integers(0, 360).map(lambda n: n / 3.6), min_size=len(ours), max_size=len(ours)
    )
    adam, yogi = data.draw(draw), data.draw(draw)
    order = data.draw(st.permutations(range(len(ours))))

    def told(change, larger=True):
        new = [[change(x) for x in values] for values in (ours, adam, yogi)]
        new = [[values[i] for i in order] for values in new]
        return compare("x", new[0], {"adam": new[1], "yogi": new[2]}, larger)

    before = compare("x", ours, {"adam": adam, "yogi": yogi}, True)
    swap = {"better": "worse", "worse": "better"}
    for a, b, c, d in zip(
        before, told(lambda x: x + 7), told(lambda x: 2 * x), told(lambda x: -x), strict=True
    ):
        for other in (b, c, d):
            assert other.test == a.test
            assert other.p == pytest.approx(a.p, rel=1e-6, abs=1e-12)
        assert b.difference.mean == pytest.approx(a.difference.mean, abs=1e-9)
        assert c.difference.mean == pytest.approx(2 * a.difference.mean, abs=1e-9)
        assert d.difference.mean == pytest.approx(-a.difference.mean, abs=1e-9)
        if a.missed is not None:
            assert c.missed == pytest.approx(2 * a.missed, rel=1e-6)
        if abs(a.p_holm - 0.05) > 1e-6:
            assert (b.verdict, c.verdict) == (a.verdict, a.verdict)
            assert d.verdict == swap.get(a.verdict, a.verdict)


@pytest.mark.parametrize("scale", [1e-318, 1e-200, 1e200, 1e306])
def test_scores_of_any_size(scale):
    # A perplexity is up to exp(700); squares of such numbers are none.
    ours, adam, same = [1.0, 2.0, 3.0], [2.0, 5.0, 3.5], [2.0, 3.0, 4.0]
    plain = compare("x", ours, {"adam": adam, "same": same}, False)
    huge = compare(
        "x",
        [scale * x for x in ours],
        {"adam": [scale * x for x in adam], "same": [scale * x for x in same]},
        False,
    )
    for a, b in zip(plain, huge, strict=True):
        assert (b.test, b.verdict) == (a.test, a.verdict)
        assert b.p == pytest.approx(a.p, rel=1e-3)
        assert b.difference.mean == pytest.approx(scale * a.difference.mean, rel=1e-3)
    assert huge[0].difference.half == pytest.approx(scale * plain[0].difference.half, rel=1e-3)
    assert huge[0].missed == pytest.approx(scale * plain[0].missed, rel=1e-3)


def test_one_run_that_exploded():
    found = one([60.0, 61.0, 62.0], [60.0, 61.0, math.exp(700)])
    assert found.verdict == "no difference detected"
    assert found.p == pytest.approx(0.4226, abs=1e-4)  # t = 1
    assert Estimate.of([1.7e308, 1.7e308]) == Estimate(1.7e308, 0.0, 2)


def test_no_difference_has_what_could_be_missed():
    found = one([97.0, 97.5, 96.5, 97.2, 97.0], [97.1, 97.2, 96.9, 97.0, 97.1])
    deviation = np.std([0.1, -0.3, 0.4, -0.2, 0.1], ddof=1)
    assert found.missed == pytest.approx(detectable(5, 0.05) * deviation)
    assert found.verdict == "no difference detected"


def test_an_interval_without_0_may_be_no_difference():
    ours, adam = [0.0] * 5, [0.1, 0.5, 0.2, 0.6, 0.3]
    chance = random.Random(0)
    others = {str(i): [chance.gauss(0, 1) for _ in ours] for i in range(6)}
    found = compare("adamomentum", ours, {"adam": adam, **others}, False)[0]
    assert found.p < 0.05 < found.p_holm
    assert found.verdict == "no difference detected"
    # The interval is not corrected; the verdict is.
    assert found.difference.mean - found.difference.half == pytest.approx(0.0825, abs=1e-3)


def test_an_interval_that_barely_leaves_out_0_is_a_difference():
    # t(0.975, 2) = 4.3027: half is 2.4841, and the lower end is 0.0029.
    found = one([0.0, 0.0, 0.0], [1.487, 2.487, 3.487])
    assert found.verdict == "better"
    low = found.difference.mean - found.difference.half
    assert low == pytest.approx(2.487 - 2.484138, abs=1e-6)


def test_one_seed():
    found = one([97.0], [96.5])
    assert (found.verdict, found.p, found.p_holm, found.missed) == (
        "not comparable",
        None,
        None,
        None,
    )
    assert found.difference == Estimate(-0.5, None, 1)


@pytest.mark.parametrize("lost", [None, math.nan, math.inf])
def test_lost_runs(lost):
    found = one([97.0, 96.0, 95.0], [96.0, lost, 93.0])
    assert (found.verdict, found.p, found.n) == ("not comparable", None, 2)
    assert found.difference.mean == -1.5
    both = one([lost, 96.0, 95.0], [lost, 96.0, lost])
    assert (both.other_lost, both.base_lost, both.n) == (2, 1, 1)
    nobody = one([97.0, 96.0], [lost, lost])
    assert (nobody.n, nobody.difference) == (0, Estimate(None, None, 0))
    assert (nobody.verdict, nobody.other_lost) == ("not comparable", 2)
    only = one([lost], [96.0])
    assert (only.verdict, only.base_lost) == ("not comparable", 1)


def test_who_lost_runs_counts_in_the_correction():
    ours, adam = SLEEP_1, SLEEP_2
    found = compare("x", ours, {"adam": adam, "sgdm": [None] * 10}, True)
    assert found[0].p_holm == 2 * found[0].p
    assert found[1].p_holm is None


def test_identical_scores():
    found = one([97.0, 96.0, 95.0], [97.0, 96.0, 95.0])
    assert (found.p, found.test, found.missed) == (1.0, "sign flips", None)
    assert found.difference == Estimate(0.0, 0.0, 3)
    assert found.verdict == "no difference detected"


def test_the_same_difference_with_every_seed():
    # Not the same bits, so that a t-test would find p = 1e-60.
    ours = [97.8, 96.6, 95.3, 31.1, 9.7]
    adam = [score - 0.3 for score in ours]
    assert len({b - a for a, b in zip(ours, adam, strict=True)}) > 1
    few = one(ours, adam)
    assert (few.test, few.p, few.verdict) == ("sign flips", 2 / 32, "no difference detected")
    # Without variation a t-interval would have no width, and contradict the p.
    assert few.difference == Estimate(pytest.approx(-0.3), None, 5)
    many = one(ours * 2, adam * 2)
    assert (many.p, many.verdict) == (2 / 1024, "worse")


def test_seeds_must_match():
    with pytest.raises(ValueError, match="adamomentum has 2 seeds and adam 1; both need the same"):
        one([1.0, 2.0], [1.0])


def test_a_comparison_is_json():
    found = one(SLEEP_1, SLEEP_2)
    assert '"difference": {"mean": 1.58' in dumps(asdict(found))
