"""The base class of the paper's three GANs on CIFAR-10."""

from __future__ import annotations

from typing import ClassVar

from adamomentum_lab.adversarial import Networks
from adamomentum_lab.rules import Scale
from adamomentum_lab.workload import Data
from adamomentum_paper.data.cifar10 import cifar10
from adamomentum_paper.workloads._gan import GAN
from adamomentum_paper.workloads._images import channels_last_network, hold_out

# Images at each scale: training including validation, validation, test.
_IMAGES = {"smoke": (320, 64, 64), "mini": (22_000, 2_000, 2_000), "full": (50_000, 5_000, 10_000)}


class CIFAR10GAN(GAN):
    """CIFAR-10 as the authors trained GANs on it: random mirror images, batch 64, constant lr."""

    classes = (
        "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
    )  # fmt: skip
    classifier = {"smoke": (8, 1), "mini": (16, 4), "full": (16, 4)}
    batch_at_mini: ClassVar[int] = 32

    def __init__(self, scale: Scale = "mini", protocol: str = "fair") -> None:
        super().__init__(scale, protocol)
        if scale != "full":
            self.batch = self.batch_at_mini

    def model(self) -> Networks:
        """Return the networks in the layout channels-last, which is a fifth faster on the CPU."""
        networks = super().model()
        for network in networks.children():
            channels_last_network(network)
        return networks

    def data(self) -> Data:
        """Return images as bytes. Validation is a fixed random part of the training images."""
        train, validation, test = _IMAGES[self.scale]
        x, y = cifar10(train=False)
        return hold_out(cifar10(train=True), (x[:test], y[:test]), validation, train)
