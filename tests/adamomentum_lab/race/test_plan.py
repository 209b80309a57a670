"""The plan of a race: what it searches, and what it will spend."""

from dataclasses import replace
from fractions import Fraction

import pytest

from adamomentum_lab.catalog import find_workload
from adamomentum_lab.errors import LabError
from adamomentum_lab.race.plan import base_settings, make_plan
from adamomentum_lab.race.referee import Pair
from adamomentum_lab.report.sentences import of_plan
from tests.adamomentum_lab.races import race_of


def test_a_grid_smaller_than_the_budget_is_reported():
    cls = find_workload("digits_dcgan").load()
    race = race_of(
        find_workload("digits_dcgan"), "sgdm", "adam", "sign", search="grid", halving=True
    )
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


def test_a_problem_without_a_space_is_searched_over_lr():
    def lines(**options):
        race = race_of(find_workload("digits_mlp"), "sgdm", "adam", **options)
        return of_plan(make_plan(race, find_workload("digits_mlp").load()))

    assert lines(search="grid") == [
        "Searched (grid) for sgdm, adam: lr 1e-5..0.1.",
        "sgdm, adam: only 5 points to try in 6 trials; unused trials are not reassigned.",
    ]
    assert lines() == [
        "sgdm: lr from 0.1 searched by bracketing, with at most 6 trials.",
        "adam: lr from 0.001 searched by bracketing, with at most 6 trials.",
    ]
    assert lines(trials=0) == []


def test_what_a_bracketing_search_will_spend_at_most():
    cls = find_workload("digits_mlp").load()
    plan = make_plan(race_of(find_workload("digits_mlp"), "sgdm", "adam", seeds=3), cls)
    assert plan.brackets
    assert plan.trials == {"sgdm": [], "adam": []}  # it decides as it goes
    assert plan.exhausted == []
    assert plan.parts("adam") == [(6, 20)]
    assert (plan.runs_of("adam"), plan.epochs_of("adam")) == (9, 180)
    assert plan.all_epochs == 360
    assert plan.summary() == (
        "2 optimizers on digits_mlp (mini, fair): up to 6 tuning runs and 3 final runs each, at "
        "most 360 epochs. A verdict may need runs at further settings."
    )
    untuned = make_plan(race_of(find_workload("digits_mlp"), "adam", trials=0, seeds=3), cls)
    assert not untuned.brackets
    assert (untuned.parts("adam"), untuned.runs_of("adam")) == ([], 3)
    assert untuned.search_spaces["adam"].axes == ()


def with_lines(**lines):
    return type("Mine", (find_workload("digits_mlp").load(),), lines)


def spaces_of(cls, *names, **options):
    race = race_of(find_workload("digits_mlp"), *names, **options)
    return make_plan(race, cls).search_spaces


def starts(space, axis=0):
    found = space.axes[axis]
    return [found.value(position) for position in found.first]


def test_the_nearest_source_of_values_counts():
    """The contender's own, then the workload's for all, then for one, then --space likewise."""
    cls = with_lines(spaces={"*": {"lr": (0.1, 1e-4)}, "adam": {"lr": (0.5, 1e-2)}})
    space = ("*.lr=1e-6:1",)
    assert starts(spaces_of(cls, "sgdm")["sgdm"]) == [1e-4, 0.1]
    assert starts(spaces_of(cls, "adam")["adam"]) == [1e-2, 0.5]
    assert starts(spaces_of(cls, "adam", space=space)["adam"]) == [1e-6, 1]
    assert starts(spaces_of(cls, "adam", space=(*space, "adam.lr=1e-3:1e-2"))["adam"]) == [
        1e-3, 1e-2
    ]  # fmt: skip


def test_walls_stand_only_where_they_are_asked_for():
    cls, space = with_lines(), ("adam.lr=1e-3:1e-1",)
    (soft,) = spaces_of(cls, "adam", space=space)["adam"].axes
    assert soft.low is soft.high is None
    (hard,) = spaces_of(cls, "adam", space=space, hard=True)["adam"].axes
    assert [hard.value(end) for end in (hard.low, hard.high)] == [1e-3, 1e-1]


