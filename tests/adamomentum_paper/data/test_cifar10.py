"""CIFAR-10 in both official layouts; damage, absence and malice are told."""

import hashlib
import os
import pickle

import numpy as np
import pytest
import torch

from adamomentum_lab.errors import LabError
from adamomentum_paper.data import cifar10 as module
from adamomentum_paper.data.cifar10 import MEAN, STD, cifar10
from adamomentum_paper.data.files import root

real = pytest.mark.skipif(
    not (root() / "cifar-10-batches-bin").is_dir(), reason="CIFAR-10 is not in the data folder"
)


def random_batch(seed, n=20):
    generator = np.random.default_rng(seed)
    images = generator.integers(0, 256, (n, 3072), dtype=np.uint8)
    return images, generator.integers(0, 10, n, dtype=np.uint8)


def old_pickle(images, labels):
    """As the published files are, with NumPy's names of then; protocol 3 has bytes, as Python 2 had
    in its strings."""
    content = pickle.dumps({b"data": images, b"labels": [int(y) for y in labels]}, protocol=3)
    return content.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


@pytest.fixture
def both_layouts(tmp_path, monkeypatch):
    for i, name in enumerate((*module.TRAIN, *module.TEST)):
        images, labels = random_batch(i)
        files = {
            ("cifar-10-batches-bin", f"{name}.bin", "BINARY_MD5"): np.concatenate(
                [labels[:, None], images], 1
            ).tobytes(),
            ("cifar-10-batches-py", name, "PYTHON_MD5"): old_pickle(images, labels),
        }
        for (folder, file, table), content in files.items():
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / file).write_bytes(content)
            digest = hashlib.md5(content).hexdigest()
            monkeypatch.setitem(getattr(module, table), name, digest)
    return tmp_path


def test_both_layouts_are_the_same(both_layouts):
    binary = [cifar10(train, both_layouts) for train in (True, False)]
    os.rename(both_layouts / "cifar-10-batches-bin", both_layouts / "elsewhere")
    python = [cifar10(train, both_layouts) for train in (True, False)]
    for (x, y), (x2, y2) in zip(binary, python, strict=True):
        assert torch.equal(x, x2)
        assert torch.equal(y, y2)
    (x, y), (test, _) = binary
    assert x.shape == (100, 3, 32, 32)
    assert test.shape == (20, 3, 32, 32)
    assert (x.dtype, y.dtype) == (torch.uint8, torch.int64)
    images, labels = random_batch(2)
    assert torch.equal(x[40], torch.from_numpy(images[0]).view(3, 32, 32))
    assert y[40] == labels[0]


def test_a_damaged_file_is_named(both_layouts):
    file = both_layouts / "cifar-10-batches-bin" / "data_batch_3.bin"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(LabError, match=r"data_batch_3\.bin is damaged: its md5 is .*, not .*kriz"):
        cifar10(True, both_layouts)


def test_a_missing_file_says_where_to_get_it(tmp_path):
    with pytest.raises(
        LabError,
        match=r"data_batch_1\.bin is missing: `adamomentum data fetch cifar10` .*ADAMOMENTUM",
    ):
        cifar10(True, tmp_path)


class Malice:
    def __reduce__(self):
        return os.system, ("true",)


def test_nothing_in_a_batch_is_called(tmp_path, monkeypatch):
    content = pickle.dumps({b"data": Malice(), b"labels": []}, protocol=3)
    (tmp_path / "cifar-10-batches-py").mkdir()
    (tmp_path / "cifar-10-batches-py" / "test_batch").write_bytes(content)
    monkeypatch.setitem(module.PYTHON_MD5, "test_batch", hashlib.md5(content).hexdigest())
    with pytest.raises(LabError, match=r"contains posix\.system; it must contain only arrays"):
        cifar10(False, tmp_path)


@real
def test_the_real_one():
    x, y = cifar10(True)
    test, labels = cifar10(False)
    assert x.shape == (50_000, 3, 32, 32)
    assert y.bincount().tolist() == [5000] * 10
    assert labels.bincount().tolist() == [1000] * 10
    # Exact, from how often each of the 256 values occurs.
    values = np.arange(256) / 255
    for channel, (mean, std) in enumerate(zip(MEAN, STD, strict=True)):
        pixels = torch.cat([x[:, channel].flatten(), test[:, channel].flatten()])
        shares = np.bincount(pixels.numpy(), minlength=256) / len(pixels)
        assert shares @ values == pytest.approx(mean, abs=5e-5)
        assert (shares @ (values - shares @ values) ** 2) ** 0.5 == pytest.approx(std, abs=5e-5)
