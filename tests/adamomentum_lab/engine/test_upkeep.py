"""`adamomentum runs`: damage is found, what is whole is kept, what is not needed is freed."""

import contextlib
import hashlib
import io
import os
import sqlite3
import warnings

import pytest
import torch

from adamomentum_lab.engine import upkeep
from adamomentum_lab.engine.store import Run, Store, StoredLook
from adamomentum_lab.errors import LabError
from adamomentum_lab.files import locked
from adamomentum_lab.training.checkpoints import Checkpoints, has_parts
from tests.adamomentum_lab.command_line import run_here
from tests.adamomentum_lab.engine.test_store import record, spec

LOOK = StoredLook("a", "b", "data", 5, 0.01, 2)
STATE = {
    "epoch": 1, "update": 0, "clock": 0.0, "loss": torch.zeros(1), "status": "done",
    "epochs": [], "seconds": [], "updates": 3,
}  # fmt: skip


def filled(folder, count=6, epochs=3):
    """A store with finished runs, each with two checkpoints, and a look."""
    store = Store(folder)
    for seed in range(count):
        store.begin(spec(seed), {})
        records = [record(e) for e in range(1, epochs + 1)]
        store.finish(Run(spec(seed), "done", records, [0.1] * epochs, {"by": seed}, inputs={}))
        for _ in range(2):
            Checkpoints(store.folder_of(spec(seed)), spec(seed).id).save(STATE)
    store.add_looks("question", [LOOK])
    return store


def change(folder, words, *values):
    with contextlib.closing(sqlite3.connect(folder / "runs.sqlite")) as db:
        db.execute(words, values)
        db.commit()


def command(name, folder, *more):
    done = run_here("runs", name, "--runs", folder, *more)
    return done.returncode, done.stdout, done.stderr


def test_a_whole_store_is_whole(tmp_path):
    filled(tmp_path)
    assert upkeep.check(tmp_path) == []
    assert command("check", tmp_path) == (0, "Everything is whole.\n", "")
    assert command("repair", tmp_path) == (0, "Everything is whole.\n", "")
    with pytest.raises(LabError, match="there is no store of runs in"):
        upkeep.check(tmp_path / "races")


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("DELETE FROM epochs WHERE run = ? AND epoch = 2", [spec(1).id]),
        ("UPDATE epochs SET record = ? WHERE run = ?", ["{", spec(1).id]),
        ("UPDATE runs SET spec = ? WHERE id = ?", ["{", spec(1).id]),
        ("UPDATE runs SET machine = ? WHERE id = ?", ["[]", spec(1).id]),
    ],
)
@pytest.mark.parametrize("summed", [True, False])
def test_a_damaged_run_is_found_and_removed(tmp_path, words, values, summed):
    store = filled(tmp_path)
    change(tmp_path, words, *values)
    if not summed:  # as the runs of 0.1, and those that are under way
        change(tmp_path, "DELETE FROM sums")
    assert all(run.status == "damaged" for run in store.all() if run.spec == spec(1))
    [fault] = upkeep.check(tmp_path)
    assert spec(1).id in fault.what
    status, out, err = command("check", tmp_path)
    assert (status, len(out.splitlines())) == (1, 1)
    assert err.startswith("adamomentum: 1 fault. `adamomentum runs repair")
    assert command("repair", tmp_path)[0] == 0
    assert upkeep.check(tmp_path) == []
    assert [run.spec.seed for run in store.all()] == [0, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"short", "is damaged"),
        (None, "belongs to another run"),
        (torch.zeros(3), "does not fit the run"),
        (STATE | {"epoch": "one"}, "does not fit the run"),
        (b"\0" * 50, "is no checkpoint"),
        ("link", "cannot be read"),
        ("fifo", "it is not a regular file"),
    ],
)
def test_checkpoints_that_cannot_be_used_are_found_and_the_previous_one_is_taken(
    tmp_path, content, why
):
    store = filled(tmp_path, 2)
    mine = Checkpoints(store.folder_of(spec(0)), spec(0).id)
    if content is None:
        mine.last.write_bytes(Checkpoints(store.folder_of(spec(1))).last.read_bytes())
    elif content == "link":
        mine.last.unlink()
        mine.last.symlink_to(mine.previous)
    elif content == "fifo":
        mine.last.unlink()
        os.mkfifo(mine.last)
    else:
        made = io.BytesIO()
        torch.save(content, made) if not isinstance(content, bytes) else made.write(content)
        digest = hashlib.sha256(made.getvalue()).digest() if content != b"short" else b""
        mine.last.write_bytes(digest + made.getvalue())
    [fault] = upkeep.check(tmp_path)
    assert fault.place == mine.last
    assert why in fault.what
    with pytest.warns(UserWarning, match="an older checkpoint is used"):
        assert mine.load(has_parts)["updates"] == 3
    upkeep.repair(tmp_path)
    assert upkeep.check(tmp_path) == []
    assert not os.path.lexists(mine.last)
    assert mine.load(has_parts)["updates"] == 3


