"""What is known of data sets, and what is told of damage and absence."""

import json

import pytest
from typer.testing import CliRunner

from adamomentum_lab.cli import app
from adamomentum_lab.errors import LabError
from adamomentum_paper.data import sets
from adamomentum_paper.data.files import hash_like
from adamomentum_paper.data.sets import DataSet, Layout, get, known


def test_every_set_says_where_it_comes_from():
    for name, dataset in known().items():
        assert dataset.name == name
        assert dataset.downloads or dataset.by_hand
        assert dataset.terms
        for layout in dataset.layouts:
            assert layout.files or layout.images
            assert all(hash_like(digest) for digest in layout.files.values())
        for download in dataset.downloads:
            assert hash_like(download.digest)
    assert {"cifar10", "imagenet", "tiny-imagenet"} <= set(known())
    with pytest.raises(LabError, match="did you mean 'cifar10'"):
        get("cifar-10")


def test_states(tmp_path, monkeypatch):
    monkeypatch.setenv("ADAMOMENTUM_DATA", str(tmp_path))
    md5 = "5d41402abc4b2a76b9719d911017c592"  # of "hello"
    dataset = DataSet(
        "greeting",
        "a greeting",
        (
            Layout("whole", {"a": md5, "b": md5}, {"train": 2}),
            Layout("whole", {"a": md5}, part="only a"),
        ),
        "free",
        by_hand="say it",
    )
    assert dataset.state() == ("missing", "say it")
    folder = tmp_path / "whole"
    (folder / "train" / "x").mkdir(parents=True)
    assert dataset.state() == ("damaged", f"{folder}: a is missing")
    (folder / "a").write_text("hello")
    assert dataset.state() == ("part", f"{folder}: only a")
    (folder / "b").write_text("hell")
    assert dataset.state()[0] == "part"
    (folder / "a").write_text("hell")
    assert dataset.state()[1] == f"{folder}: a has a wrong digest (4 bytes)"
    for name in ("a", "b"):
        (folder / name).write_text("hello")
    for name in ("1.JPEG", "x/2.png", "x/boxes.txt"):
        (folder / "train" / name).touch()
    assert dataset.state() == ("complete", str(folder))

    def refused(*_):
        raise PermissionError(13, "Permission denied", "a")

    monkeypatch.setattr(sets, "digest_of", refused)
    assert dataset.state() == ("damaged", "a cannot be read (Permission denied)")


def test_the_layout_that_is_judged_is_the_one_that_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("ADAMOMENTUM_DATA", str(tmp_path))
    md5 = "5d41402abc4b2a76b9719d911017c592"  # of "hello"
    dataset = DataSet(
        "s", "", (Layout("first", {"a": md5}), Layout("second", {"b": md5})), "", by_hand="x"
    )
    assert dataset.place(tmp_path) == tmp_path / "first"
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "b").write_text("hello")
    assert dataset.place(tmp_path) == tmp_path / "second"
    assert dataset.state() == ("complete", str(tmp_path / "second"))
    (tmp_path / "first").mkdir()
    assert dataset.place(tmp_path) == tmp_path / "first"
    assert dataset.state() == ("damaged", f"{tmp_path / 'first'}: a is missing")


def test_the_command_lists_them(tmp_path, monkeypatch):
    monkeypatch.setenv("ADAMOMENTUM_DATA", str(tmp_path))
    (tmp_path / "cifar-10-batches-bin").mkdir()
    result = CliRunner().invoke(app, ["data", "--json"])
    listed = json.loads(result.stdout)["data"]
    assert listed["cifar10"]["state"] == "damaged"
    assert "data_batch_1.bin is missing" in listed["cifar10"]["detail"]
    assert listed["imagenet"]["state"] == "missing"
    shown = CliRunner().invoke(app, ["data"]).stdout
    assert all(name in shown for name in known())
    assert "adamomentum data fetch tiny-imagenet (248 MB)" in " ".join(shown.split())


def test_the_command_tells_mistakes(tmp_path, monkeypatch):
    monkeypatch.setenv("ADAMOMENTUM_DATA", str(tmp_path))
    wrong = CliRunner().invoke(app, ["data", "fetch", "cifar"])
    assert wrong.exit_code == 2
    assert "did you mean 'cifar10'" in wrong.output
    wrong = CliRunner().invoke(app, ["data", "fetch", "cifar10", "--from", "/no/such/folder"])
    assert wrong.exit_code == 2
    assert "is neither a folder nor a URL" in " ".join(wrong.output.split())
    wrong = CliRunner().invoke(app, ["data", "fetch", "cifar10", "--from", ""])
    assert wrong.exit_code == 2
    by_hand = CliRunner().invoke(app, ["data", "fetch", "imagenet"])
    assert "cannot be downloaded: register at" in str(by_hand.exception)
    (tmp_path / "file").touch()
    monkeypatch.setenv("ADAMOMENTUM_DATA", str(tmp_path / "file"))
    for args in (["data"], ["data", "fetch", "cifar10"]):
        assert "file is not a folder; ADAMOMENTUM_DATA" in str(
            CliRunner().invoke(app, args).exception
        )
