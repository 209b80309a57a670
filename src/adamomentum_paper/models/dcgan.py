"""DCGAN (Radford et al., 2016): generator and discriminator of strided convolutions."""

from __future__ import annotations

import itertools

from torch import Tensor, nn

from adamomentum_paper.models.gan_blocks import orthogonal


def _widths(width: int, halvings: int) -> list[int]:
    """Return the channels from the image inwards: twice as many after each halving."""
    return [width << i for i in range(halvings + 1)]


def _norm(width: int) -> nn.Module:
    """Return a batch norm that uses the statistics of the batch, in evaluation too."""
    return nn.BatchNorm2d(width, track_running_stats=False)


class DCGANGenerator(nn.Module):
    """Maps noise to images, from `start` x `start` pixels and then doubled `doublings` times.

    The last of the doubled layers has `width` channels. The paper's network has 512, 256, 128 and
    64 channels on 4, 8, 16 and 32 pixels.
    """

    def __init__(
        self,
        latent: int = 128,
        width: int = 64,
        channels: int = 3,
        start: int = 4,
        doublings: int = 3,
    ) -> None:
        super().__init__()
        widths = _widths(width, doublings)[::-1]
        layers: list[nn.Module] = [
            orthogonal(nn.Linear(latent, widths[0] * start**2)),
            nn.Unflatten(1, (widths[0], start, start)),
            _norm(widths[0]),
            nn.ReLU(),
        ]
        for before, after in itertools.pairwise(widths):
            larger = orthogonal(nn.ConvTranspose2d(before, after, 4, 2, 1))
            layers += [larger, _norm(after), nn.ReLU()]
        last = orthogonal(nn.Conv2d(widths[-1], channels, 3, padding=1))
        self.layers = nn.Sequential(*layers, last, nn.Tanh())

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        """Return images with values from -1 to 1. Labels are ignored."""
        del labels
        result: Tensor = self.layers(z)
        return result


class DCGANDiscriminator(nn.Module):
    """The generator's mirror image: strided convolutions with leaky ReLU and batch norm."""

    def __init__(self, width: int = 64, channels: int = 3, end: int = 4, halvings: int = 3) -> None:
        super().__init__()
        widths = _widths(width, halvings)
        first = orthogonal(nn.Conv2d(channels, width, 3, padding=1))
        layers: list[nn.Module] = [first, nn.LeakyReLU(0.2)]
        for before, after in itertools.pairwise(widths):
            smaller = orthogonal(nn.Conv2d(before, after, 4, 2, 1))
            layers += [smaller, _norm(after), nn.LeakyReLU(0.2)]
        last = orthogonal(nn.Linear(widths[-1] * end**2, 1))
        self.layers = nn.Sequential(*layers, nn.Flatten(), last)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """Return one number per image, large if it looks real. Labels are ignored."""
        del labels
        result: Tensor = self.layers(x).squeeze(1)
        return result
