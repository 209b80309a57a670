"""Mirroring of whole batches, and translation that fills gaps with reflected pixels."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def draw_shifts(n: int, largest: int, device: torch.device) -> Tensor:
    """Draw the shift of each image, down and right, in pixels."""
    return torch.randint(-largest, largest + 1, (n, 2), device=device)


def translate(images: Tensor, shifts: Tensor, largest: int) -> Tensor:
    """Move each image down and right. Gaps are filled by reflection at the border."""
    height, width = images.shape[-2:]
    padded = functional.pad(images, (largest,) * 4, mode="reflect")
    start = largest - shifts
    rows = start[:, :1] + torch.arange(height, device=images.device)
    columns = start[:, 1:] + torch.arange(width, device=images.device)
    index = torch.arange(len(images), device=images.device)[:, None, None]
    moved = padded[index, :, rows[:, :, None], columns[:, None, :]]
    return moved.permute(0, 3, 1, 2).contiguous()


def mirror(images: Tensor, which: Tensor) -> Tensor:
    """Mirror the images selected by `which`."""
    return torch.where(which[:, None, None, None], images.flip(-1), images)
