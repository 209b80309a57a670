"""Files are written whole, onto regular files only, and never through links."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from adamomentum_lab import files
from adamomentum_lab.errors import LabError
from adamomentum_lab.files import BusyError, is_locked, locked, write, writing


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


HOLDER = """
import os, sys, time
from pathlib import Path
from adamomentum_lab.files import locked

with locked(Path(sys.argv[1])):
    if os.fork() == 0:  # it must not hold the lock for its parent
        print("forked", flush=True)
        time.sleep(60)
        os._exit(0)
    time.sleep(0.2)
os._exit(0)
"""


def test_a_fork_does_not_hold_a_lock(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "lock")],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert holder.stdout.readline() == b"forked\n"
    holder.wait()
    with locked(tmp_path / "lock", "busy"):
        pass
    os.killpg(holder.pid, signal.SIGKILL)
    holder.stdout.close()


def test_waiting_for_a_lock_says_for_whom(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(files.Waits, "AFTER", 0.2)
    lock = tmp_path / "lock"
    holding = contextlib.ExitStack()
    holding.enter_context(locked(lock))
    timer = threading.Timer(1.0, holding.close)
    timer.start()
    with locked(lock):
        pass
    timer.join()
    [said] = capsys.readouterr().err.splitlines()
    assert said.startswith(f"Waiting for {lock}, which another process holds. It is process ")


def test_who_holds_a_lock(tmp_path):
    lock = tmp_path / "lock"
    known = r"^busy It is process \d+, since [-:\d ]+\. `kill \d+` ends it\.$"
    with locked(lock), pytest.raises(BusyError, match=known):
        locked(lock, "busy").__enter__()
    noted = json.loads((tmp_path / "lock.by").read_text())
    for text, said in {
        json.dumps(noted | {"process": 2**22 + 1}): "That has ended, but",
        json.dumps(noted | {"host": "other"}): " on other, since",
        "{": "^busy$",
        "[]": "^busy$",
        json.dumps(noted | {"since": 1e300}): "^busy$",
    }.items():
        with locked(lock):
            (tmp_path / "lock.by").write_text(text)
            with pytest.raises(BusyError, match=said):
                locked(lock, "busy").__enter__()


def test_a_lock_of_a_dead_process_is_none(tmp_path):
    file = tmp_path / "lock"
    assert not is_locked(file)
    assert not file.exists()
    with locked(file):
        assert is_locked(file)
    assert not is_locked(file)
