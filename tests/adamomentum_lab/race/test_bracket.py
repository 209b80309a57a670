"""The bracketing search, step by step."""

import math
from fractions import Fraction

import pytest

from adamomentum_lab.race.bracket import Axis, Choice, SearchSpace, best_point, bracket

LR = Axis("lr", 1e-3)
DECAY = Axis("decay", 1e-5, first=(None, Fraction(0), Fraction(1), Fraction(-1)))


def search(space, score, trials=50):
    """Run a search; the points in order, and the best of them."""
    tried, steps = {}, bracket(space)
    point = next(steps)
    while True:
        found = score(*point)
        tried[point] = found if isinstance(found, tuple) else (found, 0.0)
        if len(tried) == trials:
            break
        try:
            point = steps.send(tried[point])
        except StopIteration:
            break
    return list(tried), best_point(tried, space.start)


def positions(points):
    return [float(point[0]) for point in points]


def test_gallops_and_then_halves_the_wider_gap():
    tried, best = search(SearchSpace({}, (LR,)), lambda x: abs(x - 1.3))
    # Up by decades until 2 is worse than 1. Of the equal gaps beside 1 the upper is halved: 1.5 is
    # better. Beside 1.5 both gaps are 0.5: 1.75, then 1.25, which has gaps of 0.25.
    assert positions(tried) == [0, 1, 2, 1.5, 1.75, 1.25]
    assert float(best[0]) == 1.25


def test_an_optimum_far_away_is_reached_by_decades():
    tried, best = search(SearchSpace({}, (LR,)), lambda x: abs(x + 4))
    assert positions(tried)[:6] == [0, 1, -1, -2, -3, -4]
    assert float(best[0]) == -4


def test_everything_diverges_at_first():
    tried, best = search(SearchSpace({}, (LR,)), lambda x: math.inf if x > -2 else abs(x + 2.5))
    assert positions(tried)[:4] == [0, -1, -2, -3]
    assert float(best[0]) == -2.5


def test_everything_always_diverges_until_trials_run_out():
    tried, _ = search(SearchSpace({}, (LR,)), lambda x: (math.inf, math.inf), trials=6)
    assert positions(tried) == [0, -1, -2, -3, -4, -5]


def test_ties_go_by_loss_then_to_the_nearer_then_to_the_smaller():
    start = (Fraction(0),)
    one, two, low = (Fraction(1),), (Fraction(2),), (Fraction(-1),)
    assert best_point({two: (0, 1), one: (0, 2)}, start) == two
    assert best_point({two: (0, 1), one: (0, 1)}, start) == one
    assert best_point({one: (0, 1), low: (0, 1)}, start) == low


def test_a_score_that_does_not_depend_on_lr_stays_at_the_start():
    tried, best = search(SearchSpace({}, (LR,)), lambda x: 1.0)
    assert float(best[0]) == 0
    assert positions(tried) == [0, 1, -1, 0.5, -0.5, 0.25, -0.25]


def test_walls_are_not_crossed():
    axis = Axis("lr", 1e-3, low=Fraction(-1), high=Fraction(1, 2))
    tried, best = search(SearchSpace({}, (axis,)), lambda x: -x)
    assert max(positions(tried)) == 0.5
    assert float(best[0]) == 0.5


def test_weight_decay_is_searched_after_lr_and_lr_again():
    def score(x, p):
        gain = 0.0 if p is None else -max(0.0, 1 - abs(p - 0.5))
        shift = 0.0 if p is None else 0.25
        return abs(x - shift) + gain

    tried, best = search(SearchSpace({}, (LR, DECAY)), score)
    without = [point for point in tried if point[1] is None]
    assert tried[: len(without)] == without
    assert [float(point[1]) for point in tried[len(without) :][:3]] == [0, 1, -1]
    assert (float(best[0]), float(best[1])) == (0.25, 0.5)


def test_choices_are_all_tried_at_the_best_lr():
    space = SearchSpace({}, (LR,), (Choice("momentum", (0.9, 0.5, 0.0)),))
    tried, best = search(space, lambda x, i: abs(x) - i)
    assert [point for point in tried if point[0] == 0] == [(0, 0), (0, 1), (0, 2)]
    assert best == (0, 2)
    assert space.settings(best) == {"lr": 1e-3, "momentum": 0.0}


def test_every_choice_gets_an_lr_of_its_own():
    """The second value is the better one, at a tenth of the lr."""
    space = SearchSpace({}, (LR,), (Choice("momentum", (0.9, 0.99)),))
    tried, best = search(space, lambda x, i: abs(x + i) - 0.1 * i)
    assert tried[:5] == [(0, 0), (1, 0), (-1, 0), (0.5, 0), (-0.5, 0)]
    assert best == (-1, 1)


def test_a_contender_without_lr_has_one_point():
    tried, best = search(SearchSpace({"eps": 1e-8}), lambda: 0.0)
    assert tried == [()]
    assert SearchSpace({"eps": 1e-8}).settings(best) == {"eps": 1e-8}


def test_settings_hold_lr_times_weight_decay():
    space = SearchSpace({"eps": 1e-8}, (LR,), decay=1e-5)
    assert space.settings((Fraction(1),)) == {"eps": 1e-8, "lr": 0.01, "weight_decay": 1e-3}
    searched = SearchSpace({}, (LR, DECAY))
    assert searched.settings((Fraction(1), Fraction(1)))["weight_decay"] == 1e-2
    assert searched.settings((Fraction(1), None))["weight_decay"] == 0.0


@pytest.mark.parametrize("value", [3e-4, 1e-1, 7.5e-6])
def test_a_value_survives_its_position(value):
    assert LR.value(LR.position_of(value)) == value
