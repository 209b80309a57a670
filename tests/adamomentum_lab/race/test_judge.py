"""Rankings, on numbers worked by hand."""

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import pytest

from adamomentum_lab.catalog import find_workload
from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.engine.store import Run
from adamomentum_lab.race.bracket import Axis, SearchSpace
from adamomentum_lab.race.facts import run_record, workload_facts
from adamomentum_lab.race.judge import (
    edge_of,
    epochs_to_target,
    ranking,
    task_score,
    tell_trials,
)
from adamomentum_lab.race.record import RunTimes
from adamomentum_lab.race.referee import LOST, Entrant
from adamomentum_lab.race.verdict import Verdict
from adamomentum_lab.selection import reported_epoch, trial_score
from adamomentum_lab.stats.estimates import Estimate


def workload(protocol="fair", **changes):
    made = find_workload("digits_cnn").load()("mini", protocol)
    return replace(workload_facts(made, "digits_cnn"), **changes)


def run_of(optimizer, seed, *scores, status="done", ms=1.0):
    """Its epochs have these (validation, test) accuracies."""
    epochs = [
        {
            "epoch": epoch,
            "validation": {"accuracy": validation, "loss": 1.0},
            "test": {"accuracy": test},
        }
        for epoch, (validation, test) in enumerate(scores, 1)
    ]
    spec = Spec.of(
        {"lr": 0.1},
        workload="digits_cnn",
        code="",
        optimizer=optimizer,
        seed=seed,
        scale="mini",
        protocol="fair",
    )
    return run_record(
        "final", Run(spec, status, epochs, [0.1] * len(epochs), {"ms_per_update": ms})
    )


def ranked(finals, goal=None, digits=None):
    return ranking(finals, goal or workload(), (), digits)


def test_test_is_read_where_validation_chose():
    run = run_of("adam", 1, (90, 50), (95, 60), (94, 99), (95, 70))
    assert reported_epoch(run, workload())["test"]["accuracy"] == 60
    assert reported_epoch(run, workload("as-run"))["test"]["accuracy"] == 99
    assert reported_epoch(run, workload("paper"))["test"]["accuracy"] == 70
    assert reported_epoch(run_of("adam", 1, (90, 50), status="diverged"), workload()) == {}


def test_a_ranking():
    finals = {
        "adam": [run_of("adam", s, (90, 90 + s)) for s in (1, 2, 3)],
        "adamomentum": [run_of("adamomentum", s, (98, 92 + 2 * s), ms=s) for s in (1, 2, 3)],
        "sgdm": [run_of("sgdm", 1, (99, 99)), run_of("sgdm", 2, (99, 99)),
                 run_of("sgdm", 3, status="diverged")],
    }  # fmt: skip
    rows = ranked(finals)
    assert [row.optimizer for row in rows] == ["adamomentum", "adam", "sgdm"]
    ours, adam, sgdm = rows
    assert [row.rank for row in rows] == [1, 2, 3]
    assert (ours.score.mean, adam.score.mean, sgdm.score.mean) == (96, 92, 99)
    assert adam.score.half == pytest.approx(2.484138)  # 91, 92, 93: standard deviation 1
    assert (sgdm.diverged, sgdm.score.n, sgdm.values) == (1, 2, [99, 99, None])
    assert ours.machine.ms_per_update == 2
    assert (ours.reached, ours.epochs_to_target.mean, adam.reached) == (3, 1, 0)


def test_epochs_without_a_score_are_never_reported():
    nan = float("nan")
    run = run_of("adam", 1, (nan, 10), (90, 50), (nan, 99), (91, 60), (nan, 0))
    assert reported_epoch(run, workload())["test"]["accuracy"] == 60
    assert reported_epoch(run_of("adam", 1, (nan, 10)), workload()) == {}
    blown = {"epochs": [{"epoch": 1, "validation": {"accuracy": math.inf}}], "status": "done"}
    assert reported_epoch(SimpleNamespace(**blown), workload()) == {}  # of a live run, too
    rows = ranked({"adam": [run_of("adam", 1, (nan, 10))], "sgdm": [run_of("sgdm", 1, (1, 1))]})
    assert [(row.optimizer, row.values) for row in rows] == [("sgdm", [1]), ("adam", [None])]


def test_smaller_may_be_better():
    problem = workload(larger_is_better=False)
    finals = {name: [run_of(name, 1, (1, score))] for name, score in (("adam", 3), ("yogi", 2))}
    assert [row.optimizer for row in ranked(finals, problem)] == ["yogi", "adam"]
    best = run_of("adam", 1, (3, 1), (1, 7), (2, 0))
    assert reported_epoch(best, problem)["test"]["accuracy"] == 7


def test_epochs_to_the_target():
    assert workload().target == 97
    assert epochs_to_target(run_of("adam", 1, (90, 99), (97, 0), (99, 0)), workload()) == 2
    assert epochs_to_target(run_of("adam", 1, (90, 99)), workload()) is None


def test_a_trial_is_chosen_by_validation_alone():
    good = run_of("adam", 0, (96, 10))
    bad = run_of("adam", 0, (95, 99))
    lost = run_of("adam", 0, (99, 99), status="diverged")
    problem = workload()
    assert min([bad, good, lost], key=lambda run: trial_score(run, problem)) is good
    for nothing in (float("nan"), None):
        strange = run_of("adam", 0, (96, 99))
        strange.epochs[0]["validation"]["loss"] = nothing
        assert min([strange, good], key=lambda run: trial_score(run, problem)) is good


