"""Residual networks of basic blocks (He et al., 2016)."""

from __future__ import annotations

from torch import Tensor, nn


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with a shortcut, which is a 1x1 convolution if the shape changes."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nn.Conv2d(before, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, 1, 1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return the ReLU of the sum."""
        return nn.functional.relu(self.residual(x) + self.shortcut(x))


def resnet(
    blocks: tuple[int, ...], classes: int, width: int = 64, *, large_images: bool = False
) -> nn.Sequential:
    """Return a residual network: a stem, stages of basic blocks, a mean and a linear layer.

    Each stage is twice as wide as the one before and halves the image. The stem is a 3x3
    convolution for images of 32x32. For large images, as in ImageNet, it is a 7x7 convolution and a
    max-pool, which reduce the image by a factor of 4.

    Args:
        blocks: number of blocks in each stage.
        classes: number of classes.
        width: channels of the first stage.
        large_images: whether to use the stem for large images.
    """
    # Always made, since it draws the first random numbers.
    layers: list[nn.Module] = [nn.Conv2d(3, width, 3, 1, 1, bias=False)]
    if large_images:
        layers = [nn.Conv2d(3, width, 7, 2, 3, bias=False)]
    layers += [nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
    if large_images:
        layers.append(nn.MaxPool2d(3, 2, 1))
    before = width
    for stage, count in enumerate(blocks):
        for i in range(count):
            layers.append(BasicBlock(before, width << stage, 2 if stage and i == 0 else 1))
            before = width << stage
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))
    return nn.Sequential(*layers, *head)
