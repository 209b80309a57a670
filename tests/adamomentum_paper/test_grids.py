"""The paper's workloads have its grids, and nobody else has."""

import pytest

from adamomentum_lab import catalog, contenders
from adamomentum_lab.race.search import space_of
from adamomentum_lab.workload import Workload
from adamomentum_paper.grids import space

GRIDS = {"cifar10": "cnn", "imagenet": "cnn", "ptb": "lstm", "iwslt14": "transformer"}
GRIDS |= {"multi30k": "transformer"}


@pytest.mark.parametrize("name", catalog.modules("adamomentum_paper.workloads"))
def test_every_workload_of_the_paper_names_its_grid(name):
    cls = catalog.find_workload(name).load()
    assert cls.grid == ("gan" if name.endswith("gan") else GRIDS[name.split("_")[0]])
    for contender in map(contenders.get, contenders.names()):
        assert space_of(contender, cls) == space(contender, cls.grid)


@pytest.mark.parametrize("name", catalog.modules(catalog.PROBLEMS))
def test_no_default_names_a_grid(name):
    assert Workload.grid is None
    assert Workload.spaces == {}
    assert catalog.find_workload(name).load().grid is None


def test_only_sgd_has_the_grid_of_sgd():
    for contender in map(contenders.get, contenders.names()):
        rates = space(contender, "lstm")["lr"]
        assert (max(rates) == 100) == (contender.name == "sgdm")


def test_without_a_grid_there_are_values_of_what_is_asked_for():
    adabound = contenders.get("adabound")
    assert space(adabound, None) == {}
    asked = ("lr", "eps", "final_lr")
    assert space(adabound, None, asked).keys() == {*asked}
    assert space(adabound, None, asked)["eps"] == space(adabound, "cnn")["eps"]
    assert space(contenders.get("sgdm"), None, ["eps"]) == {}
