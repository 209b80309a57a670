"""Augmentation of whole batches, on their device.

Each augmentation is two functions. One draws random numbers for every image, with torch. The other
applies them, without randomness.
"""

from __future__ import annotations

import math
import random

import torch
from torch import Tensor
from torch.nn import functional


def normalise(images: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """Convert bytes to floats. Mean and standard deviation of the channels are for a scale of 1."""
    shift = torch.tensor(mean, device=images.device).view(-1, 1, 1) * 255
    scale = torch.tensor(std, device=images.device).view(-1, 1, 1) * 255
    return (images - shift) / scale


def draw_crops(n: int, padding: int, device: torch.device) -> Tensor:
    """Draw the top and left of each crop in the padded image."""
    return torch.randint(2 * padding + 1, (n, 2), device=device)


def crop_and_flip(images: Tensor, corners: Tensor, flipped: Tensor, padding: int) -> Tensor:
    """Pad images with zeros and crop them to their old size. Mirror the `flipped` ones."""
    n, _, height, width = images.shape
    padded = functional.pad(images, (padding,) * 4)
    rows = corners[:, :1] + torch.arange(height, device=images.device)
    columns = torch.arange(width, device=images.device).expand(n, width)
    columns = corners[:, 1:] + torch.where(flipped[:, None], width - 1 - columns, columns)
    index = torch.arange(n, device=images.device)[:, None, None]
    cut = padded[index, :, rows[:, :, None], columns[:, None, :]]
    return cut.permute(0, 3, 1, 2).contiguous()


def draw_coins(n: int, probability: float, device: torch.device) -> Tensor:
    """Draw for each image whether an augmentation applies."""
    return torch.rand(n, device=device) < probability


def draw_centres(n: int, height: int, width: int, device: torch.device) -> Tensor:
    """Draw a pixel of each image."""
    both = [torch.randint(size, (n,), device=device) for size in (height, width)]
    return torch.stack(both, 1)


def cutout(images: Tensor, centres: Tensor, which: Tensor, size: int) -> Tensor:
    """Zero a square around a pixel (DeVries and Taylor, 2017)."""
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
    """Return top, left, height and width of crops with a random area and aspect ratio.

    As Inception's crops, but for a whole batch at once: sides that are too long are clipped to the
    image, not drawn again (`redrawn_box`).

    Args:
        chances: four random numbers between 0 and 1 for each crop.
        height: height of the image.
        width: width of the image.
        area: smallest and largest area, as a fraction of the image.
        ratio: smallest and largest ratio of width to height.
    """
    part, shape, down, right = chances.unbind(1)
    part = (area[0] + (area[1] - area[0]) * part) * height * width
    shape = (math.log(ratio[0]) + math.log(ratio[1] / ratio[0]) * shape).exp()
    h = (part / shape).sqrt().round().clamp(1, height)
    w = (part * shape).sqrt().round().clamp(1, width)
    top, left = (down * (height - h + 1)).floor(), (right * (width - w + 1)).floor()
    return torch.stack([top, left, h, w], 1)


def redrawn_box(seed: int, height: int, width: int) -> tuple[int, int, int, int]:
    """Return top, left, height and width of Inception's crop of an image.

    Area and aspect ratio are drawn again, up to ten times, until the crop fits. Then it is the
    middle of the image, with the nearest ratio that is allowed.
    """
    chance = random.Random(seed)
    low, high = 3 / 4, 4 / 3
    for _ in range(10):
        area = chance.uniform(0.08, 1.0) * height * width
        ratio = math.exp(chance.uniform(math.log(low), math.log(high)))
        h, w = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
        if 0 < h <= height and 0 < w <= width:
            return chance.randint(0, height - h), chance.randint(0, width - w), h, w
    h, w = min(height, round(width / low)), min(width, round(height * high))
    return (height - h) // 2, (width - w) // 2, h, w


def draw_boxes(n: int, height: int, width: int, device: torch.device) -> Tensor:
    """Draw a crop of each image."""
    return boxes(torch.rand(n, 4, device=device), height, width)


def resized_crop(images: Tensor, boxes: Tensor, flipped: Tensor, size: int) -> Tensor:
    """Scale each box of a float image to size x size, bilinearly. Mirror the `flipped` ones."""
    height, width = images.shape[-2:]
    top, left, h, w = boxes.unbind(1)
    # In affine_grid the image goes from -1 to 1; a box scales and shifts that.
    mirror = torch.where(flipped, -1.0, 1.0)
    theta = torch.zeros(len(images), 2, 3, device=images.device)
    theta[:, 0, 0], theta[:, 0, 2] = mirror * w / width, (2 * left + w) / width - 1
    theta[:, 1, 1], theta[:, 1, 2] = h / height, (2 * top + h) / height - 1
    grid = functional.affine_grid(theta, [*images.shape[:2], size, size], align_corners=False)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)
