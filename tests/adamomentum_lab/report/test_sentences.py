"""Headlines, what decides next, and what was searched, in sentences."""

from dataclasses import replace
from pathlib import Path

import pytest

from adamomentum_lab.catalog import find_workload
from adamomentum_lab.race.looks import Look
from adamomentum_lab.race.plan import make_plan
from adamomentum_lab.race.result import Result
from adamomentum_lab.report.sentences import (
    continuation,
    of_pairs,
    of_plan,
    of_result,
    of_search,
    of_sight,
    of_sight_in_metric,
)
from tests.adamomentum_lab.races import problem, raced
from tests.adamomentum_lab.races import race_of as raced_on
from tests.tools.made import race_of, trial

GOOD = [98.1, 98.3, 97.9, 98.2, 98.1]
POOR = [94.1, 94.3, 93.9, 94.2, 94.0]
NEAR = [98.3, 97.9, 98.2, 98.0, 98.1]
UNTUNED = {"trials": 0}


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        (
            {"adamw": POOR, "adamomentum": GOOD, "sgdm": POOR[::-1]},
            (
                "adamomentum has the best mean test accuracy, 98.12 ± 0.18. adamomentum scores "
                "better than adamw. Undecided beside adamw: sgdm."
            ),
        ),
        (
            {"adam": GOOD, "adamomentum": POOR, "sgdm": POOR},
            (
                "adam has the best mean test accuracy, 98.12 ± 0.18. adamomentum and sgdm score "
                "worse than adam."
            ),
        ),
        (
            {"adam": GOOD, "adamomentum": GOOD[::-1]},
            (
                "adam and adamomentum share the best mean test accuracy, 98.12. Undecided beside "
                "adam: adamomentum."
            ),
        ),
        (
            {"adam": [None, 99.0, 99.1, 99.2, 99.3], "adamomentum": GOOD, "yogi": POOR},
            (
                "adamomentum has the best mean test accuracy, 98.12 ± 0.18. adam has a better "
                "mean over the runs that ended well, but lost more of them and ranks behind. "
                "Undecided beside adam: adamomentum and yogi."
            ),
        ),
        (
            {"adam": [None, None, 99.0], "adamomentum": [None, 98.0, 98.1]},
            (
                "adamomentum has the best mean test accuracy, 98.05 ± 0.64. It lost 1 of 3 "
                "runs, and nobody lost fewer. adam has a better mean over the runs that ended "
                "well, but lost more of them and ranks behind. Undecided beside adam: "
                "adamomentum."
            ),
        ),
        (
            {"adam": [98.0], "adamomentum": [97.0]},
            "adam has the best test accuracy, 98. Undecided beside adam: adamomentum.",
        ),
        (
            {"adam": [98.0]},
            "adam has the best test accuracy, 98. There was nobody to compare it with.",
        ),
    ],
)
def test_the_headline_of_defaults(scores, said):
    headline = of_result(race_of(scores, spec=UNTUNED))
    assert headline == f"At their defaults, untuned: {said}"


def test_an_optimizer_without_a_score_cannot_win():
    race = race_of({"adam": [None], "sgdm": [None]}, spec=UNTUNED)
    assert of_result(race) == "Nobody won: no run ended with a score."


def test_a_margin_makes_optimizers_equivalent():
    spec = {**UNTUNED, "margin": 0.5}
    said = of_result(race_of({"adam": GOOD, "adamomentum": NEAR, "sgdm": NEAR}, spec=spec))
    assert said.endswith("adamomentum and sgdm are equivalent to adam.")


def test_every_pair_is_named_without_a_baseline():
    scores = {"adam": POOR, "adamomentum": GOOD, "sgdm": NEAR}
    said = of_result(race_of(scores, spec={**UNTUNED, "baseline": None}))
    assert said.endswith(
        "adamomentum scores better than adam. sgdm scores better than adam. 1 of 3 pairs is "
        "undecided."
    )


def test_a_tuned_race_says_that_weight_decay_was_not_tuned():
    race = race_of({"adam": POOR, "adamomentum": GOOD}, spec={"search": "bracket"})
    said = of_result(race)
    assert said.endswith("adamomentum is better than adam. Weight decay was not tuned.")
    assert "untuned" not in said


def listed(command, **scores):
    """Two learning rates of each were tried, and the better one raced."""
    trials = {name: ([trial(0.001, 90.0), trial(0.01, 80.0)], 0) for name in scores}
    race = race_of(scores, trials=trials, spec={"search": "bracket", "baseline": "adam"})
    race.record.machine["command"] = command
    return race


