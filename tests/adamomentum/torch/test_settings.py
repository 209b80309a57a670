"""The paper's settings are those that the lab runs, and read well."""

import inspect

import pytest

from adamomentum import AdaMomentum
from adamomentum.torch import recommended
from adamomentum.torch.settings import SETTINGS
from adamomentum_lab.contract import parameter

DEFAULTS = {
    name: option.default
    for name, option in inspect.signature(AdaMomentum).parameters.items()
    if name != "params"
}
WORKLOADS = {
    "cifar10": ["cifar10_vgg16", "cifar10_resnet34", "cifar10_densenet121"],
    "imagenet": ["imagenet_resnet18"],
    "ptb": ["ptb_lstm1", "ptb_lstm2", "ptb_lstm3"],
    "iwslt14": ["iwslt14_transformer"],
    "dcgan": ["cifar10_dcgan"],
    "sngan": ["cifar10_sngan"],
    "biggan": ["cifar10_biggan"],
}


@pytest.mark.parametrize("task", SETTINGS)
def test_the_lab_runs_the_same(task):
    find_workload = pytest.importorskip("adamomentum_lab.catalog").find_workload
    setting = recommended(task)
    for name in WORKLOADS[task]:
        settings = find_workload(name).load().settings
        for protocol, options in (("paper", setting.options), ("as-run", setting.as_run)):
            assert DEFAULTS | options == DEFAULTS | settings[protocol]["adamomentum"]


@pytest.mark.parametrize("task", SETTINGS)
def test_they_can_be_used_and_printed(task):
    setting = recommended(task)
    AdaMomentum([parameter(2)], **setting.options)
    AdaMomentum([parameter(2)], **setting.as_run)
    assert f"lr={setting.options['lr']}" in str(setting)
    assert "Table" in setting.source or task == "imagenet"


def test_an_unknown_task_names_the_nearest():
    with pytest.raises(ValueError, match=r"^No settings for 'ImageNet1k': did you mean 'imagenet'"):
        recommended("ImageNet1k")
    with pytest.raises(ValueError, match=r"one of the paper's tasks\. Tasks: cifar10, "):
        recommended("protein folding")
