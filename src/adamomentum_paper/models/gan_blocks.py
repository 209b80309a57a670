"""Parts of the residual GANs: normalised layers, conditional batch norm, attention, blocks."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm

Layer = Callable[[nn.Module], nn.Module]
"""What is done to a convolution or linear layer as it is made: `orthogonal` or `spectral`."""
Norm = Callable[[int], nn.Module]
"""A conditional norm of so many channels."""


def orthogonal(module: nn.Module) -> nn.Module:
    """A layer with an orthogonal matrix and no bias (Brock et al., 2019)."""
    nn.init.orthogonal_(module.weight)  # type: ignore[arg-type]
    if isinstance(bias := getattr(module, "bias", None), Tensor):
        nn.init.zeros_(bias)
    return module


def spectral(module: nn.Module) -> nn.Module:
    """The same, divided by its largest singular value at every use (Miyato et al., 2018)."""
    normalised: nn.Module = spectral_norm(orthogonal(module))
    return normalised


class ConditionalBatchNorm(nn.Module):
    """Batch norm whose gain and bias depend on a condition.

    Args:
        width: channels.
        gain: from the condition to what is added to a gain of 1.
        bias: from the condition to the bias.
        running: evaluate with running statistics; else with those of the batch.
    """

    def __init__(self, width: int, gain: nn.Module, bias: nn.Module, running: bool) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(width, affine=False, track_running_stats=running)
        self.gain, self.bias = gain, bias

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """The batch, normalised."""
        gain, bias = self.gain(condition), self.bias(condition)
        result: Tensor = self.norm(x) * (1 + gain[:, :, None, None]) + bias[:, :, None, None]
        return result


class PixelAttention(nn.Module):
    """Self-attention over the pixels of an image (Zhang et al., 2019).

    Queries and keys have an eighth of the channels, values half; keys and values are max-pooled. It
    starts as the identity.
    """

    def __init__(self, width: int, layer: Layer) -> None:
        super().__init__()
        self.query = layer(nn.Conv2d(width, width // 8, 1, bias=False))
        self.key = layer(nn.Conv2d(width, width // 8, 1, bias=False))
        self.value = layer(nn.Conv2d(width, width // 2, 1, bias=False))
        self.out = layer(nn.Conv2d(width // 2, width, 1, bias=False))
        self.gain = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        """The image, and what it attends to."""
        query = self.query(x).flatten(2).mT
        key = functional.max_pool2d(self.key(x), 2).flatten(2).mT
        value = functional.max_pool2d(self.value(x), 2).flatten(2).mT
        seen = functional.scaled_dot_product_attention(query, key, value, scale=1.0)
        attended: Tensor = self.out(seen.mT.reshape(len(x), -1, *x.shape[2:]))
        return x + self.gain * attended


class UpBlock(nn.Module):
    """Norm, ReLU and convolution twice, the image doubled in between, and a shortcut."""

    def __init__(self, before: int, after: int, norm: Norm, layer: Layer) -> None:
        super().__init__()
        self.norms = nn.ModuleList([norm(before), norm(after)])
        self.first = layer(nn.Conv2d(before, after, 3, padding=1))
        self.second = layer(nn.Conv2d(after, after, 3, padding=1))
        self.shortcut = layer(nn.Conv2d(before, after, 1))

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """The sum of both ways."""
        # 1x1 convolutions and copies of pixels commute; this order is the cheaper.
        short = double(self.shortcut(x))
        x = self.first(double(functional.relu(self.norms[0](x, condition))))
        result: Tensor = short + self.second(functional.relu(self.norms[1](x, condition)))
        return result


class DownBlock(nn.Module):
    """Convolutions with ReLU, then where asked for a mean over 2x2, and a shortcut.

    The `first` block of a network sees the image itself, which no ReLU may cut.
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

    Every layer has spectral norm. For 32x32 images; attention, where asked for, on 16x16.
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
        """One number for each image, large where it looks real."""
        h = functional.relu(self.blocks(x)).sum((2, 3))
        result: Tensor = self.head(h).squeeze(1) + (self.embedding(labels) * h).sum(1)
        return result


def double(x: Tensor) -> Tensor:
    """Every pixel four times."""
    return functional.interpolate(x, scale_factor=2.0)
