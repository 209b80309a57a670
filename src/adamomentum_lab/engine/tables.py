"""The tables of a store, and what tells whether they are whole."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import time
import warnings
from pathlib import Path

from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.files import Waits

VERSION = 1
"""Of the tables. Stores of version 0 have the first two of them, or some of the others."""
COLUMNS = {
    "runs": "id workload optimizer seed scale protocol spec status error machine updated",
    "epochs": "run epoch record seconds",
}
SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    id TEXT PRIMARY KEY, workload TEXT, optimizer TEXT, seed INTEGER, scale TEXT, protocol TEXT,
    spec TEXT NOT NULL, status TEXT NOT NULL, error TEXT, machine TEXT NOT NULL, updated REAL
) STRICT;
CREATE TABLE IF NOT EXISTS epochs (
    run TEXT NOT NULL REFERENCES runs (id), epoch INTEGER NOT NULL,
    record TEXT NOT NULL, seconds REAL NOT NULL, PRIMARY KEY (run, epoch)
) STRICT;
CREATE TABLE IF NOT EXISTS inputs (
    run TEXT PRIMARY KEY REFERENCES runs (id), digest TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS sums (
    run TEXT PRIMARY KEY REFERENCES runs (id), sum TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS parts (digest TEXT PRIMARY KEY, parts TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS looks (
    question TEXT NOT NULL, a TEXT NOT NULL, b TEXT NOT NULL, data TEXT NOT NULL,
    seeds INTEGER NOT NULL, level REAL NOT NULL, pairs INTEGER NOT NULL,
    PRIMARY KEY (question, a, b, data, seeds)
) STRICT;
"""
TABLES = ("runs", "epochs", "inputs", "sums", "parts", "looks")
NO_SPEC = "its specification is not that of its id"
KEYS = {"epochs": "run", "inputs": "run", "sums": "run", "runs": "id"}
PATIENCE = 60.0
"""Seconds that a write waits for those of other processes."""
FULL = ("disk is full", "disk I/O error")
DAMAGED = "database disk image is malformed"


def begin(db: sqlite3.Connection, kind: str, file: Path) -> None:
    """Begin a transaction; say so if another process keeps it waiting."""
    waits, end = Waits(warnings.warn), time.monotonic() + PATIENCE
    while True:
        try:
            db.execute(f"BEGIN {kind}")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
        waits.tell("", f"waiting for another process, which writes {file}")


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether a database is damaged, rather than locked, or the disk full."""
    return any(words in str(error) for words in (DAMAGED, "is not a database", "malformed"))


def integrity(file: Path) -> str | None:
    """What is damaged in a database; None if nothing is."""
    if file.is_symlink():
        return "it is a symbolic link"
    try:
        with contextlib.closing(sqlite3.connect(file, timeout=60)) as db:
            [[fault], *_] = db.execute("PRAGMA integrity_check(1)").fetchall()
    except sqlite3.DatabaseError as error:
        return str(error)
    return None if fault == "ok" else str(fault)


def read_spec(name: str, text: str) -> Spec | None:
    """The specification of a row, if it is that of its id."""
    try:
        spec = Spec.from_json(json.loads(text))
    except (ValueError, TypeError, AttributeError, KeyError):
        return None
    return spec if spec.id == name else None


def sum_of(status: str, machine: str, inputs: str | None, epochs: list[tuple[str, float]]) -> str:
    """A digest of what is stored of a run that has ended."""
    text = json.dumps([status, machine, inputs, epochs])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
