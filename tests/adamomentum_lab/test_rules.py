"""Rules as data: those of the lab, of plugins, and of single workloads."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from adamomentum_lab import catalog, rules
from adamomentum_lab.errors import LabError
from adamomentum_lab.problems.digits_mlp import DigitsMLP
from adamomentum_lab.race.facts import workload_facts
from adamomentum_lab.rules import Rules
from adamomentum_lab.workload import Data
from adamomentum_lab.workload_checks import check

LAST = Rules(select="last", tune=False, flaws=("Nobody explains this.",))
MINE = {"fair": LAST}


def test_a_selection_that_there_is_not():
    with pytest.raises(LabError, match=r"^there is no selection 'lst' \(did you mean 'last'\?\)"):
        Rules(select="lst")


def test_flaws_in_sentences():
    assert rules.FAIR.flaws == ("luck of tuning",)  # decay is matched
    words = rules.explain((*rules.FAIR.flaws, "forms of decay", "rectified", "Nobody says this."))
    assert words[0].startswith("Settings were tuned once, on one seed.")
    assert words[1].startswith("Weight decay has the form each optimizer is known by")
    assert words[2].startswith("AdaMomentum and AdaBelief are rectified")
    assert words[3] == "Nobody says this."
    for protocol in rules.protocols().values():
        assert not set(rules.explain(protocol.flaws)) & set(protocol.flaws)


def test_a_workload_has_rules_of_its_own():
    class Mine(DigitsMLP):
        rules = MINE

    assert (DigitsMLP().selection, Mine().selection) == ("validation", "last")
    assert Mine.rules_of("fair") is LAST
    assert Mine("mini", "as-run").selection == "test"
    assert workload_facts(Mine(), "mine").flaws == ("Nobody explains this.",)
    with pytest.raises(LabError, match="there is no protocol 'unfair'"):
        Mine.rules_of("unfair")


def test_what_becomes_of_validation_that_chooses_nothing():
    class Mine(DigitsMLP):
        rules = MINE

        def data(self):
            return Data(*((torch.full((n, 1), float(n)),) for n in (3, 2, 1)))

    class Official(Mine):
        trains_on_validation = False

    merged, official = Mine().splits(), Official().splits()
    assert merged.train[0].flatten().tolist() == [3, 3, 3, 2, 2]
    assert official.train[0].flatten().tolist() == [3, 3, 3]
    assert merged.validation is official.validation is None
    Mine.rules = {}
    assert [len(part[0]) for part in vars(Mine().splits()).values()] == [3, 2, 1]


@pytest.mark.parametrize("given", [{"fair": "last"}, Rules(), ["fair"]], ids=str)
def test_rules_that_are_none(given):
    class Mine(DigitsMLP):
        rules = given

    words = r"^Mine\.rules in mine\.py .*as \{'fair': Rules\(select='last'\)\}\.$"
    with pytest.raises(LabError, match=words):
        check(Mine, Path("mine.py"))


AS_RUN = {
    "cifar10_vgg16": ("test", ["Adam has no weight decay; all other optimizers have."]),
    "cifar10_resnet34": ("test", ["Adam has no weight decay; all other optimizers have."]),
    "cifar10_densenet121": ("test", ["Adam has no weight decay; all other optimizers have."]),
    "imagenet_resnet18": ("last", []),
    **dict.fromkeys(
        ("ptb_lstm1", "ptb_lstm1_long", "ptb_lstm2", "ptb_lstm3"),
        (
            "test",
            [
                "The recurrent matrices stay at their initial values.",
                "SGDM has no momentum, and weight decay is 1.2e-6 instead of 1.2e-4.",
            ],
        ),
    ),
    "iwslt14_transformer": (
        "last",
        ["AdaMomentum and AdaBelief are rectified, which the paper does not say."],
    ),
    "multi30k_transformer": ("last", []),
    "cifar10_dcgan": ("test", []),
    "digits_dcgan": ("test", []),
    **dict.fromkeys(
        ("cifar10_sngan", "cifar10_biggan"),
        ("test", ["AdaMomentum and AdaBelief are rectified, which the paper does not say."]),
    ),
}


@pytest.mark.parametrize("name", catalog.workload_names())
def test_rules_of_every_workload(name):
    cls = catalog.find_workload(name).load()
    assert cls.rules_of("fair") == rules.FAIR
    # The paper reports a GAN's best FID; of other networks, the last epoch.
    select = "test" if name.endswith("gan") else "last"
    paper = cls.rules_of("paper")
    assert paper.select == select
    told = rules.get("paper")
    assert replace(paper, select="last", summary=told.summary, words=told.words) == told
    as_run = cls.rules_of("as-run")
    assert (as_run.select, rules.explain(as_run.flaws)) == AS_RUN.get(name, ("test", []))
    assert replace(as_run, select="test", flaws=()) == rules.get("as-run")
    official = name.startswith(("ptb", "iwslt14", "multi30k"))
    assert cls.trains_on_validation == (not official)
