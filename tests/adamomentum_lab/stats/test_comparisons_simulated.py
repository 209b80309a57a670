"""Thousands of simulated studies: the stated rates of error, coverage and power hold.

The studies are judged all at once, by arrays; that `compare` judges as they do is checked on some.
"""

import math

import numpy as np
import pytest
from scipy import special, stats

from adamomentum_lab.stats.comparisons import compare, detectable, sign_flips
from adamomentum_lab.stats.estimates import Estimate

STUDIES = 20_000
OTHERS = "abcdefg"  # the paper's eight optimizers have seven differences to AdaMomentum


def normal(chance, shape):
    return chance.normal(90, 1, shape)


def accuracies(chance, shape):
    """Of 360 test images at 97 %, as those of the digits: they fall on few values."""
    return chance.binomial(360, 0.97, shape) / 3.6


def coarse(chance, shape):
    """Of 50 images: differences are often all the same."""
    return chance.binomial(50, 0.97, shape) / 0.5


def skewed(chance, shape):
    return chance.lognormal(0, 1, shape)


def heavy(chance, shape):
    return chance.standard_t(2, shape)


def shared(chance, shape):
    """Seeds are easy or hard for all alike, which is why differences are paired."""
    return chance.normal(0, 1, shape) + 5 * chance.normal(0, 1, (shape[0], 1, shape[2]))


def judged(ours, others):
    """p and Holm's of every study and pair, from arrays (study, pair, seed)."""
    differences = others - ours
    n = differences.shape[-1]
    same = np.ptp(differences, axis=-1) < 1e-9
    with np.errstate(invalid="ignore", divide="ignore"):
        t = differences.mean(-1) / (differences.std(-1, ddof=1) / math.sqrt(n))
    without_variation = np.where(np.abs(differences[..., 0]) < 1e-9, 1.0, 2.0 ** (1 - n))
    p = np.where(same, without_variation, 2 * special.stdtr(n - 1, -np.abs(t)))
    order = np.argsort(p, axis=-1, kind="stable")
    factors = p.shape[-1] - np.arange(p.shape[-1])
    steps = np.minimum(1, np.take_along_axis(p, order, -1) * factors)
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, np.maximum.accumulate(steps, -1), -1)
    for i in range(25):
        rest = dict(zip(OTHERS, others[i].tolist(), strict=False))
        found = compare("x", ours[i, 0].tolist(), rest, True)
        assert [c.p for c in found] == pytest.approx(list(p[i]), rel=1e-6)
        assert [c.p_holm for c in found] == pytest.approx(list(adjusted[i]), rel=1e-6)
        for c, p_holm in zip(found, adjusted[i], strict=True):
            assert (c.verdict in ("better", "worse")) == (p_holm <= 0.05)
    return p, adjusted


def drawn(noise, seeds, count=STUDIES, others=7):
    scores = noise(np.random.default_rng([seeds, count]), (count, 1 + others, seeds))
    return scores[:, :1], scores[:, 1:]


def at_most(found, stated):
    """Whether a rate over studies is not above what is stated, but for three standard errors."""
    return found.mean() <= stated + 3 * math.sqrt(stated * (1 - stated) / len(found))


@pytest.mark.parametrize("noise", [normal, accuracies, coarse, skewed, heavy, shared])
@pytest.mark.parametrize("seeds", [2, 3, 5, 10])
def test_identical_optimizers_differ_no_more_often_than_stated(noise, seeds):
    p, adjusted = judged(*drawn(noise, seeds))
    assert at_most((adjusted <= 0.05).any(-1), 0.05)
    assert at_most(p[:, 0] <= 0.05, 0.05)
    if noise is normal:  # and the correction is no stricter than need be
        assert (adjusted <= 0.05).any(-1).mean() > 0.03
        assert (p[:, 0] <= 0.05).mean() == pytest.approx(0.05, abs=0.005)


@pytest.mark.parametrize("noise", [accuracies, skewed])
def test_flips_of_signs_find_a_difference_no_more_often_than_stated(noise):
    ours, others = drawn(noise, 10, 2000)
    bits = (np.arange(1024)[:, None] >> np.arange(10)) & 1
    sums = np.abs((others - ours) @ (2.0 * bits.T - 1))
    p = (sums >= sums[..., -1:] - 1e-9).mean(-1)
    assert at_most((p * 7 <= 0.05).any(-1), 0.05)  # any of Holm's is one of Bonferroni's
    assert (p * 7 <= 0.05).any()
    for i in range(25):
        differences = (others[i] - ours[i]).tolist()
        assert [sign_flips(one, 1e-9) for one in differences] == list(p[i])


@pytest.mark.parametrize("seeds", [2, 5, 10])
def test_intervals_hold_the_truth_as_often_as_stated(seeds):
    values = np.random.default_rng(seeds).normal(90, 2, (4000, seeds)).tolist()
    estimates = [Estimate.of(row) for row in values]
    held = np.mean([abs(estimate.mean - 90) <= estimate.half for estimate in estimates])
    assert abs(held - 0.95) < 3 * math.sqrt(0.95 * 0.05 / len(values))


@pytest.mark.parametrize("pairs", [1, 7])
@pytest.mark.parametrize("seeds", [2, 3, 5, 10])
def test_what_could_be_missed_is_seen_with_the_stated_power(pairs, seeds):
    # The differences of two normal scores vary by sqrt(2).
    true = math.sqrt(2) * detectable(seeds, 0.05 / pairs)
    ours, others = drawn(normal, seeds, others=pairs)
    others[:, 0] += true
    p, adjusted = judged(ours, others)
    error = 3 * math.sqrt(0.8 * 0.2 / STUDIES)
    assert abs((p[:, 0] <= 0.05 / pairs).mean() - 0.8) < error
    # Holm sees whatever Bonferroni does, and a little more.
    assert 0.8 - error < (adjusted[:, 0] <= 0.05).mean() < 0.82 + error
    # What a study says of it varies with its own deviation, about the truth.
    claims = [
        compare("x", a[0], {"a": b[0], **dict.fromkeys(OTHERS[1:pairs], a[0])}, True)[0].missed
        for a, b in zip(ours[:400].tolist(), others[:400].tolist(), strict=True)
    ]
    assert np.sqrt(np.mean(np.square(claims))) == pytest.approx(true, rel=0.1)


def test_less_is_seen_less_often():
    ours, others = drawn(normal, 5, others=1)
    p, _ = judged(ours, others + math.sqrt(2) * detectable(5, 0.05) / 2)
    half = detectable(5, 0.05) / 2 * math.sqrt(5)
    expected = stats.nct.sf(stats.t.isf(0.025, 4), 4, half)
    assert (p <= 0.05).mean() == pytest.approx(expected, abs=0.01)
    assert expected < 0.4
