"""Trees of image files with a folder for each class, as ImageNet is laid out."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing import resource_tracker
from pathlib import Path

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from adamomentum_lab.errors import LabError
from adamomentum_paper.data.augmentation import boxes
from adamomentum_paper.data.files import translate_errors
from adamomentum_paper.data.sets import IMAGE_SUFFIXES

RESIZE = 256 / 224  # at evaluation: shorter side to size * RESIZE, then the middle


def image_tree(folder: Path, source: str) -> tuple[list[Path], Tensor]:
    """The images below a folder and their labels: the number of their class, sorted by name."""
    with translate_errors(source):
        classes = {path: [*path.rglob("*")] for path in sorted(folder.iterdir()) if path.is_dir()}
    files: list[Path] = []
    labels: list[int] = []
    for label, (path, inside) in enumerate(classes.items()):
        found = sorted(file for file in inside if file.suffix.lower() in IMAGE_SUFFIXES)
        if not found:
            raise LabError(f"{path} holds no image ({', '.join(IMAGE_SUFFIXES)}): {source}")
        files += found
        labels += [label] * len(found)
    if not files:
        raise LabError(f"{folder} has no folder for any class: {source}")
    return files, torch.tensor(labels)


def decoded(file: Path) -> Image.Image:
    """An image file in RGB: some of ImageNet are grey, some CMYK, some PNG by another name."""
    try:
        with Image.open(file) as image:
            return image.convert("RGB")
    except (OSError, UnidentifiedImageError, SyntaxError) as error:
        raise LabError(f"{file} cannot be decoded ({error}).") from error


def as_bytes(image: Image.Image) -> Tensor:
    """(3, height, width), a byte each."""
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def all_decoded(files: Sequence[Path]) -> Tensor:
    """Images of one size, in memory."""
    first = as_bytes(decoded(files[0]))
    images = torch.empty(len(files), *first.shape, dtype=torch.uint8)
    for i, file in enumerate(files):
        image = as_bytes(decoded(file))
        if image.shape != first.shape:
            raise LabError(
                f"{file} is {image.shape[2]}x{image.shape[1]}; {files[0]} and the rest are "
                f"{first.shape[2]}x{first.shape[1]}."
            )
        images[i] = image
    return images


def random_crop(image: Image.Image, chance: Tensor, size: int) -> Image.Image:
    """A part of the image, of a random area and shape, scaled to size x size.

    Args:
        image: of any size.
        chance: four numbers between 0 and 1, which decide.
        size: of the result.
    """
    top, left, height, width = boxes(chance[None], image.height, image.width)[0].tolist()
    part = image.crop((left, top, left + width, top + height))
    return part.resize((size, size), Image.Resampling.BILINEAR)


def middle(image: Image.Image, size: int) -> Image.Image:
    """The middle of the image, as it is evaluated."""
    scale = round(size * RESIZE) / min(image.size)
    width, height = round(image.width * scale), round(image.height * scale)
    left, top = (width - size) // 2, (height - size) // 2
    image = image.resize((width, height), Image.Resampling.BILINEAR)
    return image.crop((left, top, left + size, top + size))


class _Cropped(Dataset[tuple[Tensor, Tensor] | LabError]):
    """What a worker process does: decode and crop, a batch at a time."""

    def __init__(self, files: Sequence[Path], labels: Tensor, size: int) -> None:
        self.files, self.labels, self.size = [str(file) for file in files], labels, size

    def __getitem__(self, batch: tuple[Tensor, ...]) -> tuple[Tensor, Tensor] | LabError:
        try:
            return self._batch(*batch)
        except LabError as error:  # raised in a worker, it would bring its traceback along
            return error

    def _batch(self, indices: Tensor, *chances: Tensor) -> tuple[Tensor, Tensor]:
        images = torch.empty(len(indices), 3, self.size, self.size, dtype=torch.uint8)
        for i, index in enumerate(indices.tolist()):
            image = decoded(Path(self.files[index]))
            crop = random_crop(image, chances[0][i], self.size) if chances else None
            images[i] = as_bytes(crop or middle(image, self.size))
        return images, self.labels[indices]


def stream(
    files: Sequence[Path],
    labels: Tensor,
    batches: Iterable[tuple[Tensor, ...]],
    size: int,
    workers: int,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of cropped images and their labels, decoded ahead by worker processes.

    Args:
        files: all images.
        labels: of each.
        batches: which of them each batch has and, where crops are random, the numbers that decide.
        size: of the crops.
        workers: processes; with 0 this one decodes.
    """
    loader = DataLoader(
        _Cropped(files, labels, size),
        batch_size=None,
        sampler=list(batches),
        num_workers=workers,
        generator=torch.Generator(),  # else it draws a number that belongs to the update
        # A fork of a process with threads may hang.
        multiprocessing_context="spawn" if workers else None,
        prefetch_factor=4 if workers else None,
    )
    if workers:
        resource_tracker.ensure_running()  # to start it later would unblock SIGINT again
    # Ctrl-C is for this process; workers inherit what is blocked.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        ready = iter(loader)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    for batch in ready:
        if isinstance(batch, LabError):
            raise batch
        yield batch