def test_what_the_referee_is_told_of_a_run():
    """Smaller is better. A trial by validation and then loss, a final run by test alone."""
    by = workload()
    run = run_of("adam", 1, (90, 50), (96, 10))
    assert task_score("tuning", run, by) == (-96, 1.0)
    assert task_score("final", run, by) == task_score("check", run, by) == (-10, 0.0)
    assert task_score("final", run, workload(larger_is_better=False)) == (50, 0.0)
    for stage in ("tuning", "final", "check"):
        diverged = run_of("adam", 1, (90, 50), status="diverged")
        assert task_score(stage, diverged, by) == LOST
        assert task_score(stage, run_of("adam", 1, (90, 50), status="failed"), by) is None
        # Under a rule that reads the last epoch, a score may be none.
        blown = run_of("adam", 1, (90, 50), (math.nan, math.nan))
        assert task_score(stage, blown, workload("paper")) == LOST


def test_trials_of_halving_count_if_they_trained_longest():
    """Those that diverged are told too, and the faults are noted."""
    own = Entrant(SearchSpace({}, (Axis("lr", 1.0),)), None)
    stopped = run_of("adam", 0, (99, 1), status="stopped")
    runs = [
        stopped, run_of("adam", 0, (90, 1), (91, 1)), run_of("adam", 0, (95, 1), (92, 1)),
        run_of("adam", 0, (99, 1), status="diverged"),
    ]  # fmt: skip
    points = [(Fraction(k),) for k in range(4)]
    tell_trials(own, zip(points, runs, strict=True), workload())
    assert own.trials == {points[1]: (-91, 1.0), points[2]: (-95, 1.0), points[3]: LOST}
    assert own.tuned == points[2]
    assert not own.faulty
    tell_trials(own, [((Fraction(4),), run_of("adam", 0, status="failed"))], workload())
    assert own.faulty


def test_an_lr_at_the_edge_is_reported():
    assert edge_of(0.1, [0.1, 0.01, 0.1]) == "largest"
    assert edge_of(0.01, [0.1, 0.01]) == "smallest"
    assert edge_of(0.01, [0.1, 0.01, 0.001]) is None
    assert edge_of(0.01, [0.01, 0.01]) == "only one"


def raced(**scores):
    """The rows of a race by test accuracies; None is a diverged run."""
    return ranked(finals_of(scores))


def finals_of(scores):
    return {
        name.replace("_", "-"): [
            run_of(name.replace("_", "-"), seed, *([] if x is None else [(90, x)]),
                   status="diverged" if x is None else "done")
            for seed, x in enumerate(values, 1)
        ]
        for name, values in scores.items()
    }  # fmt: skip


GOOD, POOR = [98.0, 98.2, 98.1, 98.3, 98.0], [94.0, 94.3, 94.1, 94.2, 93.9]


def test_a_row_has_the_verdict_on_it():
    """Of the contender that is A in the pair; the baseline has none."""
    about = Verdict("adam", "adamw", "worse", 5, -4.0, (None, -3.0), (-5.0, -3.0), 0.01, 1, True)
    rows = ranking(finals_of({"adamw": GOOD, "adam": POOR}), workload(), [about])
    assert [(row.optimizer, row.verdict) for row in rows] == [("adamw", None), ("adam", about)]
    assert all(row.verdict is None for row in raced(adam=POOR, sgdm=GOOD))


def test_equal_means_share_a_rank():
    rows = raced(adam=POOR, sgdm=GOOD, yogi=GOOD[::-1], adamomentum=POOR[::-1])
    assert [row.rank for row in rows] == [1, 1, 3, 3]
    rows = raced(adam=[None, 98.0], sgdm=[98.0, 98.0], yogi=[None, None], sign=[None, None])
    assert [row.rank for row in rows] == [1, 2, 3, 3]


def test_steps_and_seconds_to_the_target():
    run = run_of("adam", 1, (90, 1), (97, 1), (99, 1), (99, 1))
    times = RunTimes(updates=400, epoch_seconds=(1.0, 2.0, 4.0, 8.0))
    run = replace(run, machine=times)
    (row,) = ranked({"adam": [run]})
    assert (row.epochs_to_target.mean, row.steps_to_target.mean) == (2, 200)
    assert row.machine.seconds_to_target.mean == 3.0
    run = replace(run, machine=RunTimes())  # as in runs recorded before it was
    (row,) = ranked({"adam": [run]})
    assert row.steps_to_target is None
    (never,) = ranked({"adam": [run_of("adam", 1, (90, 1))]})
    assert never.steps_to_target == never.machine.seconds_to_target == Estimate(None, None, 0)


def test_means_that_were_rounded_share_a_rank_in_the_order_of_the_race():
    whole = {"adam": [100 * k / 360 for k in (340, 341, 346)]}
    whole["adamomentum"] = [100 * k / 360 for k in (342, 343, 342)]
    short = {name: [float(f"{x:.6g}") for x in values] for name, values in whole.items()}
    for scores, digits in ((whole, None), (short, 6)):
        rows = ranked(finals_of(scores), digits=digits)
        assert [(row.optimizer, row.rank) for row in rows] == [("adam", 1), ("adamomentum", 1)]
    assert [row.rank for row in ranked(finals_of(short))] == [1, 2]
