"""Tiny ImageNet (Stanford CS231n): photographs of 64x64. Every tenth of its 200 classes is used."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from adamomentum_lab.errors import LabError
from adamomentum_paper.data.files import root, translate_errors
from adamomentum_paper.data.images import decode_all, image_tree
from adamomentum_paper.data.sets import DataSet, Download, Layout

CLASSES, TRAIN, VAL = 20, 500, 50  # classes, and images per class
_PART, _WHOLE = "tiny-imagenet-20", "tiny-imagenet-200"
DATASET = DataSet(
    name="tiny-imagenet",
    summary="110,000 labelled photographs of 64x64, 200 classes (Stanford CS231n)",
    layouts=(
        Layout(_WHOLE, images={"train": 100_000, "val": 10_000}),
        Layout(
            _PART,
            images={"train": CLASSES * TRAIN, "val": CLASSES * VAL},
            part="20 of 200 classes, which is all that the lab uses",
        ),
    ),
    terms="non-commercial research and education",
    downloads=(
        Download(
            "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
            "90528d7ca1a48142e341f4ef8d21d0de",
            248_100_043,
        ),
    ),
)


def tiny_imagenet(train: bool, folder: Path | None = None) -> tuple[Tensor, Tensor]:
    """Return images as bytes (n, 3, 64, 64) and labels of every tenth class, ordered by name.

    Reads the official layout, or one with only these classes (tiny-imagenet-20).
    """
    place = DATASET.place(folder or root())
    if place.name == _PART:
        files, labels = image_tree(place / ("train" if train else "val"), DATASET.source())
    else:
        files, labels = _official(place, train)
    expected = CLASSES * (TRAIN if train else VAL)
    classes = len(set(labels.tolist()))
    if (len(files), classes) != (expected, CLASSES):
        raise LabError(
            f"the {'training' if train else 'validation'} images of Tiny ImageNet in {place} are "
            f"{len(files):,} of {classes} classes, not {expected:,} of {CLASSES}: "
            f"{DATASET.source()}"
        )
    return decode_all(files), labels


def _official(folder: Path, train: bool) -> tuple[list[Path], Tensor]:
    """Read train/<class>/images/*.JPEG, or val/images/*.JPEG with val_annotations.txt."""
    with translate_errors(DATASET.source()):
        classes = sorted(path.name for path in (folder / "train").iterdir() if path.is_dir())[::10]
        if train:
            files = [sorted((folder / "train" / name / "images").iterdir()) for name in classes]
        else:
            text = (folder / "val" / "val_annotations.txt").read_text(encoding="utf-8")
            named = sorted((*line.split("\t"), "", "")[:2] for line in text.splitlines())
            files = [
                [folder / "val" / "images" / file for file, its in named if its == name]
                for name in classes
            ]
    labels = [label for label, some in enumerate(files) for _ in some]
    return [file for some in files for file in some], torch.tensor(labels, dtype=torch.int64)
