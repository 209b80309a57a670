"""Verdicts with their reasons, and the sentences they become."""

import math

import pytest

from adamomentum_lab.race.bracket import Axis, Choice, SearchSpace
from adamomentum_lab.race.referee import Conduct, Pair
from adamomentum_lab.race.verdict import Reason, judge, seeds_needed
from adamomentum_lab.report.verdicts import explain, sentence
from tests.adamomentum_lab.race.test_referee import AB, bowls, conduct, noise, race


def verdict_of(score, plan, resolution=0.0, larger=False):
    referee, _ = race(score, plan, resolution=resolution)
    return judge(AB, referee.contenders, plan, resolution, larger)


def test_a_verdict_is_that_of_the_referee():
    for gap in (0.0, 0.1, 1.0, -1.0):
        referee, _ = race(bowls(gap, at=0.4), conduct())
        assert judge(AB, referee.contenders, conduct()).kind == referee.kind(AB)


def test_a_winner_has_an_interval_and_no_reasons():
    found = verdict_of(bowls(1.0), conduct())
    assert found.kind == "better"
    assert found.difference == pytest.approx(-1.0, abs=0.2)
    low, high = found.interval
    assert low is None  # nothing was run beside the winner's settings
    assert found.seed_interval[0] < found.difference < found.seed_interval[1] <= high < 0
    assert found.reasons == ()
    words = sentence(found, "test loss")
    assert words.startswith("a is better than b: test loss differs by -")
    assert "(at most -0." in words


def test_numbers_have_the_sign_of_the_metric():
    found = verdict_of(bowls(1.0), conduct(), larger=True)
    assert found.kind == "better"
    assert found.difference == pytest.approx(1.0, abs=0.2)
    assert found.interval[0] > 0
    assert found.interval[1] is None


def test_too_much_noise_says_how_many_seeds_would_do():
    # A gap of half a standard deviation.
    def score(contender, x, seed, stage):
        return (contender == "b") * 0.05 + x * x + 2 * noise(contender, x, seed)

    found = verdict_of(score, conduct())
    assert found.kind == "undecided"
    (reason,) = found.reasons
    assert reason.why == "seeds"
    assert "Seeds vary too much" in sentence(found, "test loss")


def test_the_seeds_that_would_do_would_do():
    ahead, behind = [0.0, 0.1, -0.1, 0.05, 0.0], [0.1, 0.0, 0.1, 0.2, 0.0]
    needed = seeds_needed(ahead, behind, conduct(), 0.0)
    assert 5 < needed < 40
    assert seeds_needed([0.0], [1.0], conduct(), 0.0) is None
    assert seeds_needed([1.0, 1.0], [1.0, 1.0], conduct(), 0.0) is None


def test_an_unresolved_lr_is_the_first_reason():
    found = verdict_of(bowls(0.0, at=30.0), conduct(trials=2, certify=2))
    assert found.kind == "undecided"
    assert found.interval == (None, None)
    (reason,) = found.reasons
    assert (reason.why, reason.contender, reason.setting, reason.high) == ("edge", "b", "lr", None)
    words = sentence(found, "test loss")
    assert "undecided. A better lr for b above" in words


def test_settings_that_were_not_run_together_are_a_reason():
    """The other momentum is better, and so is another lr: both at once were not run."""
    spaces = {
        "a": SearchSpace({}, (Axis("lr", 1e-3),)),
        "b": SearchSpace({}, (Axis("lr", 1e-3),), (Choice("momentum", (0.9, 0.99)),)),
    }

    def score(contender, *rest):
        *point, seed, stage = rest
        at, best = (0.0, 1) if stage == "final" else (0.75, 0)
        worse = 0.3 * (point[-1] != best) if contender == "b" else -1.0
        return (point[0] - at) ** 2 + worse + noise(contender, point, seed)

    plan = conduct(trials=20, certify=0)
    referee, _ = race(score, plan, spaces=spaces)
    found = judge(AB, referee.contenders, plan)
    assert referee.contenders["b"].lacks_combination(5)
    assert (found.kind, found.reasons[0].why) == ("undecided", "edge")
    words = explain(Reason("together", "b"), found)  # where every setting by itself is resolved
    assert words == "Another combination of settings for b could close the gap."


