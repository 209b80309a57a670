"""Where runs are kept: one SQLite file, and one folder of checkpoints for each run."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from adamomentum_lab.engine.environment import Machine
from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.errors import LabError
from adamomentum_lab.selection import EpochRecord

_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    id TEXT PRIMARY KEY, workload TEXT, optimizer TEXT, seed INTEGER, scale TEXT, protocol TEXT,
    spec TEXT NOT NULL, status TEXT NOT NULL, error TEXT, machine TEXT NOT NULL, updated REAL
) STRICT;
CREATE TABLE IF NOT EXISTS epochs (
    run TEXT NOT NULL REFERENCES runs (id), epoch INTEGER NOT NULL,
    record TEXT NOT NULL, seconds REAL NOT NULL, PRIMARY KEY (run, epoch)
) STRICT;
"""


@dataclass
class Run:
    """What is known of a run."""

    spec: Spec
    status: str
    epochs: list[EpochRecord] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    machine: Machine = field(default_factory=Machine)
    error: str | None = None


class Store:
    """Runs in a folder. Several processes may use it at once; each write is whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if folder.exists() and not folder.is_dir():
            raise LabError(f"{folder} is a file; results need a folder.")
        with self._translate_errors():
            folder.mkdir(parents=True, exist_ok=True)
            # One thread uses it, but the garbage collector of another may close it.
            self._db = sqlite3.connect(
                folder / "runs.sqlite", timeout=60, isolation_level=None, check_same_thread=False
            )
            weakref.finalize(self, self._db.close)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.executescript(_SCHEMA)

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

    def count_outdated(self, specs: Iterable[Spec]) -> int:
        """How many of these runs are missing, but stored with other code of the same settings."""
        specs = list(specs)
        known = self.get_all(specs)
        wanted = {_without_code(spec) for spec in specs if spec.id not in known}
        runs = self.all() if wanted else ()
        return len({_without_code(run.spec) for run in runs} & wanted)

    def begin(self, spec: Spec, machine: Machine) -> None:
        """Note that a run is under way, and make its folder; its epochs so far are kept."""
        with self._transaction("IMMEDIATE") as db:
            self.folder_of(spec).mkdir(exist_ok=True)
            self._write_run(db, Run(spec, "running", machine=machine))

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

    def _runs(self, which: str, *values: Any) -> dict[str, Run]:
        """By their ids, all runs whose id is such; two queries, however many there are."""
        records: dict[str, list[str]] = {}
        seconds: dict[str, list[float]] = {}
        with self._transaction("DEFERRED") as db:  # both see the same
            rows = db.execute(
                "SELECT id, spec, status, error, machine FROM runs "
                f"WHERE id {which} ORDER BY updated",
                values,
            ).fetchall()
            for name, record, took in db.execute(
                f"SELECT run, record, seconds FROM epochs WHERE run {which} ORDER BY run, epoch",
                values,
            ):
                records.setdefault(name, []).append(record)
                seconds.setdefault(name, []).append(took)
        return {
            name: Run(
                Spec.from_json(json.loads(spec)),
                status,
                json.loads(f"[{','.join(records.get(name, ()))}]"),  # at once: half the time
                seconds.get(name, []),
                json.loads(machine),
                error,
            )
            for name, spec, status, error, machine in rows
        }

    def _write_run(self, db: sqlite3.Connection, run: Run) -> None:
        spec = run.spec
        row: list[Any] = [spec.id, spec.workload, spec.optimizer, spec.seed, spec.scale]
        row += [spec.protocol, json.dumps(spec.as_json()), run.status, run.error]
        row += [json.dumps(run.machine), time.time()]
        db.execute(
            f"INSERT INTO runs VALUES ({', '.join('?' * len(row))}) ON CONFLICT (id) DO UPDATE SET "
            "status = excluded.status, error = excluded.error, machine = excluded.machine, "
            "updated = excluded.updated",
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
            self._db.execute(f"BEGIN {kind}")
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
        except (OSError, sqlite3.Error) as error:
            raise LabError(
                f"cannot use the results folder {self.folder} ({error}); what was written before "
                "is kept. Free space there, or choose another with --runs."
            ) from error


def _without_code(spec: Spec) -> Spec:
    return replace(spec, code="", optimizer_code="")
