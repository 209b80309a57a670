"""CIFAR-10 for tests of workloads: the images themselves, or noise of their shape."""

import functools

import torch

from adamomentum_paper.data.cifar10 import cifar10
from adamomentum_paper.data.files import root


@functools.cache
def _images(train):
    """The data set, read and checked once: that takes as long as a short run."""
    return cifar10(train)


def _noise(train):
    generator = torch.Generator().manual_seed(int(train))
    n = 400 if train else 100
    x = torch.randint(256, (n, 3, 32, 32), dtype=torch.uint8, generator=generator)
    return x, torch.randint(10, (n,), generator=generator)


def noise_where_missing(monkeypatch, module):
    """Let a module read CIFAR-10 once for all tests, or noise if it is not in the data folder."""
    there = (root() / "cifar-10-batches-bin").is_dir()
    monkeypatch.setattr(module, "cifar10", _images if there else _noise)
