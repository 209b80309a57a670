"""A narrow network that learns CIFAR-10 within minutes of one core.

After ideas of the public speed runs on CIFAR-10 (Page 2018; Jordan 2024, arXiv 2404.00498), by code
of our own: the first layer whitens patches and is not trained; blocks of two convolutions halve the
image at their beginning; what is left of it is reduced to its maxima.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

FLOOR = 5e-4  # added to variances, so that hardly varying patterns are not blown up


def whitening_filters(images: Tensor, size: int, patterns: int) -> Tensor:
    """Filters (2 patterns, 3, size, size) whose outputs on patches are uncorrelated, of variance 1.

    (But for FLOOR.) They are the leading eigenvectors of the covariance of patches, each over the
    root of its eigenvalue, and then all again with the other sign, since a ReLU follows. The
    largest weight of the first ones is positive: eigenvectors have no sign.
    """
    patches = functional.unfold(images.double(), size, stride=size).transpose(1, 2).flatten(0, 1)
    patches = patches - patches.mean(0)
    variances, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
    filters = (vectors / (variances + FLOOR).sqrt()).T.flip(0)[:patterns]
    largest = filters.gather(1, filters.abs().argmax(1, keepdim=True))
    filters = filters * largest.sign()
    return torch.cat([filters, -filters]).float().view(-1, images.shape[1], size, size)


class Block(nn.Module):
    """Two convolutions with batch norm; the first is followed by the maxima of 2x2 pixels."""

    def __init__(self, before: int, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, width, 3, padding=1, bias=False)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(width) for _ in range(2)])

    def forward(self, x: Tensor) -> Tensor:
        """Half as high and wide; the second convolution is added to its input."""
        x = functional.relu(self.norms[0](functional.max_pool2d(self.first(x), 2)))
        added: Tensor = x + functional.relu(self.norms[1](self.second(x)))
        return added


class QuickNet(nn.Module):
    """Logits of images.

    Args:
        filters: of the first layer, which is not trained.
        widths: channels of each block.
        classes: how many.
    """

    def __init__(self, filters: Tensor, widths: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.register_buffer("filters", filters)
        self.filters: Tensor
        self.blocks = nn.Sequential(*[Block(a, b) for a, b in pairwise((len(filters), *widths))])
        self.head = nn.Linear(widths[-1], classes, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        """For images (n, 3, height, width)."""
        x = functional.relu(functional.conv2d(images, self.filters))
        x = functional.adaptive_max_pool2d(self.blocks(x), 1).flatten(1)
        logits: Tensor = self.head(x)
        return logits
