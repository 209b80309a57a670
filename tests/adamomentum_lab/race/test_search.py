"""Tuning: what is tried, and for how long."""

import itertools
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import nn

from adamomentum_lab import contenders
from adamomentum_lab.errors import LabError
from adamomentum_lab.problems.digits_mlp import DigitsMLP
from adamomentum_lab.race import search as lab
from adamomentum_lab.race.plan import Race, make_plan
from adamomentum_lab.race.search import Rung, choices, rungs, space_of
from adamomentum_lab.space import DECADES_OF_LR, LOGARITHMIC, TUNABLE
from adamomentum_lab.workload_checks import check
from adamomentum_paper.grids import GRIDS, space

KINDS = list(GRIDS)
everyone = st.sampled_from(contenders.names()).map(contenders.get)
kinds = st.sampled_from(KINDS)
tuned = st.sets(st.sampled_from(TUNABLE)).map(sorted)
counts = st.integers(1, 40)
searches = st.sampled_from(["grid", "random"])


def trials(contender, kind, base, count, search="grid", tune=()):
    """On a grid of the paper."""
    return lab.trials(base, space(contender, kind, tune), count, search)


def search_space(contender, kind, tune=()):
    return choices(space(contender, kind, tune))


def hashed(settings):
    return tuple(sorted(settings.items()))


@given(everyone, kinds, counts, searches, tuned)
def test_trials_differ_and_use_the_budget_while_there_is_more_to_try(
    contender, kind, count, search, tune
):
    tried = trials(contender, kind, contender.settings, count, search, tune)
    assert len({hashed(settings) for settings in tried}) == len(tried) <= count
    space = search_space(contender, kind, tune)
    first = tuple(tried[0][name] for name in space)
    in_grid = all(tried[0][name] in values for name, values in space.items())
    points = math.prod(map(len, space.values())) + (not in_grid)
    if search == "random" and LOGARITHMIC & space.keys():
        points = math.inf
    assert len(tried) == min(count, points)
    # The first is what it starts from, but for what the grid holds fixed.
    assert first == tuple(contender.settings[name] for name in space)
    for settings in tried[1:]:
        assert settings.keys() == contender.settings.keys()
        assert {k: v for k, v in settings.items() if k not in space} == {
            k: v for k, v in tried[0].items() if k not in space
        }
        for name, values in space.items():
            if search == "grid" or name not in LOGARITHMIC:
                assert settings[name] in values
            else:
                assert min(values) <= settings[name] <= max(values)


@given(everyone, kinds, counts, counts, tuned)
def test_a_larger_random_search_continues_a_smaller_one(contender, kind, one, other, tune):
    few, many = sorted([one, other])
    small = trials(contender, kind, contender.settings, few, "random", tune)
    large = trials(contender, kind, contender.settings, many, "random", tune)
    assert large[: len(small)] == small


@pytest.mark.parametrize("kind", KINDS)
def test_a_trial_has_the_same_quantile_for_every_contender(kind):
    def quantile(name, setting):
        contender = contenders.get(name)
        values = search_space(contender, kind, ["lr", "weight_decay"])[setting]
        low, high = min(values), max(values)
        return [
            math.log(settings[setting] / low) / math.log(high / low)
            for settings in trials(
                contender, kind, contender.settings, 9, "random", ["lr", "weight_decay"]
            )[1:]
        ]

    for setting in ("lr", "weight_decay"):
        ours = quantile("adamomentum", setting)
        for name in contenders.names():
            assert quantile(name, setting) == pytest.approx(ours, abs=1e-3)  # four digits


@pytest.mark.parametrize("kind", KINDS)
def test_lists_of_a_setting_run_the_same_way(kind):
    schedule = {"end_lr": None} if kind == "imagenet" else {}
    for setting in LOGARITHMIC - ({"end_lr"} - {*schedule}):
        lists = [
            search_space(contenders.get(name).with_schedule(schedule), kind, [setting]).get(
                setting, ()
            )
            for name in contenders.names()
        ]
        assert len({values[0] > values[-1] for values in lists if values}) == 1


