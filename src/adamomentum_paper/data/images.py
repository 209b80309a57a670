"""Trees of image files with a folder for each class, as in ImageNet."""

from __future__ import annotations

import itertools
import mmap
import os
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from adamomentum_lab.errors import LabError
from adamomentum_lab.source import permutation
from adamomentum_paper.data.augmentation import redrawn_box
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
            image.load()
            return image if image.mode == "RGB" else image.convert("RGB")
    except Exception as error:  # Pillow raises whatever its readers of damaged files run into
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


def random_crop(image: Image.Image, seed: int, size: int) -> Image.Image:
    """Return a crop with a random area and aspect ratio, scaled to size x size."""
    top, left, height, width = redrawn_box(seed, image.height, image.width)
    part = image.crop((left, top, left + width, top + height))
    return part.resize((size, size), Image.Resampling.BILINEAR)


def middle(image: Image.Image, size: int) -> Image.Image:
    """Return the middle of the image, which is used for evaluation."""
    scale = round(size * RESIZE) / min(image.size)
    width, height = round(image.width * scale), round(image.height * scale)
    left, top = (width - size) // 2, (height - size) // 2
    image = image.resize((width, height), Image.Resampling.BILINEAR)
    return image.crop((left, top, left + size, top + size))


class Names(Sequence[str]):
    """File names in a file that worker processes map to memory. A list would be copied to each."""

    def __init__(self, names: Iterable[str | Path]) -> None:
        encoded = [os.fsencode(name) for name in names]
        ends = np.array([0, *itertools.accumulate(map(len, encoded))], dtype=np.int64)
        self._file: Any = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as this lives
        self._file.write(ends.tobytes() + b"".join(encoded))
        self._file.flush()
        weakref.finalize(self, self._file.close)
        self._map(self._file, len(encoded))

    def _map(self, file: Any, count: int) -> None:
        self._count = count
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._ends = np.frombuffer(content, np.int64, count + 1)
        self._bytes = memoryview(content)[self._ends.nbytes :]

    def __reduce__(self) -> tuple[Any, ...]:
        """Workers of this machine open the file of the process that made it."""
        return _open_names, (f"/proc/{os.getpid()}/fd/{self._file.fileno()}", self._count)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not 0 <= index < self._count:
            raise IndexError(index)
        return os.fsdecode(bytes(self._bytes[self._ends[index] : self._ends[index + 1]]))


def _open_names(place: str, count: int) -> Names:
    names = Names.__new__(Names)
    with open(place, "rb") as file:
        names._map(file, count)
    return names


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

        In training, each comes with the seed of its crop, so that crops do not depend on the
        process that loads them.
        """
        if order is None:
            return torch.split(self.numbers, self.batch)
        seeds = torch.randint(2**53, (len(self.numbers),), generator=order)
        chosen = permutation(len(self.numbers), order)
        return torch.split(torch.stack([self.numbers[chosen], seeds[chosen]], 1), self.batch)

    def load(self, examples: Any) -> tuple[Tensor, Tensor]:
        """Return random crops in training, or else the middle of each image."""
        numbers = examples if examples.ndim == 1 else examples[:, 0]
        # In the layout of Pillow, which is that of channels-last.
        images = torch.empty(len(numbers), self.size, self.size, 3, dtype=torch.uint8)
        for i, number in enumerate(numbers.tolist()):
            image = decode(Path(self.files[number]))
            if examples.ndim == 1:
                crop = middle(image, self.size)
            else:
                crop = random_crop(image, int(examples[i, 1]), self.size)
            images[i] = torch.from_numpy(np.array(crop))
        return images.permute(0, 3, 1, 2), self.labels[numbers]
