"""Rankings and headlines, on numbers worked by hand."""

import json

import pytest

from adamomentum_lab.catalog import find_workload
from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.engine.store import Run
from adamomentum_lab.files import dumps
from adamomentum_lab.race.judge import edge_of, epochs_to_target, headline, ranking
from adamomentum_lab.selection import reported_epoch, trial_score
from adamomentum_lab.stats.estimates import Estimate


def workload(protocol="fair"):
    return find_workload("digits_cnn").load()("mini", protocol)


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
    return Run(spec, status, epochs, [0.1] * len(epochs), {"ms_per_update": ms})


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
    rows = ranking(finals, workload())
    assert [row.optimizer for row in rows] == ["adamomentum", "adam", "sgdm"]
    ours, adam, sgdm = rows
    assert [row.rank for row in rows] == [1, 2, 3]
    assert (ours.score.mean, adam.score.mean, sgdm.score.mean) == (96, 92, 99)
    assert ours.difference is None
    # Pairs 91-94, 92-96, 93-98: mean -4, standard deviation 1.
    assert adam.difference.mean == -4
    assert adam.difference.half == pytest.approx(2.484138)
    assert (sgdm.diverged, sgdm.difference.n, sgdm.values) == (1, 2, [99, 99, None])
    assert ours.machine["ms_per_update"] == 2
    assert (ours.reached, ours.epochs_to_target.mean, adam.reached) == (3, 1, 0)


def test_epochs_without_a_score_are_never_reported():
    nan = float("nan")
    run = run_of("adam", 1, (nan, 10), (90, 50), (nan, 99), (91, 60), (nan, 0))
    assert reported_epoch(run, workload())["test"]["accuracy"] == 60
    assert reported_epoch(run_of("adam", 1, (nan, 10)), workload()) == {}
    rows = ranking(
        {"adam": [run_of("adam", 1, (nan, 10))], "sgdm": [run_of("sgdm", 1, (1, 1))]}, workload()
    )
    assert [(row.optimizer, row.values) for row in rows] == [("sgdm", [1]), ("adam", [None])]


def test_smaller_may_be_better(monkeypatch):
    problem = workload()
    monkeypatch.setattr(type(problem), "larger_is_better", False)
    finals = {name: [run_of(name, 1, (1, score))] for name, score in (("adam", 3), ("yogi", 2))}
    assert [row.optimizer for row in ranking(finals, problem)] == ["yogi", "adam"]
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
    strange = run_of("adam", 0, (96, 99))
    strange.epochs[0]["validation"]["loss"] = float("nan")
    assert min([strange, good], key=lambda run: trial_score(run, problem)) is good


def test_an_lr_at_the_edge_is_told():
    assert edge_of(0.1, [0.1, 0.01, 0.1]) == "largest"
    assert edge_of(0.01, [0.1, 0.01]) == "smallest"
    assert edge_of(0.01, [0.1, 0.01, 0.001]) is None
    assert edge_of(0.01, [0.01, 0.01]) == "only one"


def raced(**scores):
    """The rows of a race by test accuracies; None is a diverged run."""
    finals = {
        name.replace("_", "-"): [
            run_of(name.replace("_", "-"), seed, *([] if x is None else [(90, x)]),
                   status="diverged" if x is None else "done")
            for seed, x in enumerate(values, 1)
        ]
        for name, values in scores.items()
    }  # fmt: skip
    return ranking(finals, workload())


GOOD, POOR = [98.0, 98.2, 98.1, 98.3, 98.0], [94.0, 94.3, 94.1, 94.2, 93.9]
NEAR = [97.9, 98.3, 98.0, 98.1, 98.2]


def test_a_row_has_its_comparison():
    ours, adam = raced(adam=POOR, adamomentum=GOOD)
    assert ours.comparison is None
    assert adam.comparison.verdict == "worse"
    assert adam.comparison.difference == adam.difference
    row = json.loads(dumps(adam.as_json()))
    assert row["comparison"]["sentence"].startswith("adam is worse than adamomentum: its test acc")
    assert all(row.comparison is None for row in raced(adam=POOR, sgdm=GOOD))


def test_equal_means_share_a_rank():
    rows = raced(adam=POOR, sgdm=GOOD, yogi=GOOD[::-1], adamomentum=POOR[::-1])
    assert [row.rank for row in rows] == [1, 1, 3, 3]
    assert "adamomentum is number 3 of 4." in headline(rows, workload())
    rows = raced(adam=[None, 98.0], sgdm=[98.0, 98.0], yogi=[None, None], sign=[None, None])
    assert [row.rank for row in rows] == [1, 2, 3, 3]


def test_steps_and_seconds_to_the_target():
    run = run_of("adam", 1, (90, 1), (97, 1), (99, 1), (99, 1))
    run.seconds[:] = [1.0, 2.0, 4.0, 8.0]
    run.machine["updates"] = 400
    (row,) = ranking({"adam": [run]}, workload())
    assert (row.epochs_to_target.mean, row.steps_to_target.mean) == (2, 200)
    assert row.machine["seconds_to_target"].mean == 3.0
    del run.machine["updates"]  # as in runs recorded before it was
    (row,) = ranking({"adam": [run]}, workload())
    assert row.steps_to_target is None
    (never,) = ranking({"adam": [run_of("adam", 1, (90, 1))]}, workload())
    assert never.steps_to_target == never.machine["seconds_to_target"] == Estimate(None, None, 0)


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
    assert headline(raced(**scores), workload()) == said


def test_a_headline_among_equals_is_short():
    said = headline(raced(adam=NEAR, adamomentum=GOOD, sgdm=NEAR, yogi=NEAR), workload())
    assert said.endswith("Between adamomentum and any of the others no difference was detected.")


def test_the_best_of_many_is_judged_among_every_two():
    rows = raced(adam=GOOD, sgdm=NEAR, yogi=POOR)
    assert "with 5 seeds" in headline(rows, workload())
    sure = headline(raced(adam=GOOD, sgdm=POOR, yogi=POOR), workload())
    assert "after Holm's correction for 3 comparisons" in sure