def test_the_command_that_continues():
    plain = "adamomentum race digits_mlp --trials 4 --seeds 5 --certify 8"
    # The gap is ten times the noise, but a better lr could close it: more settings are run.
    race = listed(plain, adam=POOR, adamomentum=GOOD)
    assert of_result(race).endswith(
        "Undecided beside adam: adamomentum. Weight decay was not tuned."
    )
    assert continuation(race) == plain.replace("--certify 8", "--certify 16")
    # The gap is less than the noise: more seeds are run, as many as the next look has.
    far = [value + off for value, off in zip(GOOD, (0.9, -0.5, 0.6, 0.3, 0.6), strict=True)]
    race = listed(plain, adam=GOOD, adamomentum=far)
    assert race.verdicts[0].reasons[0].why == "seeds"
    assert continuation(race) == plain.replace("--seeds 5", "--seeds 20")
    # It goes on from the runs of this race, wherever they are.
    assert continuation(race, Path("my runs")) == f"{continuation(race)} --runs 'my runs'"
    assert continuation(race, Path("runs")) == continuation(race)
    # Nothing would help where no command is known.
    assert continuation(listed("", adam=POOR, adamomentum=GOOD)) is None


def test_more_seeds_where_the_level_of_these_is_used_up():
    command = "adamomentum race digits_mlp --trials 4 --seeds 5"
    race = listed(command, adam=POOR, adamomentum=GOOD)
    for spent, seeds in ((0.01, 10), (0.025, 20), (0.05, None)):
        look = Look("adamomentum", "adam", 5, 0.0, spent)
        again = Result(replace(race.record, looks=(look,)))
        assert [reason.why for reason in again.verdicts[0].reasons] == ["looks"]
        (words,) = of_pairs(again).values()
        assert "The error rate that is allowed at 5 seeds is used up for this question." in words
        found = continuation(again)
        assert found == (command.replace("--seeds 5", f"--seeds {seeds}") if seeds else None)


def test_a_record_says_of_its_search_what_the_plan_said(tmp_path):
    origin = find_workload("digits_mlp")
    for search, halving in (("grid", True), ("random", False)):
        options = {"trials": 8, "seeds": 1, "search": search, "halving": halving}
        plan = make_plan(raced_on(origin, "adam", "sgdm", **options), origin.load())
        words = " ".join(of_plan(plan))
        assert f"Searched ({search}) for adam, sgdm: lr 1e-5..0.1" in words
        assert ("Halving, for each: 8 trials up to epoch 5" in words) == halving
    plan = make_plan(raced_on(origin, "adam", "sgdm", trials=8), origin.load())
    assert of_plan(plan) == [
        "adam: lr from 0.001 searched by bracketing, with at most 8 trials.",
        "sgdm: lr from 0.1 searched by bracketing, with at most 8 trials.",
    ]
    result = raced(tmp_path, problem(tmp_path))
    plan = make_plan(result.race, problem(tmp_path).load())
    assert of_search(result) == of_plan(plan)
    assert of_plan(make_plan(raced_on(origin, "adam", trials=0), origin.load())) == []


def test_what_a_race_can_see(tmp_path):
    race = raced_on(problem(tmp_path), "adamw", "sgdm", "yogi", seeds=5)
    pair, other = race.pairs
    first, last = of_sight(race, {pair: {5: 0.05}, other: {5: 0.05}})
    # One look at 0.05 and one pair would find 1.7 spreads with 5 seeds; with two pairs less.
    assert first.startswith(
        "With 5 seeds and 2 comparisons, a race has 80 % power to detect a difference of 2.1 spread"
    )
    assert "standard deviation of a difference" in last
    (alone, _) = of_sight(race, {pair: {5: 0.05}})
    assert (
        "With 5 seeds and 1 comparison, a race has 80 % power to detect a difference of 1.7 spreads"
        in alone
    )
    assert of_sight(race, {pair: {5: 0.0}})[0] == (
        "5 seeds cannot decide anything: the error rate is used up."
    )
    assert of_sight(race, {pair: {1: 0.05}})[0].endswith("at least two are needed.")
    assert of_sight(race, {}) == []


def test_what_a_race_could_see_in_its_metric():
    said = of_sight_in_metric(race_of({"adam": GOOD, "adamomentum": NEAR}, spec=UNTUNED))
    # Differences 0.2, -0.4, 0.3, -0.2, 0 have the standard deviation 0.286; its upper 80 % limit
    # with 4 degrees of freedom is sqrt(4 / 1.649) times that, and 5 seeds find 1.68 times it.
    assert "differences of 0.75 are found with 80 % power" in said
    assert of_sight_in_metric(race_of({"adam": GOOD}, spec=UNTUNED)) == ""


def test_equal_scores_do_not_show_the_smallest_difference():
    """Differences vary by at least the spread of a rounding error, as in the verdict."""
    both = race_of({"adam": GOOD, "adamomentum": GOOD}, spec=UNTUNED)
    runs = tuple(replace(run, resolution=0.5) for run in both.record.runs)
    said = of_sight_in_metric(replace(both, record=replace(both.record, runs=runs)))
    assert "differences of 0.50 are found" in said
