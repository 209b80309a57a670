"""Trees of image files with a folder for each class, as in ImageNet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from adamomentum_lab.errors import LabError
from adamomentum_lab.source import permutation
from adamomentum_paper.data.augmentation import boxes
from adamomentum_paper.data.files import translate_errors
from adamomentum_paper.data.sets import IMAGE_SUFFIXES

RESIZE = 256 / 224  # at evaluation: shorter side to size * RESIZE, then the middle


def image_tree(folder: Path, source: str) -> tuple[list[Path], Tensor]:
    """Return the images below a folder and their labels. Classes are numbered by name."""
    with translate_errors(source):
        classes = {path: [*path.rglob("*")] for path in sorted(folder.iterdir()) if path.is_dir()}
    files: list[Path] = []
    labels: list[int] = []
    for label, (path, inside) in enumerate(classes.items()):
        found = sorted(file for file in inside if file.suffix.lower() in IMAGE_SUFFIXES)
        if not found:
            raise LabError(f"{path} has no images ({', '.join(IMAGE_SUFFIXES)}): {source}")
        files += found
        labels += [label] * len(found)
    if not files:
        raise LabError(f"{folder} has no folders of classes: {source}")
    return files, torch.tensor(labels)


def decode(file: Path) -> Image.Image:
    """Decode an image file as RGB. ImageNet has grey and CMYK images, and PNG with wrong names."""
    try:
        with Image.open(file) as image:
            return image.convert("RGB")
    except (OSError, UnidentifiedImageError, SyntaxError) as error:
        raise LabError(f"{file} cannot be decoded ({error}).") from error


def as_bytes(image: Image.Image) -> Tensor:
    """Return an image as bytes (3, height, width)."""
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def decode_all(files: Sequence[Path]) -> Tensor:
    """Decode images, which must have the same size."""
    first = as_bytes(decode(files[0]))
    images = torch.empty(len(files), *first.shape, dtype=torch.uint8)
    for i, file in enumerate(files):
        image = as_bytes(decode(file))
        if image.shape != first.shape:
            raise LabError(
                f"{file} is {image.shape[2]}x{image.shape[1]}, but {files[0]} is "
                f"{first.shape[2]}x{first.shape[1]}; all images must have the same size."
            )
        images[i] = image
    return images


def random_crop(image: Image.Image, chance: Tensor, size: int) -> Image.Image:
    """Return a crop with a random area and aspect ratio, scaled to size x size.

    Args:
        image: an image of any size.
        chance: four random numbers between 0 and 1.
        size: height and width of the result.
    """
    top, left, height, width = boxes(chance[None], image.height, image.width)[0].tolist()
    part = image.crop((left, top, left + width, top + height))
    return part.resize((size, size), Image.Resampling.BILINEAR)


def middle(image: Image.Image, size: int) -> Image.Image:
    """Return the middle of the image, which is used for evaluation."""
    scale = round(size * RESIZE) / min(image.size)
    width, height = round(image.width * scale), round(image.height * scale)
    left, top = (width - size) // 2, (height - size) // 2
    image = image.resize((width, height), Image.Resampling.BILINEAR)
    return image.crop((left, top, left + size, top + size))


@dataclass(frozen=True, eq=False)
class Files:
    """A source of batches (images, labels) that decodes and crops image files."""

    files: Sequence[str]
    """All files."""
    labels: Tensor
    """The class of each file."""
    numbers: Tensor
    """Indices of the files to use."""
    batch: int
    size: int
    """Height and width of the crops."""
    workers: int = 0
    """Processes that decode images. With 0, the training process does."""

    def __len__(self) -> int:
        return -(-len(self.numbers) // self.batch)

    def plan(self, order: torch.Generator | None) -> Sequence[Any]:
        """Return the indices of the files.

        In training, each comes with four random numbers for its crop, so that crops do not depend
        on the process that loads them.
        """
        if order is None:
            return torch.split(self.numbers, self.batch)
        chances = torch.rand(len(self.numbers), 4, generator=order)
        chosen = permutation(len(self.numbers), order)
        # float64 represents both the indices and the random numbers exactly.
        columns = (self.numbers[chosen, None].double(), chances[chosen].double())
        return torch.split(torch.cat(columns, 1), self.batch)

    def load(self, examples: Any) -> tuple[Tensor, Tensor]:
        """Return random crops in training, or else the middle of each image."""
        numbers = examples if examples.ndim == 1 else examples[:, 0].long()
        images = torch.empty(len(numbers), 3, self.size, self.size, dtype=torch.uint8)
        for i, number in enumerate(numbers.tolist()):
            image = decode(Path(self.files[number]))
            if examples.ndim == 1:
                crop = middle(image, self.size)
            else:
                crop = random_crop(image, examples[i, 1:].float(), self.size)
            images[i] = as_bytes(crop)
        return images, self.labels[numbers]