@pytest.mark.parametrize(
    ("kind", "setting"), [("cnn", "lr"), ("cnn", "eps"), ("cnn", "weight_decay"), ("lstm", "lr"),
                          ("transformer", "lr"), ("cnn", "final_lr"), ("lstm", "final_lr")]
)  # fmt: skip
def test_random_search_is_log_uniform_between_the_ends_of_the_grid(kind, setting):
    contender = contenders.get("adabound")
    tried = trials(contender, kind, contender.settings, 501, "random", [setting])[1:]
    values = search_space(contender, kind, [setting])[setting]
    low, high = math.log(min(values)), math.log(max(values))
    logs = [math.log(settings[setting]) for settings in tried]
    assert stats.kstest(logs, stats.uniform(low, high - low).cdf).pvalue > 0.05
    # The test can fail: uniform without the logarithm is told apart.
    assert (
        stats.kstest([math.exp(v) for v in logs], stats.uniform(0, max(values)).cdf).pvalue < 0.01
    )


def test_settings_of_a_trial_are_drawn_independently():
    contender = contenders.get("adamomentum")
    tried = trials(contender, "cnn", contender.settings, 301, "random")[1:]
    columns = {
        name: [math.log(settings[name]) for settings in tried]
        for name in ("lr", "weight_decay", "eps")
    }
    for one, other in (("lr", "eps"), ("lr", "weight_decay"), ("eps", "weight_decay")):
        assert abs(stats.spearmanr(columns[one], columns[other]).statistic) < 0.15


def test_tuning_a_setting_that_the_paper_held_fixed():
    def values(name, kind, setting):
        return search_space(contenders.get(name), kind, [setting])[setting]

    momenta = (0.5, 0.6, 0.7, 0.8, 0.9)
    assert values("sgdm", "cnn", "momentum") == values("rmsprop", "lstm", "momentum") == momenta
    assert values("adam", "cnn", "betas")[4:] == ((0.9, 0.999), (0.9, 0.99), (0.9, 0.98))
    assert values("adam", "gan", "lr") == values("adam", "cnn", "lr")
    assert values("adam", "lstm", "weight_decay") == values("adam", "cnn", "weight_decay")
    for kind in ("cnn", "lstm", "transformer"):  # AdaBound ends as SGD
        assert values("adabound", kind, "final_lr") == values("sgdm", kind, "lr")
    assert values("adabound", "gan", "final_lr") == values("sgdm", "cnn", "lr")
    assert search_space(contenders.get("sgdm"), "cnn", ["eps"]) == {}


def test_a_setting_that_is_not_tuned_stays():
    contender = contenders.get("adam")
    tried = trials(contender, "lstm", contender.settings, 6, tune=["lr"])
    assert [s["lr"] for s in tried[1:]] != [1e-3] * 5
    assert {(s["betas"], s["eps"], s["weight_decay"]) for s in tried} == {
        ((0.9, 0.999), 1e-8, 1.2e-4)
    }


def test_the_nearest_free_point_takes_the_place_of_one_that_was_tried():
    sgdm = contenders.get("sgdm")
    tried = trials(sgdm, "gan", sgdm.settings, 4)
    # A Latin hypercube of three in five values: 0.5, 0.7 and 0.9, which is the first.
    assert sorted(s["momentum"] for s in tried) == [0.5, 0.7, 0.8, 0.9]
    assert tried[0]["momentum"] == 0.9
    assert sorted(s["momentum"] for s in trials(sgdm, "gan", sgdm.settings, 9)) == [
        0.5, 0.6, 0.7, 0.8, 0.9
    ]  # fmt: skip


@given(everyone, kinds, counts, searches, tuned)
def test_every_trial_can_be_built(contender, kind, count, search, tune):
    for settings in trials(contender, kind, contender.settings, count, search, tune):
        contender.build([nn.Parameter(torch.zeros(1))], **settings)


