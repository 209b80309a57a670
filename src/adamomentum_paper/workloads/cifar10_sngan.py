"""SNGAN on CIFAR-10: the paper's second GAN."""

from __future__ import annotations

from torch import nn

from adamomentum_paper.models.gan_blocks import ProjectionDiscriminator
from adamomentum_paper.models.sngan import SNGANGenerator
from adamomentum_paper.workloads._cifar10_gan import CIFAR10GAN
from adamomentum_paper.workloads._gan_settings import RECTIFIED, settings_of

_WIDTHS = {"smoke": (8, 8), "mini": (32, 16), "full": (256, 128)}  # of G and D


class CIFAR10SNGAN(CIFAR10GAN):
    """Residual SNGAN with a projection discriminator on CIFAR-10: hinge loss, five updates of D per
    update of G, 100,000 steps; FID. At mini: 1/8 of the widths, 22,000 of 50,000 images, batch 32,
    800 steps; fd-cnn."""

    epochs = {"smoke": 2, "mini": 8, "full": 50}
    steps = {"smoke": 3, "mini": 100, "full": 2_000}
    d_updates = 5
    rules = RECTIFIED
    settings = settings_of(adam=1e-6, adabelief=1e-12, rectify=True)

    def generator(self) -> nn.Module:
        return SNGANGenerator(self.latent, _WIDTHS[self.scale][0], len(self.classes))

    def discriminator(self) -> nn.Module:
        return ProjectionDiscriminator(_WIDTHS[self.scale][1], len(self.classes))
