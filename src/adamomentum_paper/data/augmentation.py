"""Augmentation of whole batches, on the device they are on.

Each is two functions: what is drawn for every image, and what is done with it. The first is the
only randomness, and torch's; the second is tested against one image at a time.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional


def normalise(images: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """Bytes to floats, by the mean and standard deviation of each channel in parts of 255."""
    shift = torch.tensor(mean, device=images.device).view(-1, 1, 1) * 255
    scale = torch.tensor(std, device=images.device).view(-1, 1, 1) * 255
    return (images - shift) / scale


def draw_crops(n: int, padding: int, device: torch.device) -> Tensor:
    """Top and left of each crop in the padded image."""
    return torch.randint(2 * padding + 1, (n, 2), device=device)


def crop_and_flip(images: Tensor, corners: Tensor, flipped: Tensor, padding: int) -> Tensor:
    """Each image padded with black and cut to its size again, some of them mirrored."""
    n, _, height, width = images.shape
    padded = functional.pad(images, (padding,) * 4)
    rows = corners[:, :1] + torch.arange(height, device=images.device)
    columns = torch.arange(width, device=images.device).expand(n, width)
    columns = corners[:, 1:] + torch.where(flipped[:, None], width - 1 - columns, columns)
    index = torch.arange(n, device=images.device)[:, None, None]
    cut = padded[index, :, rows[:, :, None], columns[:, None, :]]
    return cut.permute(0, 3, 1, 2).contiguous()


def draw_coins(n: int, probability: float, device: torch.device) -> Tensor:
    """For each image whether it is concerned."""
    return torch.rand(n, device=device) < probability


def draw_centres(n: int, height: int, width: int, device: torch.device) -> Tensor:
    """A pixel of each image."""
    both = [torch.randint(size, (n,), device=device) for size in (height, width)]
    return torch.stack(both, 1)


def cutout(images: Tensor, centres: Tensor, which: Tensor, size: int) -> Tensor:
    """A square of zeros about a pixel, cut off at the border (DeVries and Taylor, 2017)."""
    height, width = images.shape[-2:]
    y = torch.arange(height, device=images.device) - centres[:, :1]
    x = torch.arange(width, device=images.device) - centres[:, 1:]
    half = size // 2
    inside_y, inside_x = (y >= -half) & (y < half), (x >= -half) & (x < half)
    hole = inside_y[:, :, None] & inside_x[:, None, :] & which[:, None, None]
    return images.masked_fill(hole[:, None], 0.0)


def boxes(
    chances: Tensor,
    height: int,
    width: int,
    area: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
) -> Tensor:
    """Top, left, height and width of crops: a random part of the area, of a random shape.

    As Inception's crops, but with sides that are clipped to the image instead of drawn again.

    Args:
        chances: four numbers between 0 and 1 for each crop, which decide.
        height: of the image.
        width: of the image.
        area: least and largest part of the image.
        ratio: least and largest width in parts of the height.
    """
    part, shape, down, right = chances.unbind(1)
    part = (area[0] + (area[1] - area[0]) * part) * height * width
    shape = (math.log(ratio[0]) + math.log(ratio[1] / ratio[0]) * shape).exp()
    h = (part / shape).sqrt().round().clamp(1, height)
    w = (part * shape).sqrt().round().clamp(1, width)
    top, left = (down * (height - h + 1)).floor(), (right * (width - w + 1)).floor()
    return torch.stack([top, left, h, w], 1)


def draw_boxes(n: int, height: int, width: int, device: torch.device) -> Tensor:
    """A crop of each image."""
    return boxes(torch.rand(n, 4, device=device), height, width)


def resized_crop(images: Tensor, boxes: Tensor, flipped: Tensor, size: int) -> Tensor:
    """Each box of a float image scaled to size x size, bilinearly, some of them mirrored."""
    height, width = images.shape[-2:]
    top, left, h, w = boxes.unbind(1)
    # affine_grid has the image from -1 to 1; a box is a scale and a shift of that.
    mirror = torch.where(flipped, -1.0, 1.0)
    theta = torch.zeros(len(images), 2, 3, device=images.device)
    theta[:, 0, 0], theta[:, 0, 2] = mirror * w / width, (2 * left + w) / width - 1
    theta[:, 1, 1], theta[:, 1, 2] = h / height, (2 * top + h) / height - 1
    grid = functional.affine_grid(theta, [*images.shape[:2], size, size], align_corners=False)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)
