"""Expected best scores and performance profiles, by brute force and by hand."""

import itertools
import math
import random

import numpy as np
import pytest

from adamomentum_lab.stats.profiles import expected_best, profiles


@pytest.mark.parametrize("larger", [True, False])
def test_the_expected_best_by_brute_force(larger):
    chance = random.Random(3)
    values = [chance.choice([1.0, chance.gauss(0, 1)]) for _ in range(7)]
    pick = max if larger else min
    for k, expected in enumerate(expected_best(values, larger), 1):
        draws = [pick(draw) for draw in itertools.combinations(values, k)]
        assert expected == pytest.approx(math.fsum(draws) / len(draws))


def test_the_expected_best_with_lost_trials():
    # Of 1, 2, 3 two are drawn: 2, 3 or 3.
    assert expected_best([3, 1, 2], True) == pytest.approx([2, 8 / 3, 3])
    # Two of four are lost. Of the four draws of three, two hold both scores, one 1 and one 2.
    assert expected_best([1.0, None, 2.0, math.nan], False) == [None, None, 1.25, 1.0]
    assert expected_best([None], True) == [None]
    assert expected_best([], True) == []


def test_profiles():
    measures = {
        "digits": {"adam": 10.0, "sgdm": 20.0, "yogi": 10.0},
        "ptb": {"adam": 6.0, "sgdm": 2.0, "yogi": None},
    }
    found = profiles(measures, [1, 2, 3, 4])
    assert found.ratios["digits"] == {"adam": 1.0, "sgdm": 2.0, "yogi": 1.0}
    assert found.shares == {
        "adam": [0.5, 0.5, 1, 1],
        "sgdm": [0.5, 1, 1, 1],
        "yogi": [0.5, 0.5, 0.5, 0.5],
    }
    # Of adam 0.5 over [1, 3] and 1 over [3, 4]: 2 / 3.
    assert found.scores == pytest.approx({"adam": 2 / 3, "sgdm": 2.5 / 3, "yogi": 0.5})
    assert (found.unreached, found.left_out) == ([], [])


def test_the_score_of_a_profile_is_its_integral():
    chance = random.Random(5)
    names = ["a", "b", "c"]
    measures = {
        str(i): {name: chance.choice([None, chance.uniform(1, 5)]) for name in names}
        for i in range(6)
    }
    taus = np.linspace(1, 4, 30_001)
    found = profiles(measures, taus)
    for name in names:
        assert np.trapezoid(found.shares[name], taus) / 3 == pytest.approx(
            found.scores[name], abs=1e-3
        )


def test_profiles_of_the_worst_inputs():
    nobody = profiles({"digits": {"adam": None, "sgdm": math.inf}}, [1.0])
    assert nobody.shares == {"adam": [0.0], "sgdm": [0.0]}
    assert (nobody.scores, nobody.unreached) == ({"adam": 0.0, "sgdm": 0.0}, ["digits"])
    alone = profiles({"digits": {"adam": 3.0, "yogi": 1.0}, "ptb": {"adam": 5.0}}, [1.0])
    assert (alone.shares, alone.left_out) == ({"adam": [1.0]}, ["yogi"])
    assert profiles({}).shares == {}
    assert profiles({}).taus[0::120] == [1.0, 4.0]
    with pytest.raises(ValueError, match="took on digits must be above 0"):
        profiles({"digits": {"adam": 0.0}})