def test_settings_named_to_tune_are_the_only_ones_but_for_single_values():
    cls = with_lines(spaces={"sgdm": {"lr": (0.1, 1e-2), "momentum": (0.5, 0.9)}})
    assert [one.name for one in spaces_of(cls, "sgdm")["sgdm"].choices] == ["momentum"]
    (space,) = spaces_of(cls, "sgdm", tune=("lr",)).values()
    assert (space.choices, space.fixed["momentum"]) == ((), 0.9)
    cls = with_lines(spaces={"sgdm": {"momentum": (0.5,)}})
    (space,) = spaces_of(cls, "sgdm", tune=("lr",)).values()
    assert space.fixed["momentum"] == 0.5


def test_weight_decay_is_that_of_the_workload_for_everyone():
    cls = with_lines(decay=1e-4)
    names = ("sgdm", "adam", "adamw")
    for space in spaces_of(cls, *names).values():
        made = space.settings(space.start)
        assert made["lr"] * made["weight_decay"] == pytest.approx(1e-4, rel=1e-5)
        faster = space.settings((Fraction(1),))
        assert faster["lr"] * faster["weight_decay"] == pytest.approx(1e-4, rel=1e-5)
    for space in spaces_of(cls, *names, trials=0).values():
        made = space.settings(space.start)
        assert made["lr"] * made["weight_decay"] == pytest.approx(1e-4, rel=1e-5)
    listed = make_plan(race_of(find_workload("digits_mlp"), *names, search="grid"), cls)
    for tried in listed.trials.values():
        for made in tried:
            assert made["lr"] * made["weight_decay"] == pytest.approx(1e-4, rel=1e-5)


def test_a_weight_decay_of_ones_own_needs_a_race_that_has_it():
    cls = with_lines(settings={"fair": {"adamw": {"weight_decay": 0.1}}})
    with pytest.raises(LabError, match=r"settings of Mine give adamw a weight_decay, but under"):
        spaces_of(cls, "adamw")
    (space,) = spaces_of(cls, "adamw", own_decay=True).values()
    assert space.settings(space.start)["weight_decay"] == 0.1


def test_pairs_and_the_seeds_at_which_they_are_looked_at():
    race = race_of(find_workload("digits_mlp"), "sgdm", "adamw", "adam", seeds=5)
    assert race.pairs == (Pair("sgdm", "adamw"), Pair("adam", "adamw"))
    every = replace(race, baseline=None)
    assert every.pairs == (Pair("adamw", "sgdm"), Pair("adam", "sgdm"), Pair("adam", "adamw"))
    assert race.look_seeds == replace(race, looks="all").look_seeds == (5,)
    until = replace(race, looks="until decided")
    assert until.look_seeds == (5, 10, 20)
    assert replace(until, seeds=10).look_seeds == (10, 20)
    assert replace(until, seeds=7).look_seeds == (7, 10, 20)
    assert replace(until, seeds=30).look_seeds == (30,)


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
    assert race_of(origin, "adam", "adamomentum", "adamw").baseline == "adamw"
    assert race_of(origin, "sgdm", "adam").baseline == "sgdm"
    assert race_of(origin, "adam", "adamw", baseline="adam").baseline == "adam"
    assert race_of(origin, "adam", "adamw", baseline=None).baseline is None
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


@pytest.mark.parametrize("search", ["bracket", "grid"])
@pytest.mark.parametrize(
    ("setting", "values"),
    [
        ("lr", (0.1, -0.1)),
        ("lr", ("fast", "slow")),
        ("betas", (0.9, 2.0)),
        ("betas", ((0.9, 0.99), (0.9, 1.5))),
    ],
)
def test_values_that_an_optimizer_rejects_raise_an_error_before_the_race(setting, values, search):
    mine = with_lines(spaces={"*": {setting: values}})
    race = race_of(find_workload("digits_mlp"), "adam", "sgdm", search=search)
    refused = r"^adam refuses what spaces or settings of Mine give it: "
    if setting == "lr" and search == "bracket":
        refused = r"^lr is searched on a logarithmic scale, which has no (-0.1|'fast')\.$"
    with pytest.raises(LabError, match=refused):
        make_plan(race, mine)


def test_a_setting_that_no_optimizer_has_raises_an_error():
    mine = type("Mine", (find_workload("digits_mlp").load(),), {"spaces": {"*": {"lrr": (1.0,)}}})
    race = race_of(find_workload("digits_mlp"), "adam", "sgdm")
    with pytest.raises(
        LabError, match=r"^spaces of Mine: there is no setting 'lrr' \(did you mean"
    ):
        make_plan(race, mine)
