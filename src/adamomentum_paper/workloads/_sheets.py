"""Write sheets of generated images as PNG."""

from __future__ import annotations

from pathlib import Path

import torch
from PIL import Image, ImageDraw
from torch import Tensor

from adamomentum_lab.files import translate_errors, writing

_GAP = 2  # pixels between images
_MARGIN = 72  # for the names of rows


def write(file: Path, images: Tensor, names: tuple[str, ...] = (), enlarged: int = 2) -> None:
    """Write images as one picture.

    Args:
        file: the PNG file.
        images: values from -1 to 1, (rows, columns, channels, height, width).
        names: names of the rows, printed on the left.
        enlarged: factor to enlarge images by.
    """
    tiles = as_bytes(images).repeat_interleave(enlarged, -1).repeat_interleave(enlarged, -2)
    tiles = tiles.expand(*tiles.shape[:2], 3, *tiles.shape[3:]).cpu()
    rows, columns, _, height, width = tiles.shape
    left = _MARGIN if names else 0
    sheet = torch.full((rows * (height + _GAP), left + columns * (width + _GAP), 3), 255).byte()
    for row in range(rows):
        for column in range(columns):
            top, start = row * (height + _GAP), left + column * (width + _GAP)
            tile = tiles[row, column].permute(1, 2, 0)
            sheet[top : top + height, start : start + width] = tile
    picture = Image.fromarray(sheet.numpy())
    for row, name in enumerate(names):
        place = (2, row * (height + _GAP) + height // 2 - 6)
        ImageDraw.Draw(picture).text(place, name, fill="black")
    with translate_errors(file, "cannot write the picture"), writing(file) as out:
        picture.save(out, format="PNG")


def as_bytes(images: Tensor) -> Tensor:
    """Convert values from -1 to 1 to bytes. NaN becomes black."""
    return ((images.float().nan_to_num(-1.0).clamp(-1, 1) + 1) * 127.5).round().byte()
