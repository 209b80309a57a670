"""The generator of BigGAN (Brock et al., 2019) for 32x32 images."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from adamomentum_paper.models.gan_blocks import (
    ConditionalBatchNorm,
    PixelAttention,
    UpBlock,
    spectral,
)

BLOCKS = 3


class BigGANGenerator(nn.Module):
    """Maps noise and a class to a 32x32 image.

    The noise is cut into equal parts, one for the first layer and one for each block. The part of a
    block and the shared embedding of the class condition its batch norm, which always uses the
    statistics of the batch. Attention is on 16x16. Every layer except the embedding has spectral
    norm.
    """

    def __init__(
        self, latent: int = 80, width: int = 384, classes: int = 10, shared: int = 128
    ) -> None:
        super().__init__()
        self.width, part = width, latent // (BLOCKS + 1)
        self.embedding = nn.Embedding(classes, shared)
        nn.init.orthogonal_(self.embedding.weight)
        self.first = spectral(nn.Linear(part, 16 * width))

        def norm(width: int) -> nn.Module:
            gain, bias = (spectral(nn.Linear(shared + part, width, bias=False)) for _ in range(2))
            return ConditionalBatchNorm(width, gain, bias, running=False)

        self.blocks = nn.ModuleList([UpBlock(width, width, norm, spectral) for _ in range(BLOCKS)])
        self.attention = PixelAttention(width, spectral)
        self.norm = nn.BatchNorm2d(width, track_running_stats=False)
        self.last = spectral(nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        """Return images with values from -1 to 1."""
        first, *parts = z.chunk(BLOCKS + 1, 1)
        embedded = self.embedding(labels)
        x = self.first(first).unflatten(1, (self.width, 4, 4))
        for block, part in zip(self.blocks, parts, strict=True):
            x = block(x, torch.cat([embedded, part], 1))
            if x.shape[-1] == 16:
                x = self.attention(x)
        result: Tensor = self.last(functional.relu(self.norm(x))).tanh()
        return result
