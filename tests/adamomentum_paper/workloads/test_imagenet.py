"""The ImageNet workload: schedules, resumed runs."""

import functools
from dataclasses import replace

import pytest
import torch

from adamomentum_lab.catalog import find_workload
from adamomentum_lab.schedules import Moment
from adamomentum_lab.training.feed import cores, feed
from adamomentum_paper.data import imagenet
from adamomentum_paper.data.files import root
from adamomentum_paper.data.tiny_imagenet import tiny_imagenet
from adamomentum_paper.workloads import imagenet_resnet18
from tests.adamomentum_lab.loops import continues


def test_the_small_workload_continues_bit_for_bit(request, tmp_path, monkeypatch):
    if not (root() / "tiny-imagenet-20").is_dir():
        monkeypatch.setenv("ADAMOMENTUM_DATA", str(request.getfixturevalue("tiny")))
    # Three runs decode the images once.
    monkeypatch.setattr(imagenet_resnet18, "tiny_imagenet", functools.cache(tiny_imagenet))
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


@pytest.mark.slow
def test_the_full_workload_reads_files_and_continues(small_imagenet, monkeypatch, tmp_path):
    cls = find_workload("imagenet_resnet18").load()
    monkeypatch.setitem(imagenet_resnet18._VALIDATION, "full", 4)
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
    source = workload.source(data.train, training=True)
    assert source.workers == cores()
    decoded = list(feed(source, 0, 0))
    assert workload.caveats == ()

    # Starting a process takes seconds, and each epoch of each split starts its own.
    plain = cls.source
    monkeypatch.setattr(
        cls, "source", lambda *args, **more: replace(plain(*args, **more), workers=0)
    )
    source = workload.source(data.train, training=True)
    here = feed(source, 0, 0)
    for (x, y), (same_x, same_y) in zip(decoded, here, strict=True):
        assert torch.equal(x, same_x)
        assert torch.equal(y, same_y)
    seen = torch.cat([y for _, y in decoded])
    assert torch.equal(seen.sort().values, data.train[1].sort().values)
    shares = [
        torch.cat([y for _, y in feed(source, 0, 0, rank=rank, world=2)]) for rank in range(2)
    ]
    assert torch.equal(torch.cat(shares).sort().values, seen.sort().values)
    assert continues(workload, tmp_path, after=2)


def test_a_part_of_imagenet_is_named_as_such(small_imagenet):
    imagenet.describe_part.cache_clear()
    cls = find_workload("imagenet_resnet18").load()
    assert cls("full").caveats == ()
    for file in (small_imagenet / "imagenet" / "train" / "n1").iterdir():
        file.unlink()
        break
    imagenet.describe_part.cache_clear()
    assert cls("full").caveats == ("on a PART of ImageNet: 19 + 8 images of 4 classes",)
    assert imagenet.DATASET.state()[0] == "part"
    data = cls("full").data()
    assert [len(split[0]) for split in (data.train, data.validation, data.test)] == [18, 1, 8]
    imagenet.describe_part.cache_clear()
