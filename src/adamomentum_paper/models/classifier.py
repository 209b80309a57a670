"""A small classifier whose last features describe an image, for fd-cnn."""

from __future__ import annotations

from torch import Tensor, nn


class FeatureClassifier(nn.Module):
    """Three convolutions with batch norm that halve the image twice, then a mean over pixels.

    Images are bytes, or floats from 0 to 255.
    """

    def __init__(self, channels: int, width: int, classes: int) -> None:
        super().__init__()
        self.number = 4 * width
        layers: list[nn.Module] = []
        before = channels
        for after, stride in ((width, 1), (2 * width, 2), (4 * width, 2)):
            convolution = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
            layers += [convolution, nn.BatchNorm2d(after), nn.ReLU()]
            before = after
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(before, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return the features (n, number)."""
        result: Tensor = self.layers(images.float() / 127.5 - 1)
        return result
