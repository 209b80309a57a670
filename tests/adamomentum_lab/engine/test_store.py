"""The run store: nothing lost, nothing half written, faults told in a sentence."""

import contextlib
import json
import multiprocessing
import resource
import sqlite3
import subprocess
import sys

import pytest

from adamomentum_lab.engine import tables
from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.engine.store import Run, Store
from adamomentum_lab.errors import LabError, printable
from adamomentum_lab.files import Waits


def spec(seed=0, **more):
    settings = {"lr": 1e-3, "betas": [0.9, 0.999]}
    given = {"workload": "w", "code": "c", "optimizer": "adam", "scale": "mini"}
    return Spec.of(settings, **{**given, "protocol": "fair", "seed": seed, **more})


def record(epoch):
    return {"epoch": epoch, "train": {"loss": 1 / epoch}, "validation": {"accuracy": 90.0}}


def test_a_specification_is_its_hash():
    one = spec()
    assert one == spec()
    assert hash(one) == hash(spec())
    assert one.id == Spec.from_json(one.as_json()).id == spec().id
    assert one.as_json()["settings"] == {"betas": [0.9, 0.999], "lr": 1e-3}
    others = [spec(seed=1), spec(code="d"), spec(scale="full"), spec(precision="bf16-mixed")]
    assert len({s.id for s in [one, *others]}) == 5
    rest = {key: value for key, value in one.as_json().items() if key != "settings"}
    assert (
        Spec.of({"lr": 1, "betas": (0, 1)}, **rest).id
        == Spec.of({"betas": [0.0, 1.0], "lr": 1.0}, **rest).id
    )
    # Known once and for all, or finished runs would be repeated by every new version.
    assert one.id == "05998b314c7696df"


def test_what_was_written_is_read(tmp_path):
    store = Store(tmp_path)
    assert store.get(spec()) is None
    store.begin(spec(), {"threads": 1})
    store.epoch(spec(), record(1), 0.5)
    store.epoch(spec(), record(2), 0.6)
    run = Store(tmp_path).get(spec())
    assert (run.status, run.seconds) == ("running", [0.5, 0.6])
    assert run.epochs == [record(1), record(2)]
    store.finish(Run(spec(), "done", [record(1)], [0.7], {"threads": 2}))
    store.finish(Run(spec(1), "failed", error="why"))
    run = Store(tmp_path).get(spec())
    assert (run.spec, run.status, run.epochs) == (spec(), "done", [record(1)])
    assert run.machine == {"threads": 2}
    assert [run.error for run in store.all()] == [None, "why"]


def test_many_runs_are_read_at_once(tmp_path):
    store = Store(tmp_path)
    for seed in range(30):
        store.finish(Run(spec(seed), "done", [record(1), record(2)], [0.1, 0.2], {"by": seed}))
    asked = []
    store._db.set_trace_callback(asked.append)
    runs = store.get_all(spec(seed) for seed in (40, 7, 3, 7))
    assert list(runs) == [spec(7).id, spec(3).id]
    assert [run.machine for run in runs.values()] == [{"by": 7}, {"by": 3}]
    assert runs[spec(7).id] == store.get(spec(7))
    assert [run.spec.seed for run in store.all()] == list(range(30))
    # However many there are: two for each of three calls, and a transaction about them.
    assert [sum(text.startswith(word) for text in asked) for word in ("SELECT", "BEGIN")] == [6, 3]
    assert store.get_all([]) == {}


def test_reading_makes_no_folder(tmp_path):
    store = Store(tmp_path)
    store.folder_of(spec())
    assert not store.folder_of(spec()).exists()
    store.begin(spec(), {})
    assert store.folder_of(spec()).is_dir()


def _fill(folder, first):
    store = Store(folder)
    for seed in range(first, first + 20):
        store.begin(spec(seed), {})
        for epoch in range(1, 6):
            store.epoch(spec(seed), record(epoch), 0.1)
        store.finish(
            Run(spec(seed), "done", [record(e) for e in range(1, 6)], [0.1] * 5, {"by": first})
        )


def test_several_processes_share_it(tmp_path):
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_fill, args=(tmp_path, n)) for n in (0, 10, 100)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    runs = Store(tmp_path).all()
    assert len(runs) == 50
    assert all(run.status == "done" and len(run.epochs) == 5 for run in runs)


