"""Fashion-MNIST (Xiao et al., 2017): 70,000 articles of clothing, 28x28 in grey, ten classes."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from adamomentum_lab.data.files import checked, root
from adamomentum_lab.data.idx import read_idx
from adamomentum_lab.data.sets import DataSet, Download, Layout

_FOLDER = "fashion-mnist"
_FILES = {
    "train-images-idx3-ubyte.gz": ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26_421_880),
    "train-labels-idx1-ubyte.gz": ("25c81989df183df01b3e8a0aad5dffbe", 29_515),
    "t10k-images-idx3-ubyte.gz": ("bef4ecab320f06d8554ea6380940ec79", 4_422_102),
    "t10k-labels-idx1-ubyte.gz": ("bb300cfdad3c16e7a12a480ee83cd310", 5_148),
}
_PLACE = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"
_MD5 = {name: md5 for name, (md5, _) in _FILES.items()}
DATASET = DataSet(
    name="fashion-mnist",
    summary="70,000 articles of clothing, 28x28 in grey, ten classes (Xiao et al., 2017)",
    layouts=(
        Layout(_FOLDER, _MD5),
        Layout(
            _FOLDER,
            {name: md5 for name, md5 in _MD5.items() if name.startswith("t10k")},
            part="the 10,000 test images alone",
        ),
    ),
    terms="MIT",
    downloads=tuple(
        Download(_PLACE + name, md5, size, f"{_FOLDER}/{name}")
        for name, (md5, size) in _FILES.items()
    ),
)


def fashion_mnist(train: bool, folder: Path | None = None) -> tuple[Tensor, Tensor]:
    """Images as bytes (n, 1, 28, 28) and their labels, in the official order."""
    folder = (folder or root()) / _FOLDER
    prefix = "train" if train else "t10k"
    images, labels = (
        read_idx(checked(folder / name, _FILES[name][0], DATASET.source()), str(folder / name))
        for name in (f"{prefix}-images-idx3-ubyte.gz", f"{prefix}-labels-idx1-ubyte.gz")
    )
    return images.unsqueeze(1), labels.long()
