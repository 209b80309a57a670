"""Files are written whole, onto regular files only, and never through links."""

import contextlib
import os

import pytest

from adamomentum_lab.errors import LabError
from adamomentum_lab.files import locked, write, writing


@pytest.fixture
def precious(tmp_path):
    """A file that nobody may touch."""
    file = tmp_path / "precious"
    file.write_text("precious")
    yield file
    assert file.read_text() == "precious"


def test_a_lock_that_is_a_link_is_refused(tmp_path, precious):
    (tmp_path / "lock").symlink_to(precious)
    link = r"cannot open .*lock \(it is a symbolic link\)"
    with pytest.raises(LabError, match=link), locked(tmp_path / "lock"):
        pass


def test_a_lock_file_keeps_what_is_in_it(tmp_path, precious):
    with locked(precious, "busy"):
        pass


def test_a_link_in_the_place_of_a_temporary_file_is_not_followed(tmp_path, precious, monkeypatch):
    monkeypatch.setattr("adamomentum_lab.files._random_part", lambda: "abc")
    (tmp_path / ".new.abc").symlink_to(precious)
    with pytest.raises(LabError, match="cannot write"):
        write(tmp_path / "new", "text")


@pytest.mark.parametrize("kind", ["fifo", "folder", "device"])
def test_only_regular_files_are_replaced(tmp_path, kind):
    file = tmp_path / "out"
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        file.symlink_to("/dev/null")
    before = os.lstat(file)
    with pytest.raises(LabError, match=r"cannot write .*out \(it is not a regular file\)"):
        write(file, "text")
    assert os.lstat(file) == before
    assert [*tmp_path.iterdir()] == [file]


def test_a_file_is_whole_or_as_it_was(tmp_path):
    file = tmp_path / "out"
    write(file, "one")
    with contextlib.suppress(RuntimeError), writing(file) as out:
        out.write(b"tw")
        raise RuntimeError
    assert file.read_text() == "one"
    assert [*tmp_path.iterdir()] == [file]
