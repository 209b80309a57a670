"""The paper's workloads have its grids, and nobody else has."""

import pytest

from adamomentum_lab import catalog, contenders
from adamomentum_lab.race.plan import Race, make_plan
from adamomentum_lab.race.search import space_of
from adamomentum_lab.schedules import Moment
from adamomentum_lab.workload import Workload
from adamomentum_paper.grids import space

GRIDS = {"cifar10": "cnn", "imagenet": "imagenet", "ptb": "lstm", "iwslt14": "transformer"}
GRIDS |= {"multi30k": "transformer"}


BEYOND = (
    "cifar10_quick",
    "shakespeare_gpt",
    "shakespeare_gpt_short",
)  # not the paper's: searched over lr


@pytest.mark.parametrize(
    "name", sorted(catalog.modules("adamomentum_paper.workloads").keys() - BEYOND)
)
def test_every_workload_of_the_paper_names_its_grid(name):
    cls = catalog.find_workload(name).load()
    assert cls.grid == ("gan" if name.endswith("gan") else GRIDS[name.split("_")[0]])
    for contender in map(contenders.get, contenders.names()):
        mine = contender.with_schedule(cls.schedule_settings)
        assert space_of(mine, cls) == space(mine, cls.grid)


@pytest.mark.parametrize("name", catalog.modules(catalog.PROBLEMS))
def test_no_default_names_a_grid(name):
    assert Workload.grid is None
    assert Workload.spaces == {}
    assert catalog.find_workload(name).load().grid is None


def test_only_sgd_has_the_grid_of_sgd():
    for contender in map(contenders.get, contenders.names()):
        rates = space(contender, "lstm")["lr"]
        assert (max(rates) == 100) == (contender.name == "sgdm")


def test_without_a_grid_there_are_values_of_the_settings_to_tune():
    adabound = contenders.get("adabound")
    assert space(adabound, None) == {}
    asked = ("lr", "eps", "final_lr")
    assert space(adabound, None, asked).keys() == {*asked}
    assert space(adabound, None, asked)["eps"] == space(adabound, "cnn")["eps"]
    assert space(contenders.get("sgdm"), None, ["eps"]) == {}


@pytest.mark.parametrize(("name", "last"), [("sgdm", 1e-5), ("adam", 1e-7), ("adabound", 1e-7)])
def test_the_lr_at_the_end_is_searched_on_imagenet(name, last):
    """The paper's appendix; on CIFAR-10 the schedule has no such setting."""
    for workload, searched in (("imagenet_resnet18", True), ("cifar10_vgg16", False)):
        cls = catalog.find_workload(workload).load()
        contender = contenders.get(name).with_schedule(cls.schedule_settings)
        found = space_of(contender, cls)
        assert ("end_lr" in found) == searched
        if searched:
            assert len(found["end_lr"]) == 5
            assert min(found["end_lr"]) == last
            assert {*space_of(contender, cls, ["lr", "end_lr"])} >= {"lr", "end_lr"}
    race = Race("imagenet_resnet18", "c", (name,), 20, 1, "smoke", "fair", "random")
    cls = catalog.find_workload("imagenet_resnet18").load()
    tried = [settings["end_lr"] for settings in make_plan(race, cls).trials[name]]
    assert len({*tried}) > 5
    schedule = cls("smoke").schedule_with(name, {"lr": 1e-2, "end_lr": last})
    assert schedule.lr(1e-2, Moment(1, 100, 100)) == pytest.approx(last)
    assert schedule.lr(1e-2, Moment(0, 0, 100)) == 1e-2
    assert schedule.lr(last / 10, Moment(1, 50, 100)) == pytest.approx(last / 10)
