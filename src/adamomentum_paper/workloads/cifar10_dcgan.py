"""DCGAN on CIFAR-10: the paper's first GAN."""

from __future__ import annotations

from torch import nn

from adamomentum_paper.models.dcgan import DCGANDiscriminator, DCGANGenerator
from adamomentum_paper.workloads._cifar10_gan import CIFAR10GAN
from adamomentum_paper.workloads._gan_settings import settings_of

_WIDTHS = {"smoke": 4, "mini": 16, "full": 64}


class CIFAR10DCGAN(CIFAR10GAN):
    """DCGAN on CIFAR-10: vanilla loss, two updates of D per update of G, 200,000 steps; FID. At
    mini: 1/4 of the widths, 22,000 of 50,000 images, 1,500 steps; fd-cnn."""

    epochs = {"smoke": 2, "mini": 10, "full": 100}
    steps = {"smoke": 3, "mini": 150, "full": 2_000}
    d_updates = 2
    batch_at_mini = 64
    game = "vanilla"
    apart = True
    conditional = False
    settings = settings_of(adam=1e-16, adabelief=1e-16, eps=1e-8)

    def generator(self) -> nn.Module:
        return DCGANGenerator(self.latent, _WIDTHS[self.scale])

    def discriminator(self) -> nn.Module:
        return DCGANDiscriminator(_WIDTHS[self.scale])
