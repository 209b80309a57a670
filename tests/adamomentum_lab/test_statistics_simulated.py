"""Thousands of simulated studies: the stated rates of error, coverage and power hold."""

import math

import numpy as np
import pytest

from adamomentum_lab.analysis.statistics import Estimate, compare, detectable

STUDIES = 2000
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


def studies(noise, seeds, count=STUDIES, others=OTHERS):
    chance = np.random.default_rng([seeds, count])
    for ours, *rest in noise(chance, (count, 1 + len(others), seeds)).tolist():
        yield ours, dict(zip(others, rest, strict=True))


def within(rate, stated, count):
    """Not above what is stated but by three standard errors of the simulation."""
    return rate <= stated + 3 * math.sqrt(stated * (1 - stated) / count)


@pytest.mark.parametrize("noise", [normal, accuracies, coarse, skewed, heavy, shared])
@pytest.mark.parametrize("seeds", [2, 5, 10])
def test_identical_optimizers_differ_no_more_often_than_stated(noise, seeds):
    alarms = flipped = single = tests = 0
    for ours, others in studies(noise, seeds):
        found = compare(ours, others, "x", True)
        alarms += any(c.verdict in ("better", "worse") for c in found)
        flipped += any(c.permutation_holm is not None and c.permutation_holm <= 0.05 for c in found)
        single += sum(c.p <= 0.05 for c in found)
        tests += len(found)
    assert within(alarms / STUDIES, 0.05, STUDIES)
    assert within(flipped / STUDIES, 0.05, STUDIES)
    # Those of a study share AdaMomentum, and are not independent: as if there were one for each.
    assert within(single / tests, 0.05, STUDIES)
    if noise is normal:  # the correction is no stricter than need be
        assert alarms / STUDIES > 0.02
        assert single / tests > 0.04
        assert (flipped > 0) == (seeds == 10)


@pytest.mark.parametrize("seeds", [2, 5, 10])
def test_intervals_hold_the_truth_as_often_as_stated(seeds):
    count = 10_000
    chance = np.random.default_rng(seeds)
    held = 0
    for values in chance.normal(90, 2, (count, seeds)).tolist():
        estimate = Estimate.of(values)
        held += abs(estimate.mean - 90) <= estimate.half
    assert abs(held / count - 0.95) < 3 * math.sqrt(0.95 * 0.05 / count)


@pytest.mark.parametrize("others", ["a", OTHERS])
@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_what_could_be_missed_is_seen_with_the_stated_power(others, seeds):
    # The differences of two normal scores vary by sqrt(2).
    true = math.sqrt(2) * detectable(seeds, 0.05 / len(others))
    seen = opposite = 0
    claimed = []
    for ours, rest in studies(normal, seeds, 3000, others):
        rest["a"] = [score + true for score in rest["a"]]
        found = compare(ours, rest, "x", True)[0]
        seen += found.verdict == "better"
        opposite += found.verdict == "worse"
        claimed.append(found.missed)
    error = 3 * math.sqrt(0.8 * 0.2 / 3000)
    # Holm rejects whatever Bonferroni does, and a little more.
    assert 0.8 - error < seen / 3000 < 0.84 + error
    assert opposite == 0
    # What a study says of it varies with its own deviation, about the truth.
    assert np.sqrt(np.mean(np.square(claimed))) == pytest.approx(true, rel=0.05)


def test_half_of_what_could_be_missed_is_missed_more_often_than_not():
    true = math.sqrt(2) * detectable(5, 0.05) / 2
    seen = 0
    for ours, rest in studies(normal, 5, 1000, "a"):
        found = compare(ours, {"a": [score + true for score in rest["a"]]}, "x", True)[0]
        seen += found.verdict == "better"
    assert 0.15 < seen / 1000 < 0.4


def test_the_effect_size_is_unbiased():
    # Without Hedges' factor it would be 0.5 / 0.7979 with five pairs.
    chance = np.random.default_rng(0)
    differences = chance.normal(0.5, 1, (10_000, 5)).tolist()
    found = [compare([0.0] * 5, {"a": row}, "x", True)[0].effect for row in differences]
    assert np.mean(found) == pytest.approx(0.5, abs=0.02)