@pytest.mark.parametrize(
    ("count", "epochs", "expected"),
    [
        (12, 20, [(12, 5), (6, 10), (3, 20)]),
        (6, 15, [(6, 4), (3, 8), (2, 15)]),
        (5, 8, [(5, 2), (3, 4), (2, 8)]),
        (1, 20, [(1, 5), (1, 10), (1, 20)]),
        (8, 2, [(8, 1), (2, 2)]),
        (8, 1, [(8, 1)]),
    ],
)
def test_rungs(count, epochs, expected):
    assert rungs(count, epochs, True) == tuple(Rung(*rung) for rung in expected)
    assert rungs(count, epochs, False) == (Rung(count, epochs),)


@given(st.integers(1, 100), st.integers(1, 300))
def test_rungs_narrow_and_lead_to_the_end(count, epochs):
    found = rungs(count, epochs, True)
    assert found[0].trials == count
    assert found[-1].epochs == epochs
    assert found[-1].trials >= 1
    assert all(a.trials >= b.trials and a.epochs < b.epochs for a, b in itertools.pairwise(found))


@pytest.mark.parametrize("count", [1, 2, 6, 13])
@pytest.mark.parametrize("name", contenders.names())
def test_budgets_are_equal_and_within_the_papers_grid(name, count):
    contender = contenders.get(name)
    tried = trials(contender, "cnn", contender.settings, count)
    assert len(tried) == count
    grid = space(contender, "cnn")
    fixed = {key: values[0] for key, values in grid.items() if len(values) == 1}
    assert tried[0] == {**contender.settings, **fixed}
    for settings in tried[1:]:
        for key, value in settings.items():
            in_grid = key in ("lr", "weight_decay", "eps") and key in grid
            assert value in grid[key] if in_grid else value == tried[0][key]
        contender.build([nn.Parameter(torch.zeros(1))], **settings)


def test_trials_run_evenly_through_the_grid_and_match_between_contenders():
    adam, ours = (
        trials(contenders.get(name), "cnn", contenders.get(name).settings, 6)[1:]
        for name in ("adam", "adamomentum")
    )
    assert sorted(t["lr"] for t in ours) == [1e-5, 1e-4, 1e-3, 1e-2, 1e-1]
    for key in ("lr", "weight_decay", "eps"):
        assert [t[key] for t in adam] == [t[key] for t in ours]
    assert trials(contenders.get("adam"), "cnn", {}, 0) == []


@pytest.mark.parametrize("name", ["sgdm", "adam", "adabound", "adamomentum"])
def test_what_the_paper_holds_fixed_is_fixed_in_every_trial(name):
    contender = contenders.get(name)
    tried = trials(contender, "lstm", contender.settings, 6)
    assert {settings["weight_decay"] for settings in tried} == {1.2e-4}
    assert name != "adabound" or {settings["final_lr"] for settings in tried} == {30.0}
    assert len({settings["lr"] for settings in tried}) > 3


def test_few_trials_change_the_lr_first():
    for name in ("adam", "adamomentum", "sgdm"):
        defaults = contenders.get(name).settings
        for count in (2, 3, 5):
            rates = [t["lr"] for t in trials(contenders.get(name), "cnn", defaults, count)]
            assert len(set(rates)) == count


def with_spaces(spaces, grid=None):
    return type("Mine", (DigitsMLP,), {"spaces": spaces, "grid": grid})


def test_the_space_of_a_workload_then_its_grid_then_the_contenders_own():
    adam, sgdm = map(contenders.get, ("adam", "sgdm"))
    assert space_of(adam, with_spaces({})) == adam.space == {"lr": DECADES_OF_LR}
    assert space_of(adam, with_spaces({}, "lstm")) == space(adam, "lstm")
    # Of "*" everyone has what it has a setting for; what is listed for one goes before.
    mine = with_spaces({"*": {"lr": [1.0, 2.0], "eps": (3.0,)}, "sgdm": {"momentum": (4, 5)}})
    assert space_of(adam, mine) == {"lr": (1.0, 2.0), "eps": (3.0,)}
    assert space_of(sgdm, mine) == {"lr": (1.0, 2.0), "momentum": (4, 5)}
    only = with_spaces({"sgdm": {"lr": (6.0, 7.0)}}, "cnn")
    assert space_of(sgdm, only) == {"lr": (6.0, 7.0)}
    assert space_of(adam, only) == space(adam, "cnn")
    assert choices(space_of(adam, mine)) == {"lr": (1.0, 2.0)}
    tried = lab.trials(adam.settings, space_of(adam, mine), 9)
    assert sorted((s["lr"], s["eps"]) for s in tried) == [(1e-3, 3.0), (1.0, 3.0), (2.0, 3.0)]


