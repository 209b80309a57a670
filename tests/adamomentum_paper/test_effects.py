"""What the paper's changes buy, from races that were made up."""

from dataclasses import asdict

from adamomentum_lab import contenders
from adamomentum_lab.files import dumps
from adamomentum_lab.report.verdicts import sentence
from adamomentum_paper.effects import CHANGES, effects
from tests.tools.made import race_of, trial


def raced(scores, trials=0, **settings):
    """A race with these test accuracies by seed, the settings of each being its defaults and these
    by name."""
    tried = {}
    for name in scores:
        own = settings.get(name.replace("-", "_"), {})
        tried[name] = ([trial(**{**contenders.get(name).settings, **own})], 0)
    return race_of(scores, "digits_cnn", trials=tried, spec={"trials": trials})


def test_changes_are_between_contenders_with_the_same_settings():
    for change in CHANGES:
        before, after = contenders.get(change.before), contenders.get(change.after)
        assert before.settings.keys() - {"rectify"} == after.settings.keys() - {"rectify"}
        assert before.settings["lr"] == after.settings["lr"]


def test_what_the_momentum_buys():
    scores = {
        "eadam": [90.0, 91.0, 90.5, 90.2, 90.9],
        "adamomentum": [92.1, 93.0, 92.4, 92.2, 93.1],
        "sgdm": [1.0, 2.0, 3.0, 4.0, 5.0],
    }
    (found,) = effects(raced(scores))
    assert found.what == "squaring the momentum in v, not the gradient"
    assert (found.verdict.a, found.verdict.b) == ("adamomentum", "eadam")
    assert round(found.verdict.difference, 2) == 2.04
    assert (found.verdict.kind, found.verdict.pairs) == ("better", 1)
    assert (found.differing, found.caveat) == ({}, "")
    said = sentence(found.verdict, "test accuracy")
    assert said.startswith("adamomentum scores better than eadam at their defaults, untuned: test")
    assert '"what"' in dumps(asdict(found))


def test_settings_that_differ_are_named():
    scores = {"adam-translated": [90.0, 91.0], "adamomentum": [92.0, 91.0]}
    (found,) = effects(raced(scores, trials=1, adam_translated={"lr": 0.01, "betas": [0.9, 0.999]}))
    # Without weight decay, its form is no difference; a list of betas is the same as a tuple.
    assert found.differing == {"lr": [0.01, 0.001], "eps": [1e-8, 1e-16]}
    assert found.caveat == (
        "Each was tuned separately: adam-translated and adamomentum also differ in eps and lr, "
        "which is part of the difference."
    )
    scores = {"adam": [90.0, 91.0], "eadam": [90.0, 92.0]}
    race = raced(scores, adam={"weight_decay": 0.1, "eps": 1e-16}, eadam={"weight_decay": 0.1})
    (found,) = effects(race)
    assert found.caveat.startswith("Each had its own settings: adam and eadam also differ in the ")
    assert "in the form of weight decay, which is part of" in found.caveat


def test_the_correction_is_for_the_effects_shown():
    names = {name for change in CHANGES for name in (change.before, change.after)}
    scores = {name: [1.0 * i, 2.0, 5.0] for i, name in enumerate(sorted(names))}
    assert {effect.verdict.pairs for effect in effects(raced(scores))} == {8}
    assert effects(raced({"adam": [1.0, 2.0, 5.0]})) == []


def test_adamomentum_that_is_rectified_has_nothing_to_gain_by_it():
    names = ("adamomentum", "adamomentum-rectified", "adamomentum-debiased")
    scores = {name: [1.0, 2.0] for name in names}
    (found,) = effects(raced(scores, adamomentum={"rectify": True}))
    assert found.verdict.a == "adamomentum-debiased"
    assert found.differing == {"rectify": [True, False]}
