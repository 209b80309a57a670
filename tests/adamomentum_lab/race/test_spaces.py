"""What a bracketing search searches."""

from fractions import Fraction

import pytest

from adamomentum_lab import contenders
from adamomentum_lab.errors import LabError
from adamomentum_lab.race.spaces import search_space
from adamomentum_lab.space import Range, parse_space


def space_of(name, **options):
    contender = contenders.get(name)
    return search_space(contender, contender.settings, **options)


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
    wanted = {"adamw": {"lr": Range(1e-5, 1e-1)}}
    (lr,) = space_of("adamw", wanted=wanted).axes
    assert [lr.value(position) for position in lr.first] == [1e-5, 1e-1]
    assert lr.low is lr.high is None
    (lr,) = space_of("adamw", wanted=wanted, hard=True).axes
    assert (lr.value(lr.low), lr.value(lr.high)) == (1e-5, 1e-1)


def test_values_for_all_are_for_those_that_have_the_setting():
    wanted = {"*": {"momentum": (0.5, 0.9)}}
    assert space_of("sgdm", wanted=wanted).choices[0].values == (0.9, 0.5)
    assert space_of("adam", wanted=wanted).choices == ()


def test_a_single_value_is_fixed():
    space = space_of("adam", wanted={"adam": {"betas": ((0.5, 0.9),)}})
    assert space.choices == ()
    assert space.settings(space.start)["betas"] == (0.5, 0.9)


def test_without_lr_nothing_is_searched():
    assert space_of("adam", tune=()).axes == ()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tune": ("lr", "eps")}, "adam has no values of eps to search"),
        ({"wanted": {"adam": {"momentum": (0.9,)}}}, "adam has no setting 'momentum'"),
        ({"wanted": {"adam": {"lr": (0.0, 0.1)}}}, "logarithmic scale, which has no 0"),
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
