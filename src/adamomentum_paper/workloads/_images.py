"""The base class of image classification."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from adamomentum_lab.rules import Scale
from adamomentum_lab.source import Split
from adamomentum_lab.workload import Classification, Data
from adamomentum_paper.data.augmentation import normalise


class Images(Classification):
    """Classification of images that are stored as bytes. Batches become floats on the device.

    Networks and images have the layout channels-last, which is a fifth faster on the CPU
    (benchmarks/vision.py).
    """

    mean: ClassVar[tuple[float, ...]]
    std: ClassVar[tuple[float, ...]]
    target_at_full: ClassVar[float]

    def __init__(self, scale: Scale = "mini", protocol: str = "fair") -> None:
        super().__init__(scale, protocol)
        if scale == "full":
            self.target = self.target_at_full
        else:
            self.batch = 64  # with few images, larger batches would give too few updates

    @abstractmethod
    def augmented(self, x: Tensor) -> Tensor:
        """Augment a training batch, and prepare it for the network."""

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Return the cross entropy of augmented images."""
        x, y = batch
        return super().loss(model, (self.augmented(x), y))

    def scores(self, model: nn.Module, batch: Any) -> dict[str, Tensor]:
        """Return cross entropy and accuracy, without augmentation."""
        x, y = batch
        return super().scores(model, (channels_last(self.normalised(x)), y))

    def normalised(self, x: Tensor) -> Tensor:
        """Convert bytes to floats with mean 0 and standard deviation 1."""
        return normalise(x, self.mean, self.std)


def hold_out(train: Split, test: Split, validation: int, used: int | None = None) -> Data:
    """Hold out a fixed random part of the training images for validation.

    Args:
        train: all training images.
        test: the test images.
        validation: number of images to hold out.
        used: use only this many of the training images, validation included.
    """
    order = torch.randperm(len(train[1]), generator=torch.Generator().manual_seed(0))[:used]
    parts = (order[validation:], order[:validation])
    training, held_out = (tuple(tensor[part] for tensor in train) for part in parts)
    return Data(training, held_out, test)


def channels_last(images: Tensor) -> Tensor:
    """Return images in the layout channels-last."""
    return images.contiguous(memory_format=torch.channels_last)


def channels_last_network(network: nn.Module) -> nn.Module:
    """Return the network with its weights in the layout channels-last."""
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]
