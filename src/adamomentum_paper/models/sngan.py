"""The generator of SNGAN (Miyato et al., 2018, table 4), conditional as in Miyato and Koyama."""

from __future__ import annotations

import functools

from torch import Tensor, nn
from torch.nn import functional

from adamomentum_paper.models.gan_blocks import ConditionalBatchNorm, UpBlock, orthogonal


def _norm(width: int, classes: int) -> nn.Module:
    gain, bias = nn.Embedding(classes, width), nn.Embedding(classes, width)
    for embedding in (gain, bias):
        nn.init.zeros_(embedding.weight)
    return ConditionalBatchNorm(width, gain, bias, running=True)


class SNGANGenerator(nn.Module):
    """Maps noise and a class to a 32x32 image, by three residual blocks that start at 4x4."""

    def __init__(self, latent: int = 128, width: int = 256, classes: int = 10) -> None:
        super().__init__()
        self.width = width
        self.first = orthogonal(nn.Linear(latent, 16 * width))
        norm = functools.partial(_norm, classes=classes)
        self.blocks = nn.ModuleList([UpBlock(width, width, norm, orthogonal) for _ in range(3)])
        self.norm = nn.BatchNorm2d(width)
        self.last = orthogonal(nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        """Return images with values from -1 to 1."""
        x = self.first(z).unflatten(1, (self.width, 4, 4))
        for block in self.blocks:
            x = block(x, labels)
        result: Tensor = self.last(functional.relu(self.norm(x))).tanh()
        return result
