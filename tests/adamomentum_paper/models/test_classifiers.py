"""Networks of the paper: parameter counts, shapes, initialisation, one full-scale step."""

import math

import pytest
import torch
from torch import nn

from adamomentum import AdaMomentum
from adamomentum_paper.models.densenet import densenet
from adamomentum_paper.models.resnet import resnet
from adamomentum_paper.models.vgg import vgg
from adamomentum_paper.shapes import models

# Counts of the notes on the paper, section 3; growth 32 is torchvision's but for stem and head.
NETWORKS = {
    "ResNet-34": (lambda: resnet((3, 4, 6, 3), 10), 21_282_122, 32),
    "DenseNet-121": (lambda: densenet(), 1_000_618, 32),
    "VGG-16": (lambda: vgg(), 15_253_578, 32),
    "ImageNet ResNet-18": (lambda: resnet((2, 2, 2, 2), 1000, large_images=True), 11_689_512, 224),
    "DenseNet-121, growth 32": (lambda: densenet(growth=32), 6_956_298, 32),
}


@pytest.fixture(scope="module")
def shapes():
    return models()


@pytest.mark.parametrize("name", NETWORKS)
def test_parameter_counts(name, shapes):
    build, count, _ = NETWORKS[name]
    network = build()
    assert sum(param.numel() for param in network.parameters()) == count
    if name in shapes:  # what the benchmark measures is what is trained
        ours = sorted(tuple(param.shape) for param in network.parameters())
        assert ours == sorted(shapes[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_one_step_of_the_full_network(name):
    build, _, size = NETWORKS[name]
    torch.manual_seed(0)
    network = build()
    optimizer = AdaMomentum(network.parameters(), lr=1e-4)
    x, y = torch.randn(2, 3, size, size), torch.tensor([1, 2])
    before = [param.detach().clone() for param in network.parameters()]
    logits = network(x)
    assert logits.shape == (2, 1000 if size == 224 else 10)
    nn.functional.cross_entropy(logits, y).backward()
    optimizer.step()
    for param in network.parameters():
        assert param.grad is not None
        assert param.isfinite().all()
    moved = [not torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True)]
    assert sum(moved) > 0.95 * len(moved)


def test_images_shrink_as_they_should():
    x = torch.randn(2, 3, 32, 32)
    resolutions = []
    network = resnet((3, 4, 6, 3), 10, width=2)
    for layer in network:
        x = layer(x)
        if x.ndim == 4:
            resolutions.append(x.shape[-1])
    assert resolutions == [32] * 3 + [32] * 3 + [16] * 4 + [8] * 6 + [4] * 3 + [1]


def test_vgg_is_initialised_as_stated():
    torch.manual_seed(0)
    convolutions = [layer for layer in vgg() if isinstance(layer, nn.Conv2d)]
    assert len(convolutions) == 13
    for conv in convolutions:
        deviation = math.sqrt(2 / (9 * conv.out_channels))
        assert conv.weight.std().item() == pytest.approx(deviation, rel=0.1)
        assert not conv.bias.any()
