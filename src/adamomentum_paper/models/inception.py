"""Inception v3 as FID uses it (Heusel et al., 2017): images to 2,048 features.

The names of parameters are those of torchvision, so that the weights that pytorch-fid and
torch-fidelity publish load. FID's network differs from torchvision's: average pools do not count
the padding, and the last block has a maximum pool.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

SIZE = 299
Kernel = int | tuple[int, int]
Layer = tuple[str, int, Kernel, int, Kernel]
"""Name, channels, kernel, stride and padding of a convolution."""


class _Conv(nn.Module):
    def __init__(self, before: int, after: int, kernel: Kernel, stride: int, pad: Kernel) -> None:
        super().__init__()
        self.conv = nn.Conv2d(before, after, kernel, stride, pad, bias=False)
        self.bn = nn.BatchNorm2d(after, eps=1e-3)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.bn(self.conv(x)))


def _layer(name: str, channels: int, kernel: Kernel = 1, stride: int = 1) -> Layer:
    """A convolution that keeps the size, unless it has a stride."""
    if stride > 1:
        return name, channels, kernel, stride, 0
    pad = kernel // 2 if isinstance(kernel, int) else (kernel[0] // 2, kernel[1] // 2)
    return name, channels, kernel, stride, pad


class _Block(nn.Module):
    """Branches side by side, and a pool.

    Args:
        before: channels of the input.
        chains: convolutions of each branch. If the last two names of a chain end with a and b,
            both follow the one before them.
        pool: channels after an average pool; 0 is a maximum pool with stride 2.
        largest: whether the pool with a convolution takes the maximum.
    """

    def __init__(
        self, before: int, chains: list[list[Layer]], pool: int, largest: bool = False
    ) -> None:
        super().__init__()
        self.chains = [[name for name, *_ in chain] for chain in chains]
        self.largest = largest
        self.after = pool or before
        for chain in chains:
            size = before
            for name, channels, kernel, stride, pad in chain:
                self.add_module(name, _Conv(size, channels, kernel, stride, pad))
                size = size if name.endswith("a") else channels
            self.after += size * (2 if name.endswith("b") else 1)
        if pool:
            self.branch_pool = _Conv(before, pool, 1, 1, 0)

    def forward(self, x: Tensor) -> Tensor:
        outputs = []
        for chain in self.chains:
            y = x
            for name in chain:
                if name.endswith("a"):
                    outputs.append(self.get_submodule(name)(y))
                else:
                    y = self.get_submodule(name)(y)
            outputs.append(y)
        if not hasattr(self, "branch_pool"):
            outputs.append(functional.max_pool2d(x, 3, 2))
        elif self.largest:
            outputs.append(self.branch_pool(functional.max_pool2d(x, 3, 1, 1)))
        else:
            pooled = functional.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
            outputs.append(self.branch_pool(pooled))
        return torch.cat(outputs, 1)


def _a(before: int, pool: int) -> _Block:
    double = [_layer("branch3x3dbl_1", 64), *(_layer(f"branch3x3dbl_{i}", 96, 3) for i in (2, 3))]
    five = [_layer("branch5x5_1", 48), _layer("branch5x5_2", 64, 5)]
    return _Block(before, [[_layer("branch1x1", 64)], five, double], pool)


def _b(before: int) -> _Block:
    double = [
        _layer("branch3x3dbl_1", 64), _layer("branch3x3dbl_2", 96, 3),
        _layer("branch3x3dbl_3", 96, 3, 2),
    ]  # fmt: skip
    return _Block(before, [[_layer("branch3x3", 384, 3, 2)], double], 0)


def _c(before: int, inner: int) -> _Block:
    flat, high = (1, 7), (7, 1)
    seven = [
        _layer("branch7x7_1", inner), _layer("branch7x7_2", inner, flat),
        _layer("branch7x7_3", 192, high),
    ]  # fmt: skip
    double = [
        _layer("branch7x7dbl_1", inner), _layer("branch7x7dbl_2", inner, high),
        _layer("branch7x7dbl_3", inner, flat), _layer("branch7x7dbl_4", inner, high),
        _layer("branch7x7dbl_5", 192, flat),
    ]  # fmt: skip
    return _Block(before, [[_layer("branch1x1", 192)], seven, double], 192)


def _d(before: int) -> _Block:
    three = [_layer("branch3x3_1", 192), _layer("branch3x3_2", 320, 3, 2)]
    seven = [
        _layer("branch7x7x3_1", 192), _layer("branch7x7x3_2", 192, (1, 7)),
        _layer("branch7x7x3_3", 192, (7, 1)), _layer("branch7x7x3_4", 192, 3, 2),
    ]  # fmt: skip
    return _Block(before, [three, seven], 0)


def _e(before: int, largest: bool) -> _Block:
    def forked(name: str) -> list[Layer]:
        return [_layer(f"{name}a", 384, (1, 3)), _layer(f"{name}b", 384, (3, 1))]

    three = [_layer("branch3x3_1", 384), *forked("branch3x3_2")]
    double = [
        _layer("branch3x3dbl_1", 448), _layer("branch3x3dbl_2", 384, 3), *forked("branch3x3dbl_3")
    ]  # fmt: skip
    return _Block(before, [[_layer("branch1x1", 320)], three, double], 192, largest)


class InceptionV3(nn.Module):
    """Maps images as bytes (n, 3, height, width) to 2,048 features each."""

    def __init__(self) -> None:
        super().__init__()
        self.Conv2d_1a_3x3 = _Conv(3, 32, 3, 2, 0)
        self.Conv2d_2a_3x3 = _Conv(32, 32, 3, 1, 0)
        self.Conv2d_2b_3x3 = _Conv(32, 64, 3, 1, 1)
        self.Conv2d_3b_1x1 = _Conv(64, 80, 1, 1, 0)
        self.Conv2d_4a_3x3 = _Conv(80, 192, 3, 1, 0)
        self.Mixed_5b = _a(192, 32)
        self.Mixed_5c = _a(256, 64)
        self.Mixed_5d = _a(288, 64)
        self.Mixed_6a = _b(288)
        self.Mixed_6b = _c(768, 128)
        self.Mixed_6c = _c(768, 160)
        self.Mixed_6d = _c(768, 160)
        self.Mixed_6e = _c(768, 192)
        self.Mixed_7a = _d(768)
        self.Mixed_7b = _e(1280, largest=False)
        self.Mixed_7c = _e(2048, largest=True)
        self.fc = nn.Linear(2048, 1008)  # not used; the published weights have it

    def forward(self, images: Tensor) -> Tensor:
        """Scale images of bytes to 299x299, and return their features."""
        x = (resize(images.float()) - 128) / 128
        x = self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x)))
        x = self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(functional.max_pool2d(x, 3, 2)))
        x = functional.max_pool2d(x, 3, 2)
        for name, block in self.named_children():
            if name.startswith("Mixed"):
                x = block(x)
        return x.mean((2, 3))


def resize(images: Tensor, size: int = SIZE) -> Tensor:
    """Scale bilinearly as TensorFlow 1 did, whose pixels have no centres. FID is defined so."""
    for dimension in (2, 3):
        length = images.shape[dimension]
        place = torch.arange(size, device=images.device) * (length / size)
        low = place.floor()
        part = (place - low).to(images.dtype)
        part = part[:, None] if dimension == 2 else part
        first = low.long().clamp(max=length - 1)
        second = (first + 1).clamp(max=length - 1)
        a, b = images.index_select(dimension, first), images.index_select(dimension, second)
        images = a + (b - a) * part
    return images
