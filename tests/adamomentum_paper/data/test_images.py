"""Trees of image files, and the ImageNet workload on them."""

import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from adamomentum_lab.catalog import find_workload
from adamomentum_lab.errors import LabError
from adamomentum_lab.schedules import Moment
from adamomentum_paper.data import imagenet, tiny_imagenet
from adamomentum_paper.data.files import root
from adamomentum_paper.data.images import (
    all_decoded,
    as_bytes,
    decoded,
    image_tree,
    middle,
    random_crop,
    stream,
)
from tests.adamomentum_lab.test_supervised import continues


def write_image(file, size=(64, 64), mode="RGB", seed=0):
    file.parent.mkdir(parents=True, exist_ok=True)
    bands = len(Image.new(mode, (1, 1)).getbands())
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], bands), np.uint8)
    Image.fromarray(pixels.squeeze(), mode if mode == "CMYK" else None).save(file)
    return file


@pytest.fixture
def tree(tmp_path):
    """Two classes of three images of all sizes."""
    for label, name in enumerate(("n02", "n10")):
        for i in range(3):
            write_image(
                tmp_path / name / f"{i}.JPEG", (70 + 30 * i, 90 - 20 * label), seed=3 * label + i
            )
    (tmp_path / "n02" / "boxes.txt").touch()
    return tmp_path


def test_classes_are_numbered_by_name(tree):
    files, labels = image_tree(tree, "")
    assert [f"{file.parent.name}/{file.name}" for file in files] == [
        f"{name}/{i}.JPEG" for name in ("n02", "n10") for i in range(3)
    ]
    assert labels.tolist() == [0, 0, 0, 1, 1, 1]


def test_what_is_wrong_with_a_tree(tmp_path):
    with pytest.raises(LabError, match="none is missing: get it there"):
        image_tree(tmp_path / "none", "get it there")
    with pytest.raises(LabError, match="has no folder for any class"):
        image_tree(tmp_path, "")
    (tmp_path / "n01").mkdir()
    with pytest.raises(LabError, match="n01 holds no image"):
        image_tree(tmp_path, "")
    file = write_image(tmp_path / "n01" / "a.JPEG")
    file.write_bytes(file.read_bytes()[:300])
    with pytest.raises(LabError, match=r"a\.JPEG cannot be decoded"):
        decoded(file)
    file.write_text("no image")
    with pytest.raises(LabError, match=r"a\.JPEG cannot be decoded"):
        decoded(file)


def test_everything_becomes_rgb(tmp_path):
    for mode, suffix in (("L", "JPEG"), ("CMYK", "JPEG"), ("RGBA", "png")):
        image = as_bytes(decoded(write_image(tmp_path / f"{mode}.{suffix}", mode=mode)))
        assert image.shape == (3, 64, 64)
        assert image.dtype == torch.uint8


def test_in_memory_all_must_be_of_one_size(tmp_path):
    files = [write_image(tmp_path / f"{i}.png", seed=i) for i in range(2)]
    images = all_decoded(files)
    for image, file in zip(images, files, strict=True):
        np.testing.assert_array_equal(image.permute(1, 2, 0).numpy(), np.array(Image.open(file)))
    files.append(write_image(tmp_path / "2.png", (32, 64)))
    with pytest.raises(LabError, match=r"2\.png is 32x64; .*0\.png and the rest are 64x64"):
        all_decoded(files)


def test_the_middle(tmp_path):
    pixels = np.zeros((256, 512, 3), np.uint8)
    pixels[16:240, 144:368] = 200  # what is left of 512x256 by 224x224 in the middle
    image = Image.fromarray(pixels)
    assert np.array(middle(image, 224)).min() == 200
    half = np.array(middle(image.resize((1024, 512), Image.Resampling.NEAREST), 224))
    assert half.shape == (224, 224, 3)
    assert half[1:-1, 1:-1].min() == 200


def test_a_random_crop_is_inside_and_takes_what_chance_says(tmp_path):
    image = Image.fromarray(np.arange(100 * 80, dtype=np.uint8).reshape(80, 100)).convert("RGB")
    whole = random_crop(image, torch.tensor([1.0, 0.5, 0.0, 0.0]), 32)
    assert whole.size == (32, 32)
    least = torch.tensor([0.0, 0.5, 0.999, 0.999])  # 8 % of the area, square, bottom right
    side = round((0.08 * 8000) ** 0.5)
    expected = image.crop((100 - side, 80 - side, 100, 80)).resize(
        (32, 32), Image.Resampling.BILINEAR
    )
    assert np.array(expected).std() > 0
    np.testing.assert_array_equal(np.array(random_crop(image, least, 32)), np.array(expected))


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_worker_processes_decode_the_same(tree, workers):
    files, labels = image_tree(tree, "")
    chances = torch.rand(6, 4, generator=torch.Generator().manual_seed(0))
    order = torch.tensor([4, 0, 5, 2, 1, 3])
    batches = [(order[:4], chances[:4]), (order[4:], chances[4:])]
    got = list(stream(files, labels, batches, 24, workers))
    assert [y.tolist() for _, y in got] == [[1, 0, 1, 0], [0, 1]]
    images = torch.cat([x for x, _ in got])
    for image, index, chance in zip(images, order, chances, strict=True):
        expected = as_bytes(random_crop(decoded(files[index]), chance, 24))
        assert torch.equal(image, expected)
    evaluated = torch.cat([x for x, _ in stream(files, labels, [(order,)], 24, workers)])
    assert torch.equal(evaluated[0], as_bytes(middle(decoded(files[4]), 24)))


