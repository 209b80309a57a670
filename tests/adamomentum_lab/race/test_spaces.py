"""What a bracketing search searches."""

from dataclasses import replace
from fractions import Fraction

import pytest

from adamomentum_lab import contenders
from adamomentum_lab.errors import LabError
from adamomentum_lab.race.spaces import listed_space, point_of, search_space
from adamomentum_lab.space import Range, parse_space


def space_of(name, **options):
    contender = contenders.get(name)
    return search_space(contender, {**contender.settings, **options.pop("start", {})}, **options)


@pytest.mark.parametrize("name", contenders.names())
def test_by_default_lr_is_searched_from_the_start_and_decay_is_matched(name):
    space = space_of(name, decay=1e-5)
    (lr,) = space.axes
    assert (lr.name, lr.start) == ("lr", contenders.get(name).settings["lr"])
    settings = space.settings(space.start)
    contenders.get(name).check(settings)
    if "weight_decay" in settings:
        assert settings["lr"] * settings["weight_decay"] == pytest.approx(1e-5, rel=1e-5)
        known = contenders.get(name).decay == "decoupled"
        assert known or settings["decoupled_weight_decay"] is True


def test_an_own_form_of_decay_is_left_alone():
    settings = space_of("sgdm", matched=False).settings((Fraction(0),))
    assert settings == {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.0}


def test_weight_decay_is_searched_as_lr_times_weight_decay():
    space = space_of("adamw", tune=("lr", "weight_decay"))
    assert [axis.name for axis in space.axes] == ["lr", "decay"]
    assert space.axes[1].first == (None, 0, 1, -1)
    assert space.settings((Fraction(0), Fraction(0)))["weight_decay"] == pytest.approx(1e-2)
    assert space_of("adamw", tune=("lr", "weight_decay"), decay=1e-4).axes[1].first[0] == 0


def test_the_ends_of_a_range_are_starts_and_walls_only_if_hard():
    wanted = {"lr": Range(1e-5, 1e-1)}
    (lr,) = space_of("adamw", wanted=wanted).axes
    assert [lr.value(position) for position in lr.first] == [1e-5, 1e-1]
    assert lr.low is lr.high is None
    (lr,) = space_of("adamw", wanted=wanted, hard=True).axes
    assert (lr.value(lr.low), lr.value(lr.high)) == (1e-5, 1e-1)


def test_a_list_on_a_logarithmic_scale_is_a_range():
    (lr,) = space_of("adamw", wanted={"lr": (1e-3, 1e-1, 1e-4)}).axes
    assert [lr.value(position) for position in lr.first] == [1e-4, 1e-1]


def test_other_values_are_a_choice_that_begins_with_the_start():
    wanted = {"momentum": (0.5, 0.9)}
    assert space_of("sgdm", wanted=wanted).choices[0].values == (0.9, 0.5)
    assert space_of("adam", wanted=wanted).choices == ()  # it has no such setting


def test_a_single_value_is_fixed_and_one_that_is_given_twice_is_one():
    for values in (((0.5, 0.9),), ([0.5, 0.9], (0.5, 0.9))):
        space = space_of("adam", wanted={"betas": values})
        assert space.choices == ()
        assert space.settings(space.start)["betas"] == (0.5, 0.9)
    space = space_of("adam", wanted={"lr": (0.1, 0.1)})
    assert (space.axes, space.fixed["lr"]) == ((), 0.1)


def test_without_lr_nothing_is_searched():
    assert space_of("adam", tune=()).axes == ()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tune": ("lr", "eps")}, "adam has no values of eps to search"),
        ({"wanted": {"lr": (0.0, 0.1)}}, "lr is searched on a logarithmic scale, which has no 0"),
        ({"wanted": {"lr": (0.1, "fast")}}, "logarithmic scale, which has no 'fast'"),
        ({"start": {"lr": 0.0}}, "lr starts at 0.0; a search on a logarithmic scale needs more"),
    ],
)
def test_what_cannot_be_searched_is_refused(options, words):
    with pytest.raises(LabError, match=words):
        space_of("adam", **options)


def test_spaces_are_read_from_the_command_line():
    assert parse_space("adamw.lr=1e-5:1e-1") == ("adamw", "lr", Range(1e-5, 1e-1))
    assert parse_space("sgdm.momentum=0.8, 0.9") == ("sgdm", "momentum", (0.8, 0.9))
    assert parse_space("*.betas=(0.9,0.95)") == ("*", "betas", ((0.9, 0.95),))


@pytest.mark.parametrize(
    "text", ["lr=1:2", "adam.lr", "adam.lr=", "adam.lr=2:1", "adam.lr=a:b", "adam.lr=0:1", "a.b=("]
)
def test_a_space_that_cannot_be_read_is_one_sentence(text):
    with pytest.raises(LabError, match=r"\.$"):
        parse_space(text)


def test_the_space_of_a_list_of_trials():
    tried = [
        {"lr": 0.1, "betas": (0.9, 0.99), "eps": 1e-8},
        {"lr": 0.01, "betas": [0.9, 0.95], "eps": 1e-8},
        {"lr": 0.1, "betas": (0.9, 0.95), "eps": 1e-8},
    ]
    space = listed_space(tried)
    (lr,), (betas,) = space.axes, space.choices
    assert (lr.name, lr.start) == ("lr", 0.1)
    assert (betas.name, betas.values) == ("betas", ((0.9, 0.99), (0.9, 0.95)))
    assert [point_of(space, settings) for settings in tried] == [
        (0, 0), (pytest.approx(-1), 1), (0, 1)
    ]  # fmt: skip
    for settings in tried:
        made = space.settings(point_of(space, settings))
        assert made == {**settings, "betas": tuple(settings["betas"])}


def test_one_trial_has_no_axes():
    space = listed_space([{"lr": 0.1}])
    assert (space.axes, space.choices, point_of(space, {"lr": 0.1})) == ((), (), ())


def test_a_contender_without_lr_has_nothing_to_search():
    contender = replace(contenders.get("sign"), optimizer=object, space={})
    object.__setattr__(contender, "settings", {"warmup": 0.1})
    for tune in ((), ("lr",)):
        space = search_space(contender, {"warmup": 0.1}, tune=tune)
        assert (space.axes, space.choices, space.settings(())) == ((), (), {"warmup": 0.1})