def test_a_store_with_damaged_pages_keeps_what_is_whole(tmp_path):
    store = filled(tmp_path, 60, epochs=20)
    store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store._db.close()
    file = tmp_path / "runs.sqlite"
    content = bytearray(file.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 4096] = b"\xff" * 4096
    file.write_bytes(content)
    [fault] = upkeep.check(tmp_path)
    assert "is damaged" in fault.what
    with pytest.warns(UserWarning, match="is damaged"):
        said = upkeep.repair(tmp_path)
    assert "Took over" in said[0]
    runs = Store(tmp_path).all()
    assert 20 < len(runs) < 60
    for run in runs:  # nothing false
        assert run.machine == {"by": run.spec.seed}
        assert run.epochs == [record(e) for e in range(1, 21)]
    assert Store(tmp_path).looks("question") == [LOOK]
    assert upkeep.check(tmp_path) == []
    assert (tmp_path / "runs.sqlite.repaired-1").read_bytes() == bytes(content)


def test_what_is_not_needed_is_shown_and_then_freed(tmp_path):
    store = filled(tmp_path, 3)
    store.begin(spec(9), {})  # under way
    Checkpoints(store.folder_of(spec(9)), spec(9).id).save(STATE)
    unknown = tmp_path / ("0" * 16)
    unknown.mkdir()
    (unknown / "last.ckpt").write_bytes(b"x" * 5000)
    left = tmp_path / ".runs.csv.0123abcd"
    left.write_text("half")
    os.utime(left, (0, 0))
    (tmp_path / ".mine").write_text("the user's")
    (tmp_path / "notes").mkdir()
    status, out, _ = command("gc", tmp_path)
    assert status == 0
    assert [line.split("  ")[-1] for line in out.splitlines()] == [
        "1 item: a temporary file of a process that was killed",
        "1 item: the folder of a run that the store does not know",
        "3 items: a checkpoint of a finished run",
        "in all; --yes frees it",
    ]
    assert unknown.exists()
    assert left.exists()
    with locked(unknown / "lock"):  # somebody trains it
        assert "does not know" not in command("gc", tmp_path)[1]
    assert "freed" in command("gc", tmp_path, "--yes")[1]
    assert command("gc", tmp_path)[1] == "Everything is needed.\n"
    assert not unknown.exists()
    assert not left.exists()
    assert (tmp_path / ".mine").exists()
    kept = {file.parent.name for file in tmp_path.glob("*/last.ckpt")}
    assert kept == {spec(seed).id for seed in (0, 1, 2, 9)}
    command("gc", tmp_path, "--yes", "--checkpoints")
    kept = {file.parent.name for file in tmp_path.glob("*/last.ckpt")}
    assert kept == {spec(9).id}
    assert len(store.all()) == 4


def test_links_in_place_of_a_store_or_of_a_runs_folder_are_refused(tmp_path):
    store = filled(tmp_path / "runs", 1)
    (tmp_path / "elsewhere").mkdir()
    store.folder_of(spec(5)).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LabError, match="is a symbolic link"):
        store.begin(spec(5), {})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "runs.sqlite").symlink_to(store.file)
    with pytest.raises(LabError, match="is a symbolic link"):
        Store(tmp_path / "other")
    with warnings.catch_warnings(action="error"):
        assert [fault.what for fault in upkeep.check(tmp_path / "other")] == [
            "is damaged (it is a symbolic link)"
        ]