@pytest.mark.slow
def test_a_damaged_file_is_told_from_a_worker(tree):
    files, labels = image_tree(tree, "")
    files[1].write_text("no image")
    with pytest.raises(LabError, match=r"1\.JPEG cannot be decoded") as told:
        list(stream(files, labels, [(torch.arange(6),)], 24, 1))
    assert "\n" not in str(told.value)


@pytest.mark.slow
def test_ctrl_c_is_not_for_the_workers(tree):
    files, labels = image_tree(tree, "")
    batches = stream(files, labels, [(torch.arange(6),)] * 40, 24, 2)
    next(batches)
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()
    workers = [
        int(child)
        for child in children
        if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
    assert len(workers) >= 2
    for worker in workers:
        os.kill(worker, signal.SIGINT)
    assert len(list(batches)) == 39


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


def test_both_layouts_of_tiny_imagenet_are_the_same(tiny):
    for train, count in ((True, 400), (False, 340)):
        official = tiny_imagenet.tiny_imagenet(train, tiny)
        part = tiny_imagenet.tiny_imagenet(train, tiny / "part")
        assert torch.equal(official[1], part[1])
        assert torch.equal(official[0], part[0])
        assert official[0].shape == (count, 3, 64, 64)
    with pytest.raises(LabError, match=r"train is missing: `adamomentum data fetch tiny-image"):
        tiny_imagenet.tiny_imagenet(True, tiny / "none")
    (tiny / "empty" / "tiny-imagenet-200" / "train").mkdir(parents=True)
    with pytest.raises(LabError, match="are 0 of 0 classes, not 400 of 20"):
        tiny_imagenet.tiny_imagenet(True, tiny / "empty")
    next((tiny / "part" / "tiny-imagenet-20" / "train" / "n010").iterdir()).unlink()
    with pytest.raises(LabError, match="are 399 of 20 classes, not 400 of 20"):
        tiny_imagenet.tiny_imagenet(True, tiny / "part")


@pytest.mark.skipif(
    not (root() / "tiny-imagenet-20").is_dir(), reason="Tiny ImageNet is not in the data folder"
)
def test_the_real_tiny_imagenet():
    images, labels = tiny_imagenet.tiny_imagenet(train=False)
    assert images.shape == (1000, 3, 64, 64)
    assert torch.bincount(labels).tolist() == [50] * 20


def test_the_small_workload_continues_bit_for_bit(tiny, tmp_path, monkeypatch):
    if not (root() / "tiny-imagenet-20").is_dir():
        monkeypatch.setenv("ADAMOMENTUM_DATA", str(tiny))
    else:
        monkeypatch.undo()
    workload = find_workload("imagenet_resnet18").load()("smoke")
    assert workload.caveats == ("on 20 classes of Tiny ImageNet, 64x64: not ImageNet",)
    workload.batch = 32
    workload.epochs = {"smoke": 2}
    assert continues(workload, tmp_path, after=11)


def test_schedules_end_where_the_paper_says():
    workload = find_workload("imagenet_resnet18").load()("full")
    end = Moment(1, 100, 100)
    assert workload.schedule_of("sgdm").lr(0.1, end) == pytest.approx(1e-4)
    for name in ("adam", "adamomentum"):
        assert workload.schedule_of(name).lr(1e-3, end) == pytest.approx(5e-6)
        assert workload.schedule_of(name).lr(1e-3, Moment(0, 0, 100)) == 1e-3
    assert workload.batch == 256
    assert workload.caveats == ()
    assert find_workload("imagenet_resnet18").load()("full", "as-run").selection == "last"


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


def test_imagenet_of_the_wrong_size(small_imagenet, monkeypatch):
    monkeypatch.setattr(imagenet, "TRAIN", 21)
    with pytest.raises(LabError, match="holds 20 images of 4 classes, not 21 of 4: register at"):
        imagenet.imagenet(train=True)


@pytest.mark.slow
def test_the_full_workload_reads_files_and_continues(small_imagenet, monkeypatch, tmp_path):
    origin = find_workload("imagenet_resnet18")
    cls = origin.load()
    monkeypatch.setitem(vars(__import__(cls.__module__, fromlist=["x"]))["_VALIDATION"], "full", 4)
    workload = cls("full")
    workload.batch = 6
    workload.epochs = {"full": 1}
    monkeypatch.setattr(
        cls,
        "model",
        lambda self: torch.nn.Sequential(
            torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(48, 4)
        ),
    )
    data = workload.data()
    assert [len(split[0]) for split in (data.train, data.validation, data.test)] == [16, 4, 8]
    seen = torch.cat([y for _, y in workload.batches(data.train, torch.Generator())])
    assert torch.equal(seen.sort().values, data.train[1].sort().values)
    shares = [
        torch.cat([y for _, y in workload.batches(data.train, torch.Generator(), rank, 2)])
        for rank in range(2)
    ]
    assert torch.equal(torch.cat(shares).sort().values, seen.sort().values)
    assert continues(workload, tmp_path, after=2)
