"""CIFAR-10 (Krizhevsky, 2009): 50,000 training and 10,000 test images of 32x32, ten classes."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from adamomentum_lab.errors import LabError
from adamomentum_paper.data.files import read_checked, root
from adamomentum_paper.data.sets import DataSet, Download, Layout

TRAIN = tuple(f"data_batch_{i}" for i in range(1, 6))
TEST = ("test_batch",)
# Digests of the files inside the official archives.
BINARY_MD5 = {
    "data_batch_1": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch": "803d5f7f4d78ea53de84dbe85f74fb6d",
}
PYTHON_MD5 = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
DATASET = DataSet(
    name="cifar10",
    summary="60,000 photographs of 32x32, ten classes (Krizhevsky, 2009)",
    layouts=(
        Layout("cifar-10-batches-bin", {f"{name}.bin": md5 for name, md5 in BINARY_MD5.items()}),
        Layout("cifar-10-batches-py", PYTHON_MD5),
    ),
    terms="none stated; cite Krizhevsky, 2009",
    downloads=(
        Download(
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            "c32a1d4ab5d03f1284b67883e8d87530",
            170_052_171,
        ),
    ),
)
# Of all 60,000 images, for a scale of 1: the authors normalise by train and test together.
MEAN, STD = (0.4919, 0.4827, 0.4472), (0.2470, 0.2434, 0.2616)


def cifar10(train: bool, folder: Path | None = None) -> tuple[Tensor, Tensor]:
    """Return images as bytes (n, 3, 32, 32) and their labels, in the official order.

    Reads the binary layout (cifar-10-batches-bin), or else the Python one (cifar-10-batches-py).
    Files are checked by their published md5.
    """
    names = TRAIN if train else TEST
    place = DATASET.place(folder or root())
    source = DATASET.source()
    if place.name == "cifar-10-batches-py":
        parts = [_python(read_checked(place / n, PYTHON_MD5[n], source), n) for n in names]
    else:
        parts = [_binary(read_checked(place / f"{n}.bin", BINARY_MD5[n], source)) for n in names]
    images, labels = (torch.from_numpy(np.concatenate(some)) for some in zip(*parts, strict=True))
    return images, labels


def _binary(content: bytes) -> tuple[Any, Any]:
    """Parse records of a label and 3,072 bytes, red first."""
    records = np.frombuffer(content, np.uint8).reshape(-1, 3073)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].astype(np.int64)


# All names that a pickled array needs; the first is as of when CIFAR-10 was published.
_ARRAYS = {
    "numpy.core.multiarray._reconstruct": np.empty(0).__reduce__()[0],
    "numpy.ndarray": np.ndarray,
    "numpy.dtype": np.dtype,
}


class _Arrays(pickle.Unpickler):
    """Loads NumPy arrays and nothing else, since a pickle may call any function."""

    def find_class(self, module: str, name: str) -> Any:
        """Return one of the three names that arrays need."""
        wanted = f"{module}.{name}"
        if wanted not in _ARRAYS:
            raise LabError(f"a batch of CIFAR-10 contains {wanted}; it must contain only arrays.")
        return _ARRAYS[wanted]


def _python(content: bytes, name: str) -> tuple[Any, Any]:
    batch = _Arrays(io.BytesIO(content), encoding="bytes").load()
    try:
        images, labels = batch[b"data"], batch[b"labels"]
        return images.reshape(-1, 3, 32, 32), np.asarray(labels, np.int64)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise LabError(f"{name} is not a batch of CIFAR-10 ({error}).") from error
