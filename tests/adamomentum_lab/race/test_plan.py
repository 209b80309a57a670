"""The plan of a race: what it searches, and what it will spend."""

import pytest

from adamomentum_lab.catalog import find_workload
from adamomentum_lab.errors import LabError
from adamomentum_lab.race.plan import base_settings, make_plan
from adamomentum_lab.report.sentences import of_plan
from tests.adamomentum_lab.races import race_of


def test_a_grid_smaller_than_the_budget_is_told():
    cls = find_workload("digits_dcgan").load()
    race = race_of(find_workload("digits_dcgan"), "sgdm", "adam", "sign", halving=True)
    plan = make_plan(race, cls)
    assert [len(plan.trials[name]) for name in race.optimizers] == [5, 6, 1]
    assert plan.exhausted == ["sgdm", "sign"]
    unused = "in 6 trials; unused trials are not reassigned."
    assert f"sgdm: only 5 points to try {unused}" in of_plan(plan)
    assert f"sign: only 1 point to try {unused}" in of_plan(plan)
    assert "Searched (grid) for sign: nothing." in of_plan(plan)
    assert plan.parts("sgdm") == [(5, 3), (3, 2), (2, 5)]
    assert plan.parts("sign") == [(1, 3), (1, 2), (1, 5)]
    assert plan.as_json()["contenders"]["sgdm"]["exhausted"] is True


def test_a_problem_without_a_space_is_searched_over_lr_in_two_lines():
    mine = type("Mine", (find_workload("digits_mlp").load(),), {"spaces": {}})
    plan = make_plan(race_of(find_workload("digits_mlp"), "sgdm", "adam"), mine)
    assert of_plan(plan) == [
        "Searched (grid) for sgdm, adam: lr 1e-5..0.1.",
        "sgdm, adam: only 5 points to try in 6 trials; unused trials are not reassigned.",
    ]


def test_a_random_search_states_its_ends():
    race = race_of(find_workload("digits_mlp"), "sgdm", search="random", tune=("lr", "momentum"))
    plan = make_plan(race, find_workload("digits_mlp").load())
    assert plan.space_as_json("sgdm") == {
        "lr": {"from": 1e-5, "to": 0.1},
        "momentum": [0.5, 0.6, 0.7, 0.8, 0.9],
    }
    assert of_plan(plan) == ["Searched (random) for sgdm: lr 1e-5..0.1, momentum 0.5 to 0.9."]


def test_whom_others_are_compared_with():
    origin = find_workload("digits_mlp")
    assert race_of(origin, "adam", "adamomentum").baseline == "adamomentum"
    assert race_of(origin, "adam", "sgdm").baseline is None
    assert race_of(origin, "adam", "sgdm", baseline="sgdm").baseline == "sgdm"
    assert race_of(origin, "adam", "adamomentum", baseline=None).baseline is None
    with pytest.raises(LabError, match="the baseline 'yogi' is not raced; it must be of adam, sg"):
        race_of(origin, "adam", "sgdm", baseline="yogi")


def test_the_baseline_is_not_part_of_what_is_run():
    origin = find_workload("digits_mlp")
    ids = {race_of(origin, "adam", "adamomentum", baseline=b).id for b in ("adam", None)}
    assert ids == {race_of(origin, "adam", "adamomentum").id}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"fiar": {}}, "there is no protocol 'fiar'"),
        ({"fair": {"adm": {"lr": 1.0}}}, "there is no optimizer 'adm'"),
        ({"fair": {"adam": {"momentum": 0.9}}}, "adam has no setting 'momentum'; it has lr, "),
    ],
)
def test_settings_of_a_workload_with_a_wrong_name(settings, words):
    mine = type("Mine", (find_workload("digits_mlp").load(),), {"settings": settings})
    with pytest.raises(LabError, match=f"^{words}"):
        base_settings("adam", mine, "fair")


@pytest.mark.parametrize("values", [(0.1, -0.1), ("fast", "slow")])
def test_values_that_an_optimizer_refuses_are_told_before_the_race(values):
    own = {"spaces": {"*": {"lr": values}}}
    mine = type("Mine", (find_workload("digits_mlp").load(),), own)
    race = race_of(find_workload("digits_mlp"), "adam", "sgdm")
    with pytest.raises(LabError, match=r"^adam refuses what spaces or settings of Mine give it: "):
        make_plan(race, mine)


def test_a_setting_that_no_optimizer_has_is_told():
    mine = type("Mine", (find_workload("digits_mlp").load(),), {"spaces": {"*": {"lrr": (1.0,)}}})
    race = race_of(find_workload("digits_mlp"), "adam", "sgdm")
    with pytest.raises(
        LabError, match=r"^spaces of Mine: there is no setting 'lrr' \(did you mean"
    ):
        make_plan(race, mine)
