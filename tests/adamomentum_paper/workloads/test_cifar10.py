"""The paper's CIFAR-10 experiments: settings by protocol, the loss, a resumed run."""

from pathlib import Path

import pytest
import torch
from torch.nn import functional

from adamomentum_lab import contenders
from adamomentum_lab.catalog import find_workload
from adamomentum_lab.race.facts import missing_settings
from adamomentum_lab.race.plan import base_settings
from adamomentum_lab.training.feed import in_order
from adamomentum_lab.training.supervised import Supervised
from adamomentum_paper.losses import smoothed_cross_entropy
from adamomentum_paper.workloads import _cifar10
from tests.adamomentum_lab.loops import continues
from tests.adamomentum_paper.noise import noise_where_missing

NAMES = ["cifar10_vgg16", "cifar10_resnet34", "cifar10_densenet121"]


@pytest.fixture
def images(monkeypatch):
    """The real ones where there are, else noise of their shape."""
    noise_where_missing(monkeypatch, _cifar10)


def test_each_protocol_has_its_form_of_smoothing(images):
    cls = find_workload("cifar10_vgg16").load()
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 10).requires_grad_(False))
    losses = {}
    for protocol in ("fair", "paper", "as-run"):
        workload = cls("smoke", protocol)
        workload.augmented = workload.normalised
        batch = next(in_order(workload.source(workload.splits().test, training=False)))
        losses[protocol] = float(workload.loss(model, batch))
        logits = model(workload.normalised(batch[0]))
    usual = functional.cross_entropy(logits, batch[1], label_smoothing=0.1)
    assert losses["fair"] == losses["paper"] == float(usual)
    assert losses["as-run"] == float(smoothed_cross_entropy(logits, batch[1], 0.1))


def test_as_run_says_what_it_does():
    cls = find_workload("cifar10_resnet34").load()
    assert cls("mini", "paper").caveats == ()
    chosen, handicap = cls("mini", "as-run").caveats
    assert "chosen ON TEST" in chosen
    assert "adam alone runs without weight decay" in handicap


@pytest.mark.parametrize("name", NAMES)
def test_settings_of_the_protocols(name):
    cls = find_workload(name).load()
    paper = set(contenders.STANDARD)
    for protocol in ("paper", "as-run"):
        assert set(cls.settings[protocol]) == paper
        for optimizer in paper:
            settings = base_settings(optimizer, cls, protocol)
            contenders.get(optimizer).build([torch.nn.Parameter(torch.zeros(1))], **settings)
            if optimizer != "sgdm":
                assert (settings["lr"], settings["eps"]) == (1e-3, 1e-8)
            decays = 0.0 if (optimizer, protocol) == ("adam", "as-run") else 5e-4
            assert settings["weight_decay"] == decays
    assert base_settings("adamomentum", cls, "paper")["decoupled_weight_decay"] is False
    assert base_settings("radam", cls, "paper")["decoupled_weight_decay"] is True
    assert base_settings("adamomentum", cls, "fair") == contenders.get("adamomentum").settings
    assert cls.epochs["full"] == 200


@pytest.mark.parametrize("name", NAMES)
def test_a_run_with_augmentation_continues_bit_for_bit(name, images, tmp_path):
    workload = find_workload(name).load()("smoke")
    workload.batch = 32
    workload.epochs = {"smoke": 2}
    assert continues(workload, tmp_path, after=11)


def test_augmentation_is_for_training_alone(images):
    workload = find_workload("cifar10_vgg16").load()("smoke")
    loop = Supervised(workload, lambda net: torch.optim.SGD(net.parameters(), lr=0.0), 0)
    loop.model.eval()
    with torch.no_grad():
        one, two = (workload.evaluate(loop.model, loop.data.test) for _ in range(2))
        assert one == two
        batch = next(in_order(loop.source))
        losses = {float(workload.loss(loop.model, batch)) for _ in range(3)}
    assert len(losses) == 3


def test_splits_are_disjoint_and_fixed(images):
    data = find_workload("cifar10_resnet34").load()("smoke").data()
    again = find_workload("cifar10_vgg16").load()("smoke").data()
    assert torch.equal(data.train[0], again.train[0])
    rows = {tuple(image.flatten().tolist()) for image in data.train[0]}
    assert not any(tuple(image.flatten().tolist()) in rows for image in data.validation[0])
    assert len(find_workload("cifar10_vgg16").load()("smoke", "paper").splits().train[0]) == 320


def test_a_run_is_of_its_networks_version_too(monkeypatch, tmp_path):
    before = {name: find_workload(name).code for name in ("cifar10_vgg16", "cifar10_resnet34")}
    read = Path.read_bytes
    everywhere = ("_images.py", "_cifar10.py", "cifar10.py", "augmentation.py", "losses.py")
    for changed, others in (
        ("vgg.py", {"cifar10_vgg16"}),
        ("fetch.py", set()),
        *((name, set(before)) for name in everywhere),
    ):
        monkeypatch.setattr(
            Path, "read_bytes", lambda path, n=changed: read(path) + b"#" * (path.name == n)
        )
        assert {name for name in before if find_workload(name).code != before[name]} == others


def test_optimizers_without_stated_settings_are_named():
    cifar, imagenet = (
        find_workload(name).load() for name in ("cifar10_vgg16", "imagenet_resnet18")
    )
    assert missing_settings(map(contenders.get, ["adam", "sgdm"]), cifar, "paper") == ()
    assert missing_settings(map(contenders.get, ["adam", "eadam"]), cifar, "fair") == ()
    (words,) = missing_settings(
        map(contenders.get, ["adam", "adamw", "eadam", "nadam"]), imagenet, "paper"
    )
    assert words == "no settings are known of adamw, nadam under paper: their defaults"
