"""The quick CIFAR-10 workload: whole data, one first layer for all seeds, its loss."""

import pytest
import torch
from torch import nn

from adamomentum_paper.workloads import cifar10_quick
from adamomentum_paper.workloads.cifar10_quick import CIFAR10Quick


@pytest.fixture
def workload(monkeypatch):
    generator = torch.Generator().manual_seed(0)

    def images(train):
        n = 400 if train else 100
        x = torch.randint(256, (n, 3, 8, 8), generator=generator, dtype=torch.uint8)
        return x.repeat_interleave(4, 2).repeat_interleave(4, 3), torch.arange(n) % 10

    splits = {train: images(train) for train in (True, False)}
    monkeypatch.setattr(cifar10_quick, "cifar10", lambda train: splits[train])
    return CIFAR10Quick("smoke")


def test_splits(workload):
    data = workload.data()
    assert [len(y) for _, y in vars(data).values()] == [256, 64, 64]
    for scale in ("mini", "full"):
        size = CIFAR10Quick(scale).size
        assert (size.train, size.validation, size.test) == (50_000, 5_000, 10_000)


def test_the_first_layer_is_the_same_for_every_seed(workload):
    networks = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        networks.append(workload.model())
    assert torch.equal(networks[0].filters, networks[1].filters)
    assert not torch.equal(networks[0].head.weight, networks[1].head.weight)


def test_training_images_are_the_images_moved_and_mirrored(workload):
    x = workload.data().train[0][:20]
    torch.manual_seed(0)
    found = workload.augmented(x)
    wide = nn.functional.pad(x, (2, 2, 2, 2))
    for image, original in zip(found, wide, strict=True):
        views = [
            workload.normalised(view[None, :, i : i + 32, j : j + 32])[0]
            for view in (original, original.flip(2))
            for i in range(5)
            for j in range(5)
        ]
        assert any(torch.equal(image, view) for view in views)
    assert found.is_contiguous(memory_format=torch.channels_last)


def test_labels_are_smoothed_in_training_alone(workload):
    x, y = (part[:8] for part in workload.data().test)
    logits = torch.randn(8, 10)

    def model(_):
        return logits

    likely = logits.log_softmax(1)
    expected = -(0.9 * likely[torch.arange(8), y] + 0.1 * likely.mean(1))
    torch.testing.assert_close(workload.loss(model, (x, y)), expected.mean())
    scores = workload.scores(model, (x, y))
    torch.testing.assert_close(scores["loss"], -likely[torch.arange(8), y])
