"""Data sets of images with few of them."""

import pytest

from adamomentum_paper.data import imagenet, tiny_imagenet
from tests.adamomentum_paper.image_trees import write_image


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """Tiny ImageNet in the official layout with a few images, beside the 20 classes alone."""
    monkeypatch.setattr(tiny_imagenet, "TRAIN", 20)
    monkeypatch.setattr(tiny_imagenet, "VAL", 17)
    names = [f"n{i:03}" for i in range(200)]
    whole, part = tmp_path / "tiny-imagenet-200", tmp_path / "part" / "tiny-imagenet-20"
    lines = []
    for c, name in enumerate(names):
        read = c % 10 == 0
        (whole / "train" / name / "images").mkdir(parents=True)
        for i in range(20 if read else 0):
            content = write_image(tmp_path / "x.JPEG", seed=100 * c + i).read_bytes()
            for folder in (whole / "train" / name / "images", part / "train" / name):
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{name}_{i}.JPEG").write_bytes(content)
        for i in range(17 if read else 0):
            content = write_image(tmp_path / "x.JPEG", seed=100 * c + 50 + i).read_bytes()
            file = f"val_{1000 * i + c}.JPEG"
            for folder in (whole / "val" / "images", part / "val" / name):
                folder.mkdir(parents=True, exist_ok=True)
                (folder / file).write_bytes(content)
            lines.append(f"{file}\t{name}\t0\t0\t62\t62")
    (whole / "val" / "val_annotations.txt").write_text("\n".join(lines))
    return tmp_path


@pytest.fixture
def small_imagenet(tmp_path, monkeypatch):
    """ImageNet's layout with four classes of five images."""
    monkeypatch.setenv("ADAMOMENTUM_DATA", str(tmp_path))
    for name, value in (("TRAIN", 20), ("VAL", 8), ("CLASSES", 4)):
        monkeypatch.setattr(imagenet, name, value)
    for split, count in (("train", 5), ("val", 2)):
        for c in range(4):
            for i in range(count):
                file = tmp_path / "imagenet" / split / f"n{c}" / f"{i}.JPEG"
                write_image(file, (240 + 10 * i, 300), seed=10 * c + i)
    return tmp_path
