"""What workloads on images share."""

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
    """Photographs as bytes, which become floats batch by batch, on the device.

    Networks and images are in the layout channels-last, a fifth faster on the CPU as measured by
    benchmarks/vision.py.
    """

    mean: ClassVar[tuple[float, ...]]
    std: ClassVar[tuple[float, ...]]
    target_at_full: ClassVar[float]

    def __init__(self, scale: Scale = "mini", protocol: str = "fair") -> None:
        super().__init__(scale, protocol)
        if scale == "full":
            self.target = self.target_at_full
        else:
            self.batch = 64  # of so few images, larger batches would be too few updates

    @abstractmethod
    def augmented(self, x: Tensor) -> Tensor:
        """A training batch, ready for the network."""

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Cross entropy of augmented images."""
        x, y = batch
        return super().loss(model, (self.augmented(x), y))

    def scores(self, model: nn.Module, batch: Any) -> dict[str, Tensor]:
        """Cross entropy and accuracy, of the images as they are."""
        x, y = batch
        return super().scores(model, (channels_last(self.normalised(x)), y))

    def normalised(self, x: Tensor) -> Tensor:
        """Bytes to floats of mean 0 and standard deviation 1."""
        return normalise(x, self.mean, self.std)


def hold_out(train: Split, test: Split, validation: int, used: int | None = None) -> Data:
    """So many validation images, drawn from the training images once and for all; of these, where
    `used` says so, only a part."""
    order = torch.randperm(len(train[1]), generator=torch.Generator().manual_seed(0))[:used]
    parts = (order[validation:], order[:validation])
    training, held_out = (tuple(tensor[part] for tensor in train) for part in parts)
    return Data(training, held_out, test)


def channels_last(images: Tensor) -> Tensor:
    """Images with the channels of a pixel side by side."""
    return images.contiguous(memory_format=torch.channels_last)


def channels_last_network(network: nn.Module) -> nn.Module:
    """The network with its weights in the layout of the images."""
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]
