"""ImageNet, the challenge of 2012 (Russakovsky et al., 2015): 1,000 classes."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from torch import Tensor

from adamomentum_lab.errors import LabError
from adamomentum_paper.data.files import root
from adamomentum_paper.data.images import image_tree
from adamomentum_paper.data.sets import DataSet, Layout

TRAIN, VAL, CLASSES = 1_281_167, 50_000, 1_000
DATASET = DataSet(
    name="imagenet",
    summary="1.3 million photographs, 1,000 classes (Russakovsky et al., 2015)",
    layouts=(
        Layout("imagenet", images={"train": TRAIN, "val": VAL}),
        Layout("imagenet", images={"train": 0, "val": 0}, part="a part of ImageNet"),
    ),
    terms="non-commercial research and education",
    by_hand=(
        "register at https://image-net.org, get ILSVRC2012's training and validation images, and "
        "lay them out as imagenet/train/<class>/*.JPEG and imagenet/val/<class>/*.JPEG in "
        "the data folder"
    ),
)


def imagenet(train: bool, folder: Path | None = None) -> tuple[list[Path], Tensor]:
    """Return the files of the training or the validation images, and their labels."""
    place = (folder or root()) / "imagenet" / ("train" if train else "val")
    files, labels = image_tree(place, DATASET.source())
    if (classes := int(labels[-1]) + 1) > CLASSES:
        raise LabError(f"{place} has {classes:,} classes, not at most {CLASSES:,}.")
    return files, labels


@functools.cache
def describe_part(folder: Path | None = None) -> str:
    """Return a warning if the data folder has a part of ImageNet, or else an empty text."""
    place = (folder or root()) / "imagenet"
    counts, classes = [], 0
    for split in ("train", "val"):
        kinds = [one.path for one in _listed(place / split) if one.is_dir()]
        counts.append(sum(len(_listed(kind)) for kind in kinds))
        classes = max(classes, len(kinds))
    if not all(counts) or (classes, *counts) == (CLASSES, TRAIN, VAL):
        return ""
    train, val = counts
    return f"on a PART of ImageNet: {train:,} + {val:,} images of {classes:,} classes"


def _listed(folder: Path | str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [*entries]
    except OSError:
        return []