def test_a_gap_names_its_ends():
    def score(contender, x, seed, stage):
        sharp = 0.5 * abs(x - 0.1) if contender == "b" else 0.0
        return sharp + 0.001 * noise(contender, x, seed)

    found = verdict_of(score, conduct(trials=6, certify=0))
    assert found.kind == "undecided"
    (reason,) = found.reasons
    assert reason.why == "gap"
    assert reason.low < 1e-3 * 10**0.1 < reason.high


def test_a_winner_that_diverged_is_the_reason():
    def score(contender, x, seed, stage):
        lost = contender == "a" and stage == "final" and seed == 2
        return math.inf if lost else bowls(1.0)(contender, x, seed, stage)

    found = verdict_of(score, conduct(certify=0))
    assert found.kind in ("undecided", "worse")
    assert found.difference is None


def test_a_level_that_is_used_up_decides_nothing():
    found = verdict_of(bowls(1.0), conduct(levels={5: 0.0}))
    assert found.kind == "undecided"
    assert found.reasons[0].why == "looks"
    assert "used up" in sentence(found, "test loss")


def test_lost_runs_are_not_compared():
    def score(contender, x, seed, stage):
        return None if contender == "b" and stage == "final" else bowls(1.0)(contender, x, seed, 0)

    found = verdict_of(score, conduct())
    assert found.kind == "not comparable"
    assert sentence(found, "test loss") == "a and b are not compared: runs of b failed."


def test_untuned_contenders_are_judged_by_their_settings():
    found = verdict_of(bowls(1.0), conduct(trials=0, certify=0))
    assert found.kind == "better"
    words = sentence(found, "test loss")
    assert "at their defaults, untuned" in words
    assert "is better than" not in words


def test_one_seed_says_nothing():
    found = verdict_of(bowls(1.0), conduct(levels={1: 0.01}))
    assert found.kind == "undecided"
    assert "One seed" in sentence(found, "test loss")


def test_a_difference_below_the_resolution_is_a_tie():
    found = verdict_of(lambda c, x, seed, stage: 0.4 * (c == "b"), conduct(), resolution=1.0)
    assert found.kind == "undecided"
    assert found.reasons[0].why == "tie"


def test_equivalent_needs_a_margin():
    found = verdict_of(bowls(0.0), conduct(margin=0.3))
    assert found.kind == "equivalent"
    assert "are equivalent: test loss differs by" in sentence(found, "test loss")


def test_pairs_share_the_level():
    referee, _ = race(bowls(1.0), conduct())
    alone = judge(AB, referee.contenders, conduct())
    pairs = (AB, *(Pair("x", str(i)) for i in range(9)))
    crowd = judge(AB, referee.contenders, Conduct(10, {5: 0.05}, pairs))
    assert crowd.interval[1] > alone.interval[1]


def test_a_collapsed_seed_is_named():
    def score(contender, x, seed, stage):
        collapse = 50.0 if contender == "b" and seed == 3 else 0.0
        return bowls(1.0)(contender, x, seed, stage) + collapse

    found = verdict_of(score, conduct())
    assert found.collapsed == (("b", 3),)
    assert "b: seed 3 is far off the others" in sentence(found, "test loss")
    assert verdict_of(bowls(1.0), conduct()).collapsed == ()


def test_two_valleys_are_named():
    """The search crosses a ridge on its way up; the deeper valley lies behind it."""

    def score(contender, x, seed, stage):
        deep = min(4 * (x - 1.0) ** 2, 0.4 + 6 * x**2)
        best = deep if contender == "b" else x * x
        return best + 0.1 * noise(contender, x, seed)

    found = verdict_of(score, conduct(trials=12))
    assert found.broken == (("b", "lr"),)
    assert "b: scores over lr are not convex" in sentence(found, "test loss")
    assert verdict_of(bowls(1.0, at=0.4), conduct()).broken == ()


def test_untuned_verdicts_assume_no_curve():
    assert verdict_of(bowls(1.0), conduct(trials=0, certify=0)).broken == ()


def test_sign_flips_are_a_second_opinion_from_six_seeds_on():
    assert verdict_of(bowls(1.0), conduct()).flips is None
    found = verdict_of(bowls(1.0), conduct(levels={6: 0.05}))
    assert found.flips == 2**-5  # all six differences have one sign
    assert "(6 seeds; sign flips: p = 0.031)" in sentence(found, "test loss")
