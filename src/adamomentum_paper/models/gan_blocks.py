"""Parts of residual GANs: normalised layers, conditional batch norm, attention and blocks."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm

Layer = Callable[[nn.Module], nn.Module]
"""Wraps a new convolution or linear layer: `orthogonal` or `spectral`."""
Norm = Callable[[int], nn.Module]
"""Makes a conditional norm of this many channels."""


def orthogonal(module: nn.Module) -> nn.Module:
    """Initialise a layer with an orthogonal matrix and zero bias (Brock et al., 2019)."""
    nn.init.orthogonal_(module.weight)  # type: ignore[arg-type]
    if isinstance(bias := getattr(module, "bias", None), Tensor):
        nn.init.zeros_(bias)
    return module


def spectral(module: nn.Module) -> nn.Module:
    """Initialise a layer as `orthogonal` does, and give it spectral norm (Miyato et al., 2018)."""
    normalised: nn.Module = spectral_norm(orthogonal(module))
    return normalised


class ConditionalBatchNorm(nn.Module):
    """Batch norm whose gain and bias depend on a condition.

    Args:
        width: number of channels.
        gain: maps the condition to an offset from a gain of 1.
        bias: maps the condition to the bias.
        running: whether to evaluate with running statistics instead of those of the batch.
    """

    def __init__(self, width: int, gain: nn.Module, bias: nn.Module, running: bool) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(width, affine=False, track_running_stats=running)
        self.gain, self.bias = gain, bias

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """Return the normalised batch."""
        gain, bias = self.gain(condition), self.bias(condition)
        result: Tensor = self.norm(x) * (1 + gain[:, :, None, None]) + bias[:, :, None, None]
        return result


class PixelAttention(nn.Module):
    """Self-attention over the pixels of an image (Zhang et al., 2019).

    Queries and keys have an eighth of the channels, values have half. Keys and values are
    max-pooled. The layer is initialised as the identity.
    """

    def __init__(self, width: int, layer: Layer) -> None:
        super().__init__()
        self.query = layer(nn.Conv2d(width, width // 8, 1, bias=False))
        self.key = layer(nn.Conv2d(width, width // 8, 1, bias=False))
        self.value = layer(nn.Conv2d(width, width // 2, 1, bias=False))
        self.out = layer(nn.Conv2d(width // 2, width, 1, bias=False))
        self.gain = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        """Return the image plus its attention."""
        query = self.query(x).flatten(2).mT
        key = functional.max_pool2d(self.key(x), 2).flatten(2).mT
        value = functional.max_pool2d(self.value(x), 2).flatten(2).mT
        seen = functional.scaled_dot_product_attention(query, key, value, scale=1.0)
        attended: Tensor = self.out(seen.mT.reshape(len(x), -1, *x.shape[2:]))
        return x + self.gain * attended


class UpBlock(nn.Module):
    """Norm, ReLU and convolution, twice, with a shortcut. The image is doubled in between."""

    def __init__(self, before: int, after: int, norm: Norm, layer: Layer) -> None:
        super().__init__()
        self.norms = nn.ModuleList([norm(before), norm(after)])
        self.first = layer(nn.Conv2d(before, after, 3, padding=1))
        self.second = layer(nn.Conv2d(after, after, 3, padding=1))
        self.shortcut = layer(nn.Conv2d(before, after, 1))

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """The sum of both ways."""
        # 1x1 convolutions and copies of pixels commute; this order is cheaper.
        short = double(self.shortcut(x))
        x = self.first(double(functional.relu(self.norms[0](x, condition))))
        result: Tensor = short + self.second(functional.relu(self.norms[1](x, condition)))
        return result


class DownBlock(nn.Module):
    """Two convolutions with ReLU, an optional 2x2 mean, and a shortcut.

    The `first` block of a network gets the image itself, so it begins without ReLU.
    """

    def __init__(
        self, before: int, after: int, layer: Layer, halve: bool, first: bool = False
    ) -> None:
        super().__init__()
        self.halve, self.first_block = halve, first
        self.first = layer(nn.Conv2d(before, after, 3, padding=1))
        self.second = layer(nn.Conv2d(after, after, 3, padding=1))
        changed = halve or before != after
        self.shortcut = layer(nn.Conv2d(before, after, 1)) if changed else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """The sum of both ways."""
        short = self.shortcut(self._halve(x))
        x = self.first(x if self.first_block else functional.relu(x))
        result: Tensor = short + self._halve(self.second(functional.relu(x)))
        return result

    def _halve(self, x: Tensor) -> Tensor:
        return functional.avg_pool2d(x, 2) if self.halve else x


class ProjectionDiscriminator(nn.Module):
    """Residual blocks, a sum over pixels, and a product with the class (Miyato and Koyama, 2018).

    Every layer has spectral norm. Images are 32x32. The optional attention is on 16x16.
    """

    def __init__(self, width: int, classes: int, attention: bool = False) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            DownBlock(3, width, spectral, halve=True, first=True),
            PixelAttention(width, spectral) if attention else nn.Identity(),
            DownBlock(width, width, spectral, halve=True),
            DownBlock(width, width, spectral, halve=False),
            DownBlock(width, width, spectral, halve=False),
        )
        self.head = spectral(nn.Linear(width, 1))
        self.embedding = spectral(nn.Embedding(classes, width))

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """Return one number per image, large if it looks real."""
        h = functional.relu(self.blocks(x)).sum((2, 3))
        result: Tensor = self.head(h).squeeze(1) + (self.embedding(labels) * h).sum(1)
        return result


def double(x: Tensor) -> Tensor:
    """Double the image by copying pixels."""
    return functional.interpolate(x, scale_factor=2.0)
