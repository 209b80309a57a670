"""BigGAN with consistency regularisation on CIFAR-10: the paper's third GAN."""

from __future__ import annotations

from torch import nn

from adamomentum_lab.rules import Scale
from adamomentum_paper.models.biggan import BigGANGenerator
from adamomentum_paper.models.gan_blocks import ProjectionDiscriminator
from adamomentum_paper.workloads._cifar10_gan import CIFAR10GAN
from adamomentum_paper.workloads._gan_settings import RECTIFIED, settings_of

# Width 96 at full: four times that in G, twice in D (Brock et al., 2019, for 32x32).
_WIDTHS = {"smoke": (8, 8), "mini": (32, 32), "full": (384, 192)}


class CIFAR10BigGAN(CIFAR10GAN):
    """BigGAN with consistency regularisation on CIFAR-10: hinge loss, attention, spectral norm in
    both networks, five updates of D per update of G, 100,000 steps, averaged weights of G; FID. At
    mini: 1/12 and 1/6 of the widths, 22,000 of 50,000 images, batch 32, 300 steps; fd-cnn."""

    epochs = {"smoke": 2, "mini": 6, "full": 50}
    steps = {"smoke": 3, "mini": 50, "full": 2_000}
    d_updates = 5
    latent = 80
    consistency = 10.0
    rules = RECTIFIED
    settings = settings_of(adam=1e-16, adabelief=1e-16, rectify=True)

    def __init__(self, scale: Scale = "mini", protocol: str = "fair") -> None:
        super().__init__(scale, protocol)
        # The authors' values at full. In a few hundred steps that average would never begin.
        self.ema, self.ema_from = (0.9999, 1_000) if scale == "full" else (0.95, 50)

    def generator(self) -> nn.Module:
        return BigGANGenerator(self.latent, _WIDTHS[self.scale][0], len(self.classes))

    def discriminator(self) -> nn.Module:
        return ProjectionDiscriminator(_WIDTHS[self.scale][1], len(self.classes), attention=True)
