"""Trees of image files, ImageNet and Tiny ImageNet."""

import os
import pickle
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from adamomentum_lab.errors import LabError
from adamomentum_lab.training.feed import in_order
from adamomentum_paper.data import imagenet, tiny_imagenet
from adamomentum_paper.data.augmentation import redrawn_box
from adamomentum_paper.data.files import root
from adamomentum_paper.data.images import (
    Files,
    Names,
    as_bytes,
    decode,
    decode_all,
    image_tree,
    middle,
    random_crop,
)
from tests.adamomentum_paper.image_trees import write_image


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
    with pytest.raises(LabError, match="has no folders of classes"):
        image_tree(tmp_path, "")
    (tmp_path / "n01").mkdir()
    with pytest.raises(LabError, match="n01 has no images"):
        image_tree(tmp_path, "")
    file = write_image(tmp_path / "n01" / "a.JPEG")
    file.write_bytes(file.read_bytes()[:300])
    with pytest.raises(LabError, match=r"a\.JPEG cannot be decoded"):
        decode(file)
    file.write_text("no image")
    with pytest.raises(LabError, match=r"a\.JPEG cannot be decoded"):
        decode(file)


def test_everything_becomes_rgb(tmp_path):
    for mode, suffix in (("L", "JPEG"), ("CMYK", "JPEG"), ("RGBA", "png")):
        image = as_bytes(decode(write_image(tmp_path / f"{mode}.{suffix}", mode=mode)))
        assert image.shape == (3, 64, 64)
        assert image.dtype == torch.uint8


def test_in_memory_all_must_be_of_one_size(tmp_path):
    files = [write_image(tmp_path / f"{i}.png", seed=i) for i in range(2)]
    images = decode_all(files)
    for image, file in zip(images, files, strict=True):
        np.testing.assert_array_equal(image.permute(1, 2, 0).numpy(), np.array(Image.open(file)))
    files.append(write_image(tmp_path / "2.png", (32, 64)))
    with pytest.raises(LabError, match=r"2\.png is 32x64, but .*0\.png is 64x64"):
        decode_all(files)


def test_the_middle(tmp_path):
    pixels = np.zeros((256, 512, 3), np.uint8)
    pixels[16:240, 144:368] = 200  # what is left of 512x256 by 224x224 in the middle
    image = Image.fromarray(pixels)
    assert np.array(middle(image, 224)).min() == 200
    half = np.array(middle(image.resize((1024, 512), Image.Resampling.NEAREST), 224))
    assert half.shape == (224, 224, 3)
    assert half[1:-1, 1:-1].min() == 200


def test_a_random_crop_is_the_box_of_its_seed(tmp_path):
    image = Image.fromarray(np.arange(100 * 80, dtype=np.uint8).reshape(80, 100)).convert("RGB")
    top, left, height, width = redrawn_box(7, 80, 100)
    expected = image.crop((left, top, left + width, top + height)).resize(
        (32, 32), Image.Resampling.BILINEAR
    )
    np.testing.assert_array_equal(np.array(random_crop(image, 7, 32)), np.array(expected))


def crops(files):
    """Two batches of random crops and one as it is evaluated, and the images they should hold."""
    seeds = torch.randint(2**53, (6,), generator=torch.Generator().manual_seed(0))
    order = torch.tensor([4, 0, 5, 2, 1, 3])
    rows = torch.stack([order, seeds], 1)
    images = [
        as_bytes(random_crop(decode(files[index]), seed, 24))
        for index, seed in zip(order, seeds.tolist(), strict=True)
    ]
    images += [as_bytes(middle(decode(files[index]), 24)) for index in order]
    return [rows[:4], rows[4:], order], torch.stack(images)


class Planned(Files):
    """Its batches are the crops above, many times, and at last one with a damaged file."""

    def plan(self, order):
        return [*crops(self.files)[0] * 20, torch.tensor([0, 6])]


def test_batches_are_decoded(tree):
    files, labels = image_tree(tree, "")
    batches, images = crops(files)
    source = Files(files, labels, torch.arange(6), 4, 24)
    got = list(map(source.load, batches))
    assert [y.tolist() for _, y in got] == [[1, 0, 1, 0], [0, 1], [1, 0, 1, 0, 0, 1]]
    assert torch.equal(torch.cat([x for x, _ in got]), images)


def test_crops_are_drawn_before_the_order_and_belong_to_the_image(tree):
    files, labels = image_tree(tree, "")
    source = Files(files, labels, torch.tensor([5, 0, 3]), 2, 24)
    order = torch.Generator().manual_seed(0)
    seeds, chosen = torch.randint(2**53, (3,), generator=order), torch.randperm(3, generator=order)
    rows = torch.cat(source.plan(torch.Generator().manual_seed(0)))
    assert rows[:, 0].tolist() == source.numbers[chosen].tolist()
    assert torch.equal(rows[:, 1], seeds[chosen])
    assert [part.tolist() for part in source.plan(None)] == [[5, 0], [3]]
    assert len(source) == 2


def test_names_are_those_of_the_list():
    names = ["a/1.JPEG", "b/\u00e9.png", "", "c/\udcff.jpg"]
    shared = Names(names)
    assert len(shared) == 4
    assert list(shared) == names
    assert shared[1:3] == names[1:3]
    assert list(Names([])) == []
    copied = pickle.loads(pickle.dumps(shared))
    assert list(copied) == names
    assert len(pickle.dumps(Names(map(str, range(10_000))))) < 200  # workers get no copy of them


@pytest.mark.slow
def test_worker_processes(tree):
    """They decode the same, ignore Ctrl-C and report a damaged file. Starting them takes long."""
    files, labels = image_tree(tree, "")
    images = crops(files)[1]
    damaged = [*files, write_image(tree / "damaged.JPEG")]
    damaged[-1].write_text("no image")
    labels = torch.cat([labels, labels[:1]])
    source = Planned(list(map(str, damaged)), labels, torch.arange(7), 4, 24, workers=2)
    ready = in_order(source)
    before = torch.get_rng_state()
    got = [next(ready)]
    assert torch.equal(torch.get_rng_state(), before)
    workers = decoders()
    assert len(workers) >= 2
    for worker in workers:
        os.kill(worker, signal.SIGINT)
    got += [next(ready) for _ in range(59)]
    assert [y.tolist() for _, y in got] == [[1, 0, 1, 0], [0, 1], [1, 0, 1, 0, 0, 1]] * 20
    assert torch.equal(torch.cat([x for x, _ in got]), images.repeat(20, 1, 1, 1))
    with pytest.raises(LabError, match=r"damaged\.JPEG cannot be decoded") as error:
        next(ready)
    assert "\n" not in str(error.value)


def decoders():
    """The processes that decode images: children of the server that forks them."""

    def read(file):
        try:
            return Path(file).read_bytes()
        except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            return b""

    def children(process):
        return [
            int(child)
            for thread in Path(f"/proc/{process}/task").iterdir()
            for child in read(thread / "children").split()
        ]

    servers = [one for one in children("self") if b"forkserver" in read(f"/proc/{one}/cmdline")]
    return [child for server in servers for child in children(server)]


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


def test_imagenet_of_more_classes_than_it_has(small_imagenet, monkeypatch):
    monkeypatch.setattr(imagenet, "CLASSES", 3)
    with pytest.raises(LabError, match="has 4 classes, not at most 3"):
        imagenet.imagenet(train=True)
