"""DCGAN (Radford et al., 2016): noise to images by transposed convolutions, and back."""

from __future__ import annotations

import itertools

from torch import Tensor, nn

from adamomentum_paper.models.gan_blocks import orthogonal


def _widths(width: int, halvings: int) -> list[int]:
    """From the image inwards: twice as many channels wherever it is halved."""
    return [width << i for i in range(halvings + 1)]


def _norm(width: int) -> nn.Module:
    """By the batch, in evaluation too."""
    return nn.BatchNorm2d(width, track_running_stats=False)


class DCGANGenerator(nn.Module):
    """From `start` x `start` pixels the image is doubled so many times, to `width` channels.

    The paper's: 512-256-128-64 channels on 4, 8, 16 and 32 pixels.
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
        """Images between -1 and 1; the classes do not matter."""
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
        """One number for each image, large where it looks real; the classes do not matter."""
        del labels
        result: Tensor = self.layers(x).squeeze(1)
        return result
