"""DCGAN on scikit-learn's digits."""

from __future__ import annotations

import torch
from torch import nn

from adamomentum_lab.digits import digits
from adamomentum_lab.workload import Data
from adamomentum_paper.models.dcgan import DCGANDiscriminator, DCGANGenerator
from adamomentum_paper.workloads._gan import GAN
from adamomentum_paper.workloads._gan_settings import settings_of


class DigitsDCGAN(GAN):
    """A small DCGAN for digits of 8x8 pixels, with the settings of `cifar10_dcgan`. No download;
    fd-cnn at every scale."""

    epochs = {"smoke": 2, "mini": 10, "full": 50}
    steps = {"smoke": 10, "mini": 60, "full": 200}
    game = "vanilla"
    apart = True
    conditional = False
    mirrored = False  # a mirrored 2 is not a digit
    d_updates = 2
    latent = 32
    classes = tuple("0123456789")
    classifier = {"smoke": (8, 4), "mini": (16, 30), "full": (16, 30)}
    fid_at_full = False
    settings = settings_of(adam=1e-16, adabelief=1e-16, eps=1e-8)

    def data(self) -> Data:
        splits = digits()
        least, most = (getattr(torch.cat([x for x, _ in splits]), of)() for of in ("min", "max"))
        return Data(*(((255 * (x - least) / (most - least)).round().byte(), y) for x, y in splits))

    def generator(self) -> nn.Module:
        return DCGANGenerator(self.latent, 16, channels=1, start=2, doublings=2)

    def discriminator(self) -> nn.Module:
        return DCGANDiscriminator(16, channels=1, end=2, halvings=2)
