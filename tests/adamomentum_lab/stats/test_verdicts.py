"""Verdicts, from intervals worked out by hand and by SciPy."""

import math

import pytest
from scipy import stats

from adamomentum_lab.stats.verdicts import (
    Interval,
    Standing,
    bound,
    interval,
    kind_of,
    level_left,
)

INF = math.inf


def test_the_bound_is_that_of_a_paired_t_interval():
    a, b = [1.0, 2.0, 4.0, 3.0], [1.5, 2.0, 5.5, 4.0]
    low, high = stats.ttest_rel(a, b).confidence_interval(0.9)
    assert bound(a, b, 0.1, 0.0) == pytest.approx(high)
    assert -bound(b, a, 0.1, 0.0) == pytest.approx(low)


def test_seeds_that_agree_still_have_a_spread():
    # Without spread, t(4, 0.975) q / sqrt(6 * 5) is left.
    t = stats.t.ppf(0.975, 4)
    assert bound([0] * 5, [3] * 5, 0.05, 1.0) == pytest.approx(-3 + t / math.sqrt(30))
    assert bound([0] * 5, [3] * 5, 0.05, 0.0) == -3


def test_a_difference_below_the_resolution_is_a_tie():
    assert bound([0] * 50, [0.9] * 50, 0.05, 1.0) == 0.0
    assert bound([0] * 50, [1.1] * 50, 0.05, 1.0) < 0


@pytest.mark.parametrize(("a", "level"), [([1.0], 0.05), ([1.0, INF], 0.05), ([1.0, 2.0], 0.0)])
def test_nothing_bounds_one_seed_divergence_or_a_level_that_is_used_up(a, level):
    assert bound(a, [0.0] * len(a), level, 0.0) == INF


def test_a_winner_stands_at_its_tuned_setting_and_a_loser_at_its_best():
    a = Standing(tuned=[1.0, 1.1], best=[0.9, 1.0], reach=0.3)
    b = Standing(tuned=[5.0, 5.1], best=[4.0, 4.1], reach=0.5)
    found = interval(a, b, 0.05)
    assert found.seeds_high == pytest.approx(1.0 - 4.0)
    assert found.high == pytest.approx(1.0 - 4.0 + 0.5)
    assert found.seeds_low == pytest.approx(0.9 - 5.0)
    assert found.low == pytest.approx(0.9 - 5.0 - 0.3)


def test_a_contender_that_diverged_cannot_win_but_can_lose():
    broken = Standing(tuned=[0.0, INF], best=[3.0, 3.1], reach=0.0)
    sound = Standing(tuned=[1.0, 1.1], best=[1.0, 1.1], reach=0.0)
    assert kind_of(interval(broken, sound, 0.05)) == "worse"
    assert kind_of(interval(sound, broken, 0.05)) == "better"
    better = Standing(tuned=[0.0, INF], best=[0.0, 0.1], reach=0.0)
    assert kind_of(interval(better, sound, 0.05)) == "undecided"


def test_a_bound_with_the_last_point_holds_only_if_it_did_without_it():
    winner, loser = [0.0, 0.1, -0.1, 0.05, 0.0], [2.0, 2.3, 1.8, 2.1, 2.0]
    a = Standing(winner, winner, 0.0)
    low, lower = ([value - fall for value in loser] for fall in (1.5, 1.9))
    now = Standing(loser, loser, 1.5, [low])
    # Alone it holds at a ninth of the level; the plain bound would be lower.
    alone = interval(a, now, 0.05, peeks=9).high
    assert alone == pytest.approx(bound(winner, low, 0.05 / 9, 0.0))
    assert interval(a, now, 0.05).high == pytest.approx(bound(winner, low, 0.05, 0.0))
    # With the point before it, the weaker of the two bounds at half of the level.
    agreed = Standing(loser, loser, 1.5, [low], before=[Standing(loser, loser, 1.52, [low])])
    weaker = bound(winner, loser, 0.025, 0.0) + 1.52
    assert interval(a, agreed, 0.05, peeks=9).high == pytest.approx(
        min(alone, max(weaker, bound(winner, low, 0.025, 0.0)))
    )
    assert interval(a, agreed, 0.05, peeks=9).high < alone
    opposed = Standing(loser, loser, 1.5, [low], before=[Standing(loser, loser, 1.9, [lower])])
    assert interval(a, opposed, 0.05, peeks=9).high == pytest.approx(
        min(alone, bound(winner, lower, 0.025, 0.0))
    )


def test_where_nothing_is_left_to_find_half_of_the_level_decides():
    winner, loser = [0.0, 0.1, -0.1, 0.05, 0.0], [2.0, 2.3, 1.8, 2.1, 2.0]
    a = Standing(winner, winner, 0.0)
    found = interval(a, Standing(loser, loser, 0.0, [loser]), 0.05, peeks=9)
    assert found.high == pytest.approx(bound(winner, loser, 0.025, 0.0))
    assert found.seeds_high == pytest.approx(bound(winner, loser, 0.05, 0.0))
    # Nothing was searched: there is one comparison, with the whole level.
    assert interval(a, Standing(loser, loser, 0.0), 0.05, peeks=9).high == found.seeds_high


def test_every_gap_has_to_be_bounded():
    """A bound with more noise counts, even if its mean is higher."""
    winner, loser = [0.0] * 5, [2.0, 2.1, 1.9, 2.2, 1.8]
    steady, noisy = [1.0] * 5, [1.1, 3.1, -0.9, 2.1, 0.1]
    found = interval(
        Standing(winner, winner, 0.0), Standing(loser, loser, 1.0, [steady, noisy]), 0.05
    )
    assert found.high == pytest.approx(bound(winner, noisy, 0.05, 0.0))
    assert found.high > 0 > bound(winner, steady, 0.05, 0.0)


@pytest.mark.parametrize(
    ("low", "high", "margin", "kind"),
    [
        (-2, -1, None, "better"),
        (1, 2, None, "worse"),
        (-1, 1, None, "undecided"),
        (-1, 1, 1.5, "equivalent"),
        (-1, 1, 1.0, "undecided"),
        (-1, -0.5, 2.0, "better"),  # a difference that is known is told, however small
        (0, 1, None, "undecided"),
    ],
)
def test_the_kind_follows_from_the_interval(low, high, margin, kind):
    assert kind_of(Interval(low, high, low, high), margin) == kind


def test_looks_share_one_level():
    assert level_left(5, 0.0) == 0.010
    assert level_left(10, 0.010) == 0.015
    assert level_left(20, 0.025) == 0.025
    assert level_left(10, 0.0) == 0.025  # nobody looked at 5 seeds
    assert level_left(7, 0.025) == 0.0
    assert level_left(100, 0.05) == 0.0
