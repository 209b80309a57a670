"""Learning rates that were tried, and how many of them were good."""

import math
from dataclasses import asdict, replace

import pytest

from adamomentum_lab.catalog import find_workload
from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.engine.store import Run
from adamomentum_lab.files import dumps
from adamomentum_lab.race.facts import run_record, workload_facts
from adamomentum_lab.race.sensitivity import Point, sensitivity

WORKLOAD = workload_facts(find_workload("digits_cnn").load()("mini", "fair"), "digits_cnn")


def trial(optimizer, lr, accuracy, status="done"):
    spec = Spec.of(
        {"lr": lr, "eps": 1e-8},
        workload="digits_cnn",
        code="",
        optimizer=optimizer,
        seed=0,
        scale="mini",
        protocol="fair",
    )
    scores = {"accuracy": accuracy, "loss": 1.0}
    return run_record("tuning", Run(spec, status, [{"epoch": 1, "validation": scores}], [0.1]))


def test_good_learning_rates_are_those_near_the_best_of_all():
    tried = [
        trial("adam", 1e-1, 10.0),
        trial("adam", 1e-2, 98.5),
        trial("adam", 1e-4, 99.5),
        trial("adam", 1e-4, 40.0),
        trial("adam", 1e-3, math.nan),
        trial("adam", 1.0, 99.9, status="diverged"),
        # Equally bad everywhere is not robust.
        *(trial("sgdm", lr, 50.0) for lr in (1e-3, 1e-2, 1e-1)),
        trial("yogi", 1e-3, 100.0),
        trial("yogi", 1e-2, 100.0),
    ]
    found = sensitivity(tried, WORKLOAD)
    adam = found["adam"]
    assert adam.points == [
        Point(1e-4, 99.5, 2),
        Point(1e-3, None, 1),
        Point(1e-2, 98.5, 1),
        Point(1e-1, 10.0, 1),
        Point(1.0, None, 1),
    ]
    assert adam.decades == pytest.approx(2)  # 98 and more is within 2 % of 100
    assert adam.note is None
    # Two of six were lost; after three trials one of the four scores is there.
    assert adam.expected_best[:2] == [None, None]
    assert adam.expected_best[-1] == 99.5
    assert (found["sgdm"].decades, found["sgdm"].note) == (
        None,
        "no learning rate came within 2% of the best of all",
    )
    assert (found["yogi"].decades, found["yogi"].note) == (
        None,
        "fewer than 3 learning rates were tried",
    )
    assert '"decades"' in dumps(asdict(adam))


def test_smaller_may_be_better_and_one_may_be_good():
    smaller = replace(WORKLOAD, larger_is_better=False)
    tried = [trial("adam", lr, score) for lr, score in ((0.1, 80.0), (0.01, 60.0), (0.001, 90.0))]
    found = sensitivity(tried, smaller)["adam"]
    assert found.decades == 0
    assert found.expected_best == pytest.approx([230 / 3, (60 + 60 + 80) / 3, 60])


def test_nothing_tried_or_all_lost():
    assert sensitivity([], WORKLOAD) == {}
    lost = [trial("adam", lr, 1.0, status="diverged") for lr in (0.1, 0.01, 0.001)]
    found = sensitivity(lost, WORKLOAD)["adam"]
    assert (found.decades, found.expected_best) == (None, [None, None, None])
    assert found.note is not None


def test_trials_that_trained_for_different_times_are_not_compared():
    tried = [
        trial("adam", 0.1, 90.0, status="stopped"),
        trial("adam", 0.01, 90.0, status="stopped"),
        trial("adam", 0.001, 91.0),
    ]
    found = sensitivity(tried, WORKLOAD)["adam"]
    assert (found.decades, found.note) == (None, "trials were stopped at different epochs")
