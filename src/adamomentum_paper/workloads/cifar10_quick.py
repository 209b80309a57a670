"""A fast-training narrow network on the whole of CIFAR-10."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor, nn

from adamomentum_lab.rules import Scale
from adamomentum_lab.schedules import Cosine
from adamomentum_lab.workload import Data
from adamomentum_paper.data import augmentation as augment
from adamomentum_paper.data.cifar10 import MEAN, STD, cifar10
from adamomentum_paper.models.quick import QuickNet, whitening_filters
from adamomentum_paper.workloads._images import (
    Images,
    channels_last,
    channels_last_network,
    hold_out,
)

WHITENED = 2_000  # training images whose patches decide about the first layer
PADDING = 2  # crops are moved by as much


class _Size(NamedTuple):
    train: int  # images, validation included
    validation: int
    test: int
    widths: tuple[int, ...]


_SMOKE = _Size(320, 64, 64, (8, 8, 8))
_WHOLE = _Size(50_000, 5_000, 10_000, (16, 64, 96))


class CIFAR10Quick(Images):
    """A narrow network that learns the whole of CIFAR-10 within minutes of one core: a first layer
    that whitens patches, three blocks, a short run with one cycle of lr. Not the paper's."""

    epochs = {"smoke": 1, "mini": 12, "full": 48}
    mean, std = MEAN, STD
    # What 4,000 features by k-means and a linear classifier reach (Coates, Ng and Lee 2011).
    target = target_at_full = 79.6
    schedule = Cosine(warmup=0.2)
    decay = 2.5e-4

    def __init__(self, scale: Scale = "mini", protocol: str = "fair") -> None:
        super().__init__(scale, protocol)
        self.batch = 64 if scale == "smoke" else 128
        self.size = _SMOKE if scale == "smoke" else _WHOLE

    def data(self) -> Data:
        """Bytes; they become floats batch by batch, on the device."""
        x, y = cifar10(train=False)
        test = (x[: self.size.test], y[: self.size.test])
        return hold_out(cifar10(train=True), test, self.size.validation, self.size.train)

    def model(self) -> nn.Module:
        """Its first layer is that of the training images, the same for every seed."""
        images = self.normalised(self.data().train[0][:WHITENED])
        filters = whitening_filters(images, size=2, patterns=12)
        return channels_last_network(QuickNet(filters, self.size.widths, 10))

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Cross entropy with smoothed labels, of augmented images."""
        x, y = batch
        logits = model(self.augmented(x))
        return nn.functional.cross_entropy(logits, y, label_smoothing=0.1)

    def augmented(self, x: Tensor) -> Tensor:
        """A training batch: cropped, mirrored, normalised."""
        n, device = len(x), x.device
        crops = augment.draw_crops(n, PADDING, device)
        x = augment.crop_and_flip(x, crops, augment.draw_coins(n, 0.5, device), PADDING)
        return channels_last(self.normalised(x))
