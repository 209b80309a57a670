"""Where runs are kept: one SQLite file, and one folder of checkpoints for each run."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sqlite3
import time
import warnings
import weakref
from collections.abc import Collection, Iterable, Iterator
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

from adamomentum_lab.engine.environment import Machine
from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.engine.tables import (
    COLUMNS,
    DAMAGED,
    FULL,
    KEYS,
    NO_SPEC,
    SCHEMA,
    VERSION,
    begin,
    is_damage,
    read_spec,
    sum_of,
)
from adamomentum_lab.errors import DiskError, LabError, fault_of, printable
from adamomentum_lab.identity import Parts, digest_of
from adamomentum_lab.selection import EpochRecord


@dataclass(frozen=True)
class StoredLook:
    """A look at the results of a pair: what it spent of the error rate that a question may cost."""

    a: str
    b: str
    data: str
    """Looks at the same data are one look."""
    seeds: int
    level: float
    pairs: int
    """How many pairs shared the level."""

    @property
    def names(self) -> tuple[str, str]:
        """The pair, in alphabetical order."""
        return self.a, self.b


@dataclass
class Run:
    """What is known of a run."""

    spec: Spec
    status: str
    epochs: list[EpochRecord] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    machine: Machine = field(default_factory=Machine)
    error: str | None = None
    inputs: Parts | None = None
    """The files that it read, by name; None of a run that is under way."""


@dataclass(frozen=True)
class StoredRun:
    """A run that has ended, without what was measured."""

    spec: Spec
    inputs: Parts


class Store:
    """Runs in a folder. Several processes may use it at once; each write is whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if folder.exists() and not folder.is_dir():
            raise LabError(f"{folder} is a file; results need a folder.")
        with self._translate_errors():
            folder.mkdir(parents=True, exist_ok=True)
            if self.file.is_symlink():
                raise LabError(f"{self.file} is a symbolic link; choose its folder with --runs.")
            try:
                self._db = self._open()
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
                self._set_aside(error)
                self._db = self._open()
            weakref.finalize(self, self._db.close)

    @classmethod
    def over(cls, db: sqlite3.Connection, folder: Path) -> Store:
        """A store in an empty database that is open already."""
        db.executescript(SCHEMA)
        made = cls.__new__(cls)
        made.folder, made._db = folder, db
        return made

    @property
    def file(self) -> Path:
        """The database."""
        return self.folder / "runs.sqlite"

    def _open(self) -> sqlite3.Connection:
        # One thread uses it, but the garbage collector of another may close it.
        db = sqlite3.connect(self.file, timeout=60, isolation_level=None, check_same_thread=False)
        try:
            [[version]] = db.execute("PRAGMA user_version").fetchall()
            if version > VERSION:
                raise LabError(
                    f"{self.file} was written by a newer adamomentum; update this one, or choose "
                    "another folder with --runs."
                )
            [[fault], *_] = db.execute("PRAGMA quick_check(1)").fetchall()
            if fault != "ok":
                raise sqlite3.DatabaseError(DAMAGED)
            for table, columns in COLUMNS.items():
                found = [name for _, name, *_ in db.execute(f"PRAGMA table_info({table})")]
                if found and found != columns.split():
                    raise LabError(
                        f"{self.file} is no store of adamomentum: its table {table} has other "
                        "columns. Choose another folder with --runs."
                    )
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.executescript(SCHEMA)
            if version < VERSION:
                db.execute(f"PRAGMA user_version = {VERSION}")
            db.execute("PRAGMA busy_timeout = 1000")  # see `begin`
        except BaseException:
            db.close()
            raise
        return db

    def _set_aside(self, error: Exception) -> None:
        """Give a damaged database another name, with what belongs to it."""
        names = (self.file.with_name(f"runs.sqlite.damaged-{i}") for i in itertools.count(1))
        aside = next(name for name in names if not name.exists())
        for end in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.rename(f"{self.file}{end}", f"{aside}{end}")
        warnings.warn(
            f"{self.file} is damaged ({error}): it is now {aside}, and a new store is begun. "
            "Finished races are still read from their race.json",
            stacklevel=4,
        )

    def folder_of(self, spec: Spec) -> Path:
        """The run's own folder; it is there once the run was begun."""
        return self.folder / spec.id

    def get(self, spec: Spec) -> Run | None:
        """The run of this specification, if it was ever begun."""
        return self.get_all([spec]).get(spec.id)

    def get_all(self, specs: Iterable[Spec]) -> dict[str, Run]:
        """By their ids, the runs of these specifications that were ever begun, in their order."""
        ids = [spec.id for spec in specs]
        runs = self._runs("IN (SELECT value FROM json_each(?))", json.dumps(ids))
        return {name: runs[name] for name in ids if name in runs}

    def all(self) -> list[Run]:
        """Every run, in the order of their last change."""
        return list(self._runs("IS NOT NULL").values())

    def ended(self, workload: str, scale: str, protocol: str) -> list[StoredRun]:
        """The runs of a workload that have ended without fault, in the order of their ends."""
        with self._transaction("DEFERRED") as db:
            rows = db.execute(
                "SELECT id, spec, digest FROM runs LEFT JOIN inputs ON run = id WHERE workload = ? "
                "AND scale = ? AND protocol = ? AND status IN ('done', 'diverged', 'stopped') "
                "ORDER BY updated",
                (printable(workload), scale, protocol),
            ).fetchall()
            parts = self._read_parts(db, {row[-1] for row in rows if row[-1]})
        specs = [(read_spec(name, text), digest) for name, text, digest in rows]
        return [StoredRun(spec, parts.get(digest, {})) for spec, digest in specs if spec]

    def add_parts(self, all_parts: Iterable[Parts]) -> None:
        """Note what digests of code stand for."""
        with self._transaction("IMMEDIATE") as db:
            for parts in all_parts:
                self._write_parts(db, parts)

    def parts(self, digest: str) -> Parts | None:
        """What a digest stands for, if that is known."""
        with self._transaction("DEFERRED") as db:
            return self._read_parts(db, [digest]).get(digest)

    def begin(self, spec: Spec, machine: Machine, anew: bool = False) -> None:
        """Note that a run is under way, and make its folder; its epochs so far are kept, but if it
        is begun anew."""
        with self._transaction("IMMEDIATE") as db:
            if self.folder_of(spec).is_symlink():
                raise LabError(f"{self.folder_of(spec)} is a symbolic link; remove it.")
            self.folder_of(spec).mkdir(exist_ok=True)
            self._write_run(db, Run(spec, "running", machine=machine))
            for table in ("epochs", "inputs", "sums") if anew else ("sums",):
                db.execute(f"DELETE FROM {table} WHERE run = ?", (spec.id,))

    def epoch(self, spec: Spec, record: EpochRecord, seconds: float) -> None:
        """Note an epoch."""
        with self._transaction("IMMEDIATE") as db:
            self._write_epochs(db, spec, [(record, seconds)])

    def finish(self, run: Run) -> None:
        """Note how a run ended, with all its epochs."""
        with self._transaction("IMMEDIATE") as db:
            self._write_run(db, run)
            db.execute("DELETE FROM epochs WHERE run = ?", (run.spec.id,))
            self._write_epochs(db, run.spec, zip(run.epochs, run.seconds, strict=True))
            digest = None
            if run.inputs is not None:
                digest = self._write_parts(db, run.inputs)
                db.execute("INSERT OR REPLACE INTO inputs VALUES (?, ?)", (run.spec.id, digest))
            else:
                db.execute("DELETE FROM inputs WHERE run = ?", (run.spec.id,))
            rows = db.execute(
                "SELECT record, seconds FROM epochs WHERE run = ? ORDER BY epoch", (run.spec.id,)
            )
            total = sum_of(run.status, json.dumps(run.machine), digest, rows.fetchall())
            db.execute("INSERT OR REPLACE INTO sums VALUES (?, ?)", (run.spec.id, total))

    def faults(self) -> dict[str, str]:
        """By the id of each run whose rows cannot be used, why."""
        with self._transaction("DEFERRED") as db:
            names = [name for (name,) in db.execute("SELECT id FROM runs ORDER BY updated")]
        runs = self._runs("IS NOT NULL")
        found = {name: runs[name].error if name in runs else NO_SPEC for name in names}
        damaged = (name for name in names if name not in runs or runs[name].status == "damaged")
        return {name: found[name] or "" for name in damaged}

    def remove(self, names: Iterable[str]) -> None:
        """Forget runs, by their ids. Their folders stay."""
        with self._transaction("IMMEDIATE") as db:
            for name in names:
                for table, key in KEYS.items():
                    db.execute(f"DELETE FROM {table} WHERE {key} = ?", (name,))

    def free_bytes(self) -> int:
        """How much of the file is empty."""
        with self._translate_errors():
            [[pages]] = self._db.execute("PRAGMA freelist_count").fetchall()
            [[size]] = self._db.execute("PRAGMA page_size").fetchall()
        return int(pages * size)

    def vacuum(self) -> None:
        """Give free space back to the disk."""
        with self._translate_errors():
            self._db.execute("VACUUM")

    def copy_looks(self, other: sqlite3.Connection) -> None:
        """Note the looks of another database too."""
        rows = other.execute("SELECT * FROM looks").fetchall()
        with self._transaction("IMMEDIATE") as db:
            db.executemany("INSERT OR IGNORE INTO looks VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def looks(self, question: str) -> list[StoredLook]:
        """All looks at a question."""
        with self._transaction("DEFERRED") as db:
            rows = db.execute(
                "SELECT a, b, data, seeds, level, pairs FROM looks WHERE question = ?", (question,)
            ).fetchall()
        return [StoredLook(*row) for row in rows]

    def questions(self) -> list[str]:
        """What was looked at."""
        with self._transaction("DEFERRED") as db:
            return [one for (one,) in db.execute("SELECT DISTINCT question FROM looks").fetchall()]

    def add_looks(self, question: str, looks: Iterable[StoredLook]) -> None:
        """Note looks; those that are known already stay as they were."""
        rows = [(question, *astuple(one)) for one in looks]
        with self._transaction("IMMEDIATE") as db:
            db.executemany("INSERT OR IGNORE INTO looks VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def _runs(self, which: str, *values: Any) -> dict[str, Run]:
        """By their ids, all runs whose id is such; two queries, however many there are."""
        epochs: dict[str, list[tuple[str, float]]] = {}
        with self._transaction("DEFERRED") as db:  # both see the same
            rows = db.execute(
                "SELECT id, spec, status, error, machine, digest, sum FROM runs "
                "LEFT JOIN inputs ON inputs.run = id LEFT JOIN sums ON sums.run = id "
                f"WHERE id {which} ORDER BY updated",
                values,
            ).fetchall()
            parts = self._read_parts(db, {row[5] for row in rows if row[5]})
            for name, record, took in db.execute(
                f"SELECT run, record, seconds FROM epochs WHERE run {which} ORDER BY run, epoch",
                values,
            ):
                epochs.setdefault(name, []).append((record, took))
        runs = {}
        for name, text, status, error, machine, digest, total in rows:
            if (spec := read_spec(name, text)) is None:
                continue
            mine = epochs.get(name, [])
            whole = not total or total == sum_of(status, machine, digest, mine)
            runs[name] = Run(spec, "damaged", error="its rows in the store were changed")
            if not whole or not (digest is None or digest in parts):
                continue
            with contextlib.suppress(ValueError, TypeError, KeyError):  # rows without a sum
                records = json.loads(f"[{','.join(one for one, _ in mine)}]")  # half the time
                made: Machine = json.loads(machine)
                numbers = [record["epoch"] for record in records]
                if isinstance(made, dict) and numbers == [*range(1, len(mine) + 1)]:
                    seconds, read = [took for _, took in mine], parts.get(digest)
                    runs[name] = Run(spec, status, records, seconds, made, error, read)
        return runs

    def _read_parts(self, db: sqlite3.Connection, digests: Collection[str]) -> dict[str, Parts]:
        if not digests:
            return {}
        rows = db.execute(
            "SELECT digest, parts FROM parts WHERE digest IN (SELECT value FROM json_each(?))",
            (json.dumps([*digests]),),
        )
        found = {}
        for digest, text in rows:
            with contextlib.suppress(ValueError, AttributeError):
                parts = json.loads(text)
                if digest_of(parts) == digest:
                    found[digest] = parts
        return found

    def _write_parts(self, db: sqlite3.Connection, parts: Parts) -> str:
        digest = digest_of(parts)
        db.execute("INSERT OR IGNORE INTO parts VALUES (?, ?)", (digest, json.dumps(parts)))
        return digest

    def _write_run(self, db: sqlite3.Connection, run: Run) -> None:
        spec = run.spec
        row: list[Any] = [spec.id, printable(spec.workload), spec.optimizer, spec.seed, spec.scale]
        row += [spec.protocol, json.dumps(spec.as_json()), run.status]
        row.append(None if run.error is None else printable(run.error))
        row += [json.dumps(run.machine), time.time()]
        db.execute(
            f"INSERT INTO runs VALUES ({', '.join('?' * len(row))}) ON CONFLICT (id) DO UPDATE SET "
            "spec = excluded.spec, status = excluded.status, error = excluded.error, "
            "machine = excluded.machine, updated = excluded.updated",
            row,
        )

    def _write_epochs(
        self, db: sqlite3.Connection, spec: Spec, epochs: Iterable[tuple[EpochRecord, float]]
    ) -> None:
        rows = [(spec.id, record["epoch"], json.dumps(record), took) for record, took in epochs]
        db.executemany("INSERT OR REPLACE INTO epochs VALUES (?, ?, ?, ?)", rows)

    @contextlib.contextmanager
    def _transaction(self, kind: str) -> Iterator[sqlite3.Connection]:
        with self._translate_errors():
            begin(self._db, kind, self.file)
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Faults of the disk as one sentence."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise self._fault(error) from error
            raise LabError(
                f"{self.file} is damaged ({error}). Run the command again: it will be set aside "
                "under another name, and a new store begun."
            ) from error
        except (OSError, sqlite3.Error) as error:
            raise self._fault(error) from error

    def _fault(self, error: Exception) -> LabError:
        kind = DiskError if any(words in str(error) for words in FULL) else fault_of(error)
        advice = "Free space there" if kind is DiskError else "Make it writable"
        return kind(
            f"cannot use the results folder {self.folder} ({error}); what was written before "
            f"is kept. {advice}, or choose another with --runs."
        )
