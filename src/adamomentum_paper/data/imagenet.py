"""ImageNet, the challenge of 2012 (Russakovsky et al., 2015): 1,000 classes."""

from __future__ import annotations

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
    layouts=(Layout("imagenet", images={"train": TRAIN, "val": VAL}),),
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
    classes, expected = int(labels[-1]) + 1, TRAIN if train else VAL
    if (classes, len(files)) != (CLASSES, expected):
        raise LabError(
            f"{place} holds {len(files):,} images of {classes:,} classes, not {expected:,} of "
            f"{CLASSES:,}: {DATASET.source()}"
        )
    return files, labels