def test_settings_beyond_the_usual_ones_are_searched_too():
    adabound = contenders.get("adabound")
    mine = with_spaces({"adabound": {"gamma": (1e-4, 1e-3), "lr": (0.1, 0.2)}})
    assert list(choices(space_of(adabound, mine))) == ["lr", "gamma"]
    assert choices(space_of(adabound, mine, ["gamma"])) == {"gamma": (1e-4, 1e-3)}
    for search in ("grid", "random"):
        tried = lab.trials(adabound.settings, space_of(adabound, mine), 6, search)
        assert {settings["gamma"] for settings in tried} == {1e-4, 1e-3}


def test_tune_on_a_workload_without_a_grid(monkeypatch):
    adam, sgdm = map(contenders.get, ("adam", "sgdm"))
    mine = with_spaces({"*": {"lr": (1.0, 2.0), "betas": ((0.8, 0.9),)}})
    assert space_of(adam, mine, ["lr"]) == {"lr": (1.0, 2.0), "betas": ((0.8, 0.9),)}
    # What the space has no two values of is asked of the plugins.
    assert choices(space_of(adam, mine, ["weight_decay"])) == {
        "weight_decay": search_space(adam, "cnn")["weight_decay"]
    }
    assert space_of(sgdm, mine, ["eps"]) == {}
    monkeypatch.setattr(lab, "provided", lambda _: [])
    for setting in ("weight_decay", "betas"):
        with pytest.raises(
            LabError,
            match=f"^there are no values of {setting} to search for adam; lr can be searched, and "
            f"`spaces` of the workload may list values of {setting}\\.$",
        ):
            space_of(adam, mine, ["lr", setting])
    with pytest.raises(
        LabError, match=r"^there is no grid 'cnn': no plugin that brings grids is installed\.$"
    ):
        space_of(adam, with_spaces({}, "cnn"))


def test_spaces_that_cannot_be_meant():
    adam = contenders.get("adam")
    with pytest.raises(LabError, match=r"^adam has no setting 'momentum'; it has lr, .*\.$"):
        space_of(adam, with_spaces({"adam": {"momentum": (0.5, 0.9)}}))
    mine = with_spaces({"*": {"weight_decay": (0.0, 1e-4)}})
    assert lab.trials(adam.settings, space_of(adam, mine), 3)[1]["weight_decay"] == 1e-4
    with pytest.raises(
        LabError,
        match=r"^weight_decay is searched on a logarithmic scale, which has no 0; leave that value "
        r"out, or use --search grid\.$",
    ):
        lab.trials(adam.settings, space_of(adam, mine), 3, "random")
    for wrong in ({"lr": (0.1, 0.2)}, {"*": {"lr": 0.1}}, {"*": {"lr": ()}}, ["lr"]):
        words = r"spaces in mine\.py is .*; it must be values by optimizer and setting, as \{'\*': "
        with pytest.raises(LabError, match=words):
            check(with_spaces(wrong), Path("mine.py"))
    race = Race("mine", "", ("adam",), 2, 1, "smoke", "fair")
    with pytest.raises(LabError, match=r"^there is no optimizer 'adm' \(did you mean 'adam'\?\)"):
        make_plan(race, with_spaces({"adm": {"lr": (0.1, 0.2)}}))


def test_equal_values_are_one_point():
    adam = contenders.get("adam")
    tried = lab.trials(adam.settings, {"lr": (1e-3, 1e-3)}, 3, "random")
    assert tried == [adam.settings]