def test_a_write_is_whole_or_not_at_all(tmp_path):
    store = Store(tmp_path)
    store.finish(Run(spec(), "done", [record(1), record(2)], [0.1, 0.1]))
    with pytest.raises(TypeError):
        store.finish(Run(spec(), "done", [record(1), {"epoch": 2, "bad": object()}], [1.0, 1.0]))
    run = store.get(spec())
    assert run.epochs == [record(1), record(2)]
    store.finish(Run(spec(1), "done"))  # and the store is usable


def test_a_folder_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match=r"file is a file; results need a folder"):
        Store(tmp_path / "file")
    with pytest.raises(LabError, match="Not a directory"):
        Store(tmp_path / "file" / "inside")


FULL = """
import resource, signal, sys
from pathlib import Path
from adamomentum_lab.errors import LabError, printable
from adamomentum_lab.files import Waits
from adamomentum_lab.engine.store import Run, Store
from tests.adamomentum_lab.engine.test_store import record, spec

store = Store(Path(sys.argv[1]))
store.finish(Run(spec(), "done", [record(1)], [0.1]))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))  # as a disk that is full
try:
    for seed in range(1, 10_000):
        store.finish(Run(spec(seed), "done", [record(e) for e in range(1, 30)], [0.1] * 29))
except LabError as error:
    print(error)
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="needs limits of file sizes")
def test_a_full_disk_leaves_a_readable_store(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert "cannot use the results folder" in done.stdout
    assert len(done.stdout.splitlines()) == 1
    store = Store(tmp_path)
    assert store.get(spec()).status == "done"
    runs = store.all()
    assert len(runs) > 1
    assert all(len(run.epochs) in (1, 29) for run in runs)
    with contextlib.closing(sqlite3.connect(tmp_path / "runs.sqlite")) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_the_database_is_closed_with_the_store(tmp_path):
    store = Store(tmp_path)
    db = store._db
    del store
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        db.execute("SELECT 1")


def full_store(folder, runs=200):
    store = Store(folder)
    for seed in range(runs):
        epochs = [record(epoch) for epoch in range(1, 6)]
        store.finish(Run(spec(seed), "done", epochs, [0.1] * 5, {"threads": 1}))
    store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store._db.close()
    return folder / "runs.sqlite"


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"this is no database, whatever its name says" * 100,
        lambda content: bytes(len(content)),
        lambda content: content[: len(content) // 2],
        lambda content: content[:5000] + bytes(20_000) + content[25_000:],
    ],
)
def test_a_damaged_store_is_set_aside_and_not_overwritten(tmp_path, damage):
    file = full_store(tmp_path)
    content = damage(file.read_bytes())
    file.write_bytes(content)
    with pytest.warns(UserWarning, match=r"runs\.sqlite is damaged .*runs\.sqlite\.damaged-1"):
        store = Store(tmp_path)
    assert (tmp_path / "runs.sqlite.damaged-1").read_bytes() == content
    assert store.all() == []
    store.finish(Run(spec(), "done", [record(1)], [0.1]))
    assert Store(tmp_path).get(spec()).status == "done"
    store._db.close()
    file.write_bytes(content)
    with pytest.warns(UserWarning, match=r"damaged-2"):
        Store(tmp_path)


def change(file, words, *values):
    with contextlib.closing(sqlite3.connect(file)) as db, db:
        assert db.execute(words, values).rowcount == 1


FLIPPED = json.dumps({**record(3), "validation": {"accuracy": 91.0}})


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("DELETE FROM epochs WHERE run = ? AND epoch = 3", ()),
        ("UPDATE epochs SET record = ?2 WHERE run = ?1 AND epoch = 3", (FLIPPED,)),
        ("UPDATE epochs SET record = ?2 WHERE run = ?1 AND epoch = 3", ('{"epoch": 3',)),
        ("UPDATE epochs SET record = ?2 WHERE run = ?1 AND epoch = 3", ("7], [1",)),
        ("UPDATE runs SET status = 'diverged' WHERE id = ?", ()),
        ("UPDATE runs SET machine = '{' WHERE id = ?", ()),
    ],
)
def test_a_changed_row_is_noticed(tmp_path, words, values):
    file = full_store(tmp_path, 3)
    change(file, words, spec(1).id, *values)
    store = Store(tmp_path)
    assert store.get(spec(1)).status == "damaged"
    assert [run.status for run in store.all()] == ["done", "damaged", "done"]
    assert store.get(spec(2)).epochs == [record(epoch) for epoch in range(1, 6)]
    store.finish(Run(spec(1), "done", [record(1)], [0.1]))
    assert store.get(spec(1)).status == "done"


@pytest.mark.parametrize("text", ["{", "[]", "{}", json.dumps(spec(7).as_json())])
def test_a_row_whose_specification_is_another_counts_as_missing(tmp_path, text):
    file = full_store(tmp_path, 3)
    change(file, "UPDATE runs SET spec = ?2 WHERE id = ?1", spec(1).id, text)
    store = Store(tmp_path)
    assert store.get(spec(1)) is None
    assert len(store.all()) == len(store.ended("w", "mini", "fair")) == 2
    store.finish(Run(spec(1), "done", [record(1)], [0.1]))
    assert store.get(spec(1)).spec == spec(1)


def test_a_store_of_a_newer_version_is_refused_and_left_alone(tmp_path):
    file = full_store(tmp_path, 1)
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA user_version = 1000")
    before = file.read_bytes()
    with pytest.raises(LabError, match=r"written by a newer adamomentum.*--runs"):
        Store(tmp_path)
    assert file.read_bytes() == before


def test_a_store_with_other_tables_is_refused(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "runs.sqlite")) as db, db:
        db.execute("CREATE TABLE runs (name TEXT)")
    with pytest.raises(LabError, match=r"runs\.sqlite is no store of adamomentum.*--runs"):
        Store(tmp_path)


def test_a_store_of_version_0_1_is_read(tmp_path):
    """It had these two tables, and no number."""
    with contextlib.closing(sqlite3.connect(tmp_path / "runs.sqlite")) as db, db:
        db.executescript(
            "CREATE TABLE runs (id TEXT PRIMARY KEY, workload TEXT, optimizer TEXT, seed INTEGER, "
            "scale TEXT, protocol TEXT, spec TEXT NOT NULL, status TEXT NOT NULL, error TEXT, "
            "machine TEXT NOT NULL, updated REAL) STRICT; CREATE TABLE epochs (run TEXT NOT NULL, "
            "epoch INTEGER NOT NULL, record TEXT NOT NULL, seconds REAL NOT NULL, "
            "PRIMARY KEY (run, epoch)) STRICT;"
        )
        row = (spec().id, "w", "adam", 0, "mini", "fair", json.dumps(spec().as_json()))
        db.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, 'done', NULL, '{}', 1.0)", row)
        db.execute("INSERT INTO epochs VALUES (?, 1, ?, 0.5)", (spec().id, json.dumps(record(1))))
    run = Store(tmp_path).get(spec())
    assert (run.status, run.epochs) == ("done", [record(1)])


def test_text_that_cannot_be_encoded_is_kept_readable(tmp_path):
    store = Store(tmp_path)
    store.finish(Run(spec(workload="caf\udce9"), "failed", error="lone \ud800 surrogate"))
    [run] = store.all()
    assert run.error == "lone \\ud800 surrogate"


def test_a_write_that_waits_for_another_process_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "PATIENCE", 3.5)
    monkeypatch.setattr(Waits, "AFTER", 0.5)
    store = Store(tmp_path)
    with contextlib.closing(sqlite3.connect(store.file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with (
            pytest.warns(UserWarning, match="waiting for another process, which writes"),
            pytest.raises(LabError, match="database is locked"),
        ):
            store.finish(Run(spec(), "done"))
        other.execute("COMMIT")
    store.finish(Run(spec(), "done"))


def test_control_characters_in_messages_are_shown_not_obeyed():
    assert printable("a\x1b[2J\x07\x9b b\tc\nd \x7f é 😀 \ud800\u200b") == (
        "a\\x1b[2J\\x07\\x9b b\tc\nd \\x7f é 😀 \\ud800\u200b"
    )
