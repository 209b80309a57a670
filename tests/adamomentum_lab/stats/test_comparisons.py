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
from adamomentum_lab.report.sentences import of_comparison
from adamomentum_lab.stats.comparisons import (
    ScorePair,
    compare,
    compare_pairs,
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


def told(found, metric="test accuracy"):
    return of_comparison(found, metric)


def test_students_sleep():
    # R's t.test(paired = TRUE): t = 4.0621, p = 0.002833, interval 0.7001142 to 2.4598858.
    found = one(SLEEP_1, SLEEP_2)
    assert (found.n, found.test, found.comparisons) == (10, "paired t", 1)
    assert found.difference.mean == pytest.approx(1.58)
    assert found.difference.mean - found.difference.half == pytest.approx(0.7001142, abs=1e-7)
    assert found.p == pytest.approx(0.002833, abs=5e-7)
    assert found.p_holm == found.p
    # d_z = 4.0621 / sqrt(10) = 1.2846; J(9) = 0.9139 (Hedges 1981, table 1).
    assert found.effect == pytest.approx(1.2846 * 0.9139, abs=2e-4)
    assert found.verdict == "better"
    assert told(found) == (
        "adam is better than adamomentum: its test accuracy is 1.58 higher (95 % interval 0.70 to "
        "2.46, p = 0.0028, 10 seeds)."
    )
    worse = one(SLEEP_1, SLEEP_2, larger=False)
    assert worse.verdict == "worse"
    assert "adam is worse than adamomentum: its test accuracy is 1.58 higher" in told(worse)


def test_fishers_permutations_of_darwins_maize():
    # Fisher 1935, The Design of Experiments, section 21: 1726 of 32768, where t gives 0.0497.
    assert sign_flips(MAIZE) == 1726 / 32768
    found = one([0.0] * 15, MAIZE)
    assert found.permutation == 1726 / 32768
    assert found.p == pytest.approx(0.0497, abs=5e-5)
    assert found.verdict == "better"
    assert told(found).endswith("An exact permutation test does not confirm it (p = 0.053).")


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
    found = one([0.0] * 41, [1.0 + 0.1 * i for i in range(41)])
    assert found.permutation_note == "all sign flips are counted up to 40 seeds"


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


@pytest.mark.parametrize(
    ("freedom", "factor"), [(2, 0.5642), (3, 0.7236), (4, 0.7979), (9, 0.9139)]
)
def test_the_effect_size_has_hedges_factor(freedom, factor):
    # Hedges 1981, table 1.
    values = [float(i) for i in range(freedom + 1)]
    found = one([0.0] * len(values), values)
    plain = np.mean(values) / np.std(values, ddof=1)
    assert found.effect / plain == pytest.approx(factor, abs=5e-5)


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
            assert other.permutation == a.permutation
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
    assert huge[0].effect == pytest.approx(plain[0].effect, rel=1e-3)
    assert huge[0].difference.half == pytest.approx(scale * plain[0].difference.half, rel=1e-3)
    assert huge[0].missed == pytest.approx(scale * plain[0].missed, rel=1e-3)


def test_one_run_that_exploded():
    found = one([60.0, 61.0, 62.0], [60.0, 61.0, math.exp(700)])
    assert found.verdict == "no difference detected"
    assert found.p == pytest.approx(0.4226, abs=1e-4)  # t = 1
    assert Estimate.of([1.7e308, 1.7e308]) == Estimate(1.7e308, 0.0, 2)


def test_a_permutation_test_only_where_it_can_reject():
    chance = random.Random(0)

    def found(n, count):
        draw = lambda: [chance.gauss(0, 1) for _ in range(n)]  # noqa: E731
        return compare("x", draw(), {str(i): draw() for i in range(count)}, True)[0]

    assert found(5, 1).permutation is None
    note = "with 5 seeds its smallest p, 0.062, is above 0.05"
    assert found(5, 1).permutation_note == note
    assert found(6, 1).permutation is not None
    assert found(6, 1).permutation_note is None
    assert found(8, 7).permutation is None  # 7 * 2 / 256 = 0.055
    assert "0.0078 times 7 comparisons, is above 0.05" in found(8, 7).permutation_note
    assert found(9, 7).permutation is not None
    assert found(9, 7).permutation_holm >= found(9, 7).permutation


def test_no_difference_is_told_with_what_could_be_missed():
    found = one([97.0, 97.5, 96.5, 97.2, 97.0], [97.1, 97.2, 96.9, 97.0, 97.1])
    deviation = np.std([0.1, -0.3, 0.4, -0.2, 0.1], ddof=1)
    assert found.missed == pytest.approx(detectable(5, 0.05) * deviation)
    assert found.verdict == "no difference detected"
    assert told(found) == (
        "No difference in test accuracy between adam and adamomentum was detected with 5 seeds "
        "(95 % interval of adam minus adamomentum -0.32 to 0.36); one smaller than 0.47 could have "
        "been missed."
    )


def test_an_interval_without_0_that_is_no_difference_is_explained():
    ours, adam = [0.0] * 5, [0.1, 0.5, 0.2, 0.6, 0.3]
    chance = random.Random(0)
    others = {str(i): [chance.gauss(0, 1) for _ in ours] for i in range(6)}
    found = compare("adamomentum", ours, {"adam": adam, **others}, False)[0]
    assert found.p < 0.05 < found.p_holm
    assert found.verdict == "no difference detected"
    assert "0.08 to 0.60, which leaves out 0, but p = 0.15 after Holm's correction for 7" in (
        told(found)
    )


def test_an_interval_is_not_rounded_to_0_where_there_is_a_difference():
    # t(0.975, 2) = 4.3027: half is 2.4841, and the lower end is 0.0029.
    found = one([0.0, 0.0, 0.0], [1.487, 2.487, 3.487])
    assert found.verdict == "better"
    assert "2.5 higher (95 % interval 0.003 to 5.0, p = 0.05, 3 seeds)" in told(found)
    assert "(95 % interval 2.0 to 7.0," in told(one([0.0] * 3, [3.487, 4.487, 5.487]))


def test_one_seed():
    found = one([97.0], [96.5])
    assert (found.verdict, found.p, found.p_holm, found.missed) == (
        "not comparable",
        None,
        None,
        None,
    )
    assert found.difference == Estimate(-0.5, None, 1)
    assert told(found) == (
        "With one seed adam's test accuracy was 0.5 lower than adamomentum's; whether by chance "
        "cannot be told."
    )


@pytest.mark.parametrize("lost", [None, math.nan, math.inf])
def test_lost_runs(lost):
    found = one([97.0, 96.0, 95.0], [96.0, lost, 93.0])
    assert (found.verdict, found.p, found.n) == ("not comparable", None, 2)
    assert found.difference.mean == -1.5
    assert told(found) == (
        "adam and adamomentum cannot be compared: adam lost 1 of its 3 runs, and what is left is "
        "no fair sample. With the 2 seeds that both finished, adam's test accuracy was 1.5 lower "
        "than adamomentum's on average."
    )
    both = one([lost, 96.0, 95.0], [lost, 96.0, lost])
    assert "adam lost 2 of its 3 runs and adamomentum lost 1 of its 3 runs, and" in told(both)
    nobody = one([97.0, 96.0], [lost, lost])
    assert (nobody.n, nobody.difference) == (0, Estimate(None, None, 0))
    assert told(nobody) == ("adam and adamomentum cannot be compared: adam lost all its 2 runs.")
    only = one([lost], [96.0])
    assert told(only) == ("adam and adamomentum cannot be compared: adamomentum lost its only run.")


def test_who_lost_runs_counts_in_the_correction():
    ours, adam = SLEEP_1, SLEEP_2
    found = compare("x", ours, {"adam": adam, "sgdm": [None] * 10}, True)
    assert found[0].p_holm == 2 * found[0].p
    assert found[1].p_holm is None


def test_identical_scores():
    found = one([97.0, 96.0, 95.0], [97.0, 96.0, 95.0])
    assert (found.p, found.test, found.missed, found.effect) == (1.0, "sign flips", None, None)
    assert found.difference == Estimate(0.0, 0.0, 3)
    assert told(found) == (
        "No difference in test accuracy between adam and adamomentum was detected: with each of 3 "
        "seeds both scored the same."
    )


def test_the_same_difference_with_every_seed():
    # Not the same bits, so that a t-test would find p = 1e-60.
    ours = [97.8, 96.6, 95.3, 31.1, 9.7]
    adam = [score - 0.3 for score in ours]
    assert len({b - a for a, b in zip(ours, adam, strict=True)}) > 1
    few = one(ours, adam)
    assert (few.test, few.p, few.verdict) == ("sign flips", 2 / 32, "no difference detected")
    # Without variation a t-interval would have no width, and contradict the p.
    assert few.difference == Estimate(pytest.approx(-0.3), None, 5)
    assert told(few) == (
        "adam's test accuracy was 0.3 lower than adamomentum's with each of 5 seeds, by the same "
        "amount; so few do not show a difference (p = 0.062 by flips of signs)."
    )
    many = one(ours * 2, adam * 2)
    assert (many.p, many.permutation, many.verdict) == (2 / 1024, 2 / 1024, "worse")
    assert told(many) == (
        "adam is worse than adamomentum: adam's test accuracy was 0.3 lower than adamomentum's "
        "with each of 10 seeds, by the same amount (p = 0.002 by flips of signs)."
    )


def test_one_of_many_chosen_by_its_scores_is_corrected_for_all():
    pair = ScorePair("sgdm", "adam", SLEEP_1, SLEEP_2)
    (found,) = compare_pairs([pair], True, of=10)
    assert found.p_holm == 10 * found.p
    assert found.comparisons == 10


def test_seeds_must_match():
    with pytest.raises(ValueError, match="adamomentum has 2 seeds and adam 1; both need the same"):
        one([1.0, 2.0], [1.0])


def test_a_comparison_is_json():
    found = one(SLEEP_1, SLEEP_2)
    assert '"difference": {"mean": 1.58' in dumps(asdict(found))


def test_scores_that_were_rounded_are_the_same_as_before():
    """What a record with six digits has lost must not look like what seeds did."""
    whole = [100 * k / 360 for k in (340, 341, 343, 347, 349, 338)]
    lower = [score - 100 / 360 for score in whole]
    ours, adam = ([float(f"{score:.6g}") for score in scores] for scores in (whole, lower))
    assert len({round(b - a, 9) for a, b in zip(ours, adam, strict=True)}) > 1
    (exact,) = compare("x", whole, {"adam": lower}, True)
    (found,) = compare("x", ours, {"adam": adam}, True, digits=6)
    assert (found.test, found.p, found.verdict) == (exact.test, exact.p, exact.verdict)
    assert found.test == "sign flips"
    # Sums of flipped signs that were the same still are.
    chance = random.Random(3)
    for _ in range(20):
        whole, other = ([100 * chance.randint(330, 350) / 360 for _ in range(10)] for _ in "ab")
        ours, adam = ([float(f"{score:.6g}") for score in scores] for scores in (whole, other))
        (exact,) = compare("x", whole, {"adam": other}, True)
        (found,) = compare("x", ours, {"adam": adam}, True, digits=6)
        assert found.permutation == exact.permutation
        assert found.p == pytest.approx(exact.p, rel=1e-3)
