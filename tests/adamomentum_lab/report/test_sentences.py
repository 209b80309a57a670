"""Headlines, and what was searched, in sentences."""

import pytest

from adamomentum_lab.catalog import find_workload
from adamomentum_lab.race.plan import make_plan
from adamomentum_lab.report.sentences import headline, of_plan, of_search
from tests.adamomentum_lab.race.test_judge import (
    GOOD,
    NEAR,
    POOR,
    finals_of,
    raced,
    ranked,
    workload,
)
from tests.adamomentum_lab.races import problem, race_of
from tests.adamomentum_lab.races import raced as race


def said_of(**scores):
    return headline(raced(**scores), workload(), "adamomentum")


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        (
            {"adam": POOR, "adamomentum": GOOD, "sgdm": NEAR},
            (
                "adamomentum has the best mean test accuracy, 98.12 ± 0.16. adamomentum's lead "
                "over sgdm, the next, is not resolved by 5 seeds. adamomentum is better than "
                "adam. Between adamomentum and sgdm no difference was detected."
            ),
        ),
        (
            {"adam": POOR, "adamomentum": GOOD},
            (
                "adamomentum has the best mean test accuracy, 98.12 ± 0.16. adamomentum's lead "
                "over adam, the next, is more than chance. adamomentum is better than adam."
            ),
        ),
        (
            {"adam": GOOD, "adamomentum": POOR},
            (
                "adam has the best mean test accuracy, 98.12 ± 0.16. adamomentum is number 2 of "
                "2. adamomentum is worse than adam."
            ),
        ),
        (
            {"adam": GOOD, "adamomentum": GOOD[::-1]},
            (
                "adam and adamomentum share the best mean test accuracy, 98.12. Between "
                "adamomentum and adam no difference was detected."
            ),
        ),
        (
            {"adam": [None, 99.0, 99.1, 99.2, 99.3], "adamomentum": GOOD, "yogi": POOR},
            (
                "adamomentum has the best mean test accuracy, 98.12 ± 0.16. adam has a better "
                "mean over the runs that ended well, but lost more of them and ranks behind. "
                "adamomentum's lead over yogi, the next, is more than chance. adamomentum is "
                "better than yogi. adam cannot be compared with adamomentum, since runs were "
                "lost."
            ),
        ),
        (
            {"adam": [None, None, 99.0], "adamomentum": [None, 98.0, 98.1]},
            (
                "adamomentum has the best mean test accuracy, 98.05 ± 0.64. It lost 1 of 3 "
                "runs, and nobody lost fewer. adam has a better mean over the runs that ended "
                "well, but lost more of them and ranks behind. adamomentum's lead over adam, "
                "the next, cannot be judged. adam cannot be compared with adamomentum, since "
                "runs were lost."
            ),
        ),
        (
            {"adam": GOOD, "sgdm": POOR},
            (
                "adam has the best mean test accuracy, 98.12 ± 0.16. adam is better than sgdm: "
                "its test accuracy is 4.02 higher (95 % interval 3.92 to 4.12, p < 0.001, 5 "
                "seeds)."
            ),
        ),
        (
            {"adam": [98.0], "adamomentum": [97.0]},
            "adam has the best test accuracy, 98. With one seed nothing can be said of chance.",
        ),
        (
            {"adam": [98.0]},
            "adam has the best test accuracy, 98. There was nobody to compare it with.",
        ),
        ({"adam": [None], "sgdm": [None]}, "Nobody won: no run ended with a score."),
    ],
)
def test_the_headline(scores, said):
    assert said_of(**scores) == said


def test_a_headline_among_equals_is_short():
    said = said_of(adam=NEAR, adamomentum=GOOD, sgdm=NEAR, yogi=NEAR)
    assert said.endswith("Between adamomentum and any of the others no difference was detected.")


def test_the_best_of_many_is_judged_among_every_two():
    assert "with 5 seeds" in said_of(adam=GOOD, sgdm=NEAR, yogi=POOR)
    sure = said_of(adam=GOOD, sgdm=POOR, yogi=POOR)
    assert "after Holm's correction for 3 comparisons" in sure


def test_equal_means_are_said_to_be_equal():
    said = said_of(adam=POOR, sgdm=GOOD, yogi=GOOD[::-1], adamomentum=POOR[::-1])
    assert said.startswith("sgdm and yogi share the best mean test accuracy, 98.12.")
    assert "adamomentum is number 3 of 4." in said


def test_a_headline_names_the_baseline():
    finals = finals_of({"adam": POOR, "adamomentum": GOOD, "sgdm": NEAR})
    rows = ranked(finals, baseline="adam")
    said = headline(rows, workload(), "adam")
    assert "adam is number 3 of 3. adam is worse than adamomentum and sgdm." in said


def test_a_record_says_of_its_search_what_the_plan_said(tmp_path):
    for search, halving in (("grid", True), ("random", False)):
        origin = find_workload("digits_mlp")
        options = {"trials": 8, "seeds": 1, "search": search, "halving": halving}
        plan = make_plan(race_of(origin, "adam", "sgdm", **options), origin.load())
        words = " ".join(of_plan(plan))
        assert f"Searched ({search}) for adam: lr 1e-5..0.1" in words
        assert ("Halving, for each: 8 trials up to epoch 5" in words) == halving
    result = race(tmp_path, problem(tmp_path))
    plan = make_plan(result.race, problem(tmp_path).load())
    assert of_search(result) == of_plan(plan)
    assert of_plan(make_plan(race_of(origin, "adam", trials=0), origin.load())) == []
