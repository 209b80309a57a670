"""What the paper's changes buy, from races that were made up."""

from dataclasses import asdict

from adamomentum_lab import contenders
from adamomentum_lab.catalog import find_workload
from adamomentum_lab.files import dumps
from adamomentum_lab.race.judge import Row
from adamomentum_lab.report.sentences import of_comparison
from adamomentum_lab.stats.estimates import Estimate
from adamomentum_paper.effects import CHANGES, effects


def row_of(name, *values, **settings):
    shown = {**contenders.get(name).settings, **settings}
    known = [value for value in values if value is not None]
    return Row(name, shown, Estimate.of(known), list(values), values.count(None), 0)


WORKLOAD = find_workload("digits_cnn").load()("mini", "fair")


def test_changes_are_between_contenders_with_the_same_settings():
    for change in CHANGES:
        before, after = contenders.get(change.before), contenders.get(change.after)
        assert before.settings.keys() - {"rectify"} == after.settings.keys() - {"rectify"}
        assert before.settings["lr"] == after.settings["lr"]


def test_what_the_momentum_buys():
    rows = [
        row_of("eadam", 90.0, 91.0, 90.5, 90.2, 90.9),
        row_of("adamomentum", 92.1, 93.0, 92.4, 92.2, 93.1),
        row_of("sgdm", 1.0, 2.0, 3.0, 4.0, 5.0),
    ]
    (found,) = effects(rows, WORKLOAD, tuned=True)
    assert found.what == "squaring the momentum in v, not the gradient"
    assert (found.comparison.base, found.comparison.other) == ("eadam", "adamomentum")
    assert round(found.comparison.difference.mean, 2) == 2.04
    assert found.comparison.verdict == "better"
    assert found.comparison.comparisons == 1
    assert (found.differing, found.caveat) == ({}, "")
    said = of_comparison(found.comparison, "test accuracy")
    assert "adamomentum is better than eadam: its test accuracy is 2.04 higher" in said
    assert '"what"' in dumps(asdict(found))


def test_settings_that_differ_are_told():
    rows = [
        row_of("adam-translated", 90.0, 91.0, lr=0.01, betas=[0.9, 0.999]),
        row_of("adamomentum", 92.0, 91.0),
    ]
    (found,) = effects(rows, WORKLOAD, tuned=True)
    # Without weight decay, its form is no difference; a list of betas is the same as a tuple.
    assert found.differing == {"lr": [0.01, 0.001], "eps": [1e-8, 1e-16]}
    assert found.caveat == (
        "Each was tuned for itself: adam-translated and adamomentum also differ in lr and eps, and "
        "what that does is part of the difference."
    )
    rows = [row_of("adam", 90.0, 91.0, weight_decay=0.1, eps=1e-16)]
    rows.append(row_of("eadam", 90.0, 92.0, weight_decay=0.1))
    (found,) = effects(rows, WORKLOAD, tuned=False)
    assert found.caveat.startswith("Each had its own settings: adam and eadam also differ in the ")
    assert "in the form of weight decay, and" in found.caveat


def test_the_correction_is_for_the_effects_shown():
    names = {name for change in CHANGES for name in (change.before, change.after)}
    rows = [row_of(name, 1.0 * i, 2.0, 5.0) for i, name in enumerate(sorted(names))]
    assert {effect.comparison.comparisons for effect in effects(rows, WORKLOAD, tuned=True)} == {6}
    assert effects(rows[:1], WORKLOAD, tuned=True) == []


def test_adamomentum_that_is_rectified_has_nothing_to_gain_by_it():
    rows = [
        row_of("adamomentum", 1.0, 2.0, rectify=True),
        row_of("adamomentum-rectified", 1.0, 2.0),
        row_of("adamomentum-debiased", 1.0, 2.0),
    ]
    (found,) = effects(rows, WORKLOAD, tuned=False)
    assert found.comparison.other == "adamomentum-debiased"
    assert found.differing == {"rectify": [True, False]}
