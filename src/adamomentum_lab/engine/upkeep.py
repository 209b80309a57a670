"""A store that is checked, repaired, and freed of what is not needed."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from adamomentum_lab.engine.store import Store
from adamomentum_lab.engine.tables import TABLES, integrity
from adamomentum_lab.errors import LabError
from adamomentum_lab.files import BusyError, locked
from adamomentum_lab.selection import FAULTS
from adamomentum_lab.training.checkpoints import Checkpoints
from adamomentum_lab.words import count_noun

ENDED = ("done", "diverged")
_RUN = re.compile(r"[0-9a-f]{16}")
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}")
OLD = 3600.0
"""Seconds after which nobody writes to a temporary file any more."""


@dataclass(frozen=True)
class Fault:
    """Something that is damaged."""

    place: Path
    what: str


@dataclass(frozen=True)
class Spare:
    """Something that is not needed; a place of None is free space within the store."""

    why: str
    place: Path | None
    size: int


def check(folder: Path) -> list[Fault]:
    """What is damaged in a folder of results. Nothing is changed."""
    file = folder / "runs.sqlite"
    if not file.exists():
        raise LabError(f"there is no store of runs in {folder}.")
    found = [Fault(aside, "was set aside, since it is damaged") for aside in _set_aside(folder)]
    if fault := integrity(file):
        return [Fault(file, f"is damaged ({fault})"), *found]
    store = Store(folder)
    found += [Fault(file, f"run {name}: {why}") for name, why in store.faults().items()]
    for run in store.all():
        checkpoints = Checkpoints(store.folder_of(run.spec), run.spec.id)
        found += [Fault(place, why) for place, why in checkpoints.faults().items()]
    return found


def repair(folder: Path) -> list[str]:
    """Keep what is whole, and remove what is not. Returns what was done, a line each.

    Runs that are removed are run again when a race needs them. The damaged file is kept.
    """
    store = Store(folder)  # sets a damaged one aside
    said = []
    if faults := store.faults():
        store.remove(faults)
        said.append(f"Removed {count_noun(len(faults), 'damaged run')} from {store.file}.")
    for aside in _set_aside(folder):
        count = _take_over(aside, store)
        kept = aside.with_name(aside.name.replace("damaged", "repaired"))
        aside.rename(kept)
        said.append(f"Took over {count_noun(count, 'run')} from {aside}, which is now {kept}.")
    for run in store.all():
        checkpoints = Checkpoints(store.folder_of(run.spec), run.spec.id)
        for place, why in checkpoints.faults().items():
            with _at_rest(place.parent) as resting:
                if resting:
                    place.unlink(missing_ok=True)
                    said.append(f"Removed {place}: it {why}.")
    return said


def spare(folder: Path, checkpoints: bool = False) -> list[Spare]:
    """What is not needed in a folder of results.

    Args:
        folder: the folder of results.
        checkpoints: whether the last checkpoints of finished runs count too. Without them these
            runs cannot be continued by more epochs, nor their minima looked at.
    """
    store = Store(folder)
    runs = {run.spec.id: run for run in store.all()}
    found = [
        Spare("a damaged store whose whole runs were taken over", file, file.stat().st_size)
        for file in sorted(folder.glob("runs.sqlite.repaired-*"))
    ]
    if free := store.free_bytes():
        found.append(Spare("free space in the store", None, free))
    for place in _leftovers(folder):
        found.append(Spare("a temporary file of a process that was killed", place, _size(place)))
    for own in sorted(path for path in folder.iterdir() if _RUN.fullmatch(path.name)):
        if own.is_symlink() or not own.is_dir():
            continue
        with _at_rest(own) as resting:
            if not resting:
                continue
            if own.name not in runs:
                found.append(
                    Spare("the folder of a run that the store does not know", own, _size(own))
                )
            elif runs[own.name].status in ENDED:
                whole = Checkpoints(own, own.name)
                for file in (whole.previous, whole.last) if checkpoints else (whole.previous,):
                    if file.exists():
                        found.append(Spare("a checkpoint of a finished run", file, _size(file)))
    return found


def free(folder: Path, spares: list[Spare]) -> None:
    """Remove what is not needed."""
    for one in spares:
        if one.place is None:
            Store(folder).vacuum()
        elif one.place.is_dir() and not one.place.is_symlink():
            for inner in sorted(one.place.rglob("*"), reverse=True):
                inner.rmdir() if inner.is_dir() and not inner.is_symlink() else inner.unlink()
            one.place.rmdir()
        else:
            one.place.unlink(missing_ok=True)


def _size(place: Path) -> int:
    """Of a file, or of the files of a folder."""
    inside = place.rglob("*") if place.is_dir() and not place.is_symlink() else [place]
    return sum(file.lstat().st_size for file in inside)


def _leftovers(folder: Path) -> list[Path]:
    """Temporary files that nobody writes to any more."""
    old = time.time() - OLD
    found = []
    for pattern in (".*", "*/.*", "races/*/.*"):
        for place in folder.glob(pattern):
            with contextlib.suppress(OSError):
                named = _TEMPORARY.fullmatch(place.name)
                if named and place.is_file() and place.lstat().st_mtime < old:
                    found.append(place)
    return sorted(found)


@contextlib.contextmanager
def _at_rest(folder: Path) -> Iterator[bool]:
    """Whether nobody trains the run of a folder; meanwhile nobody can."""
    try:
        with locked(folder / "lock", "busy"):
            yield True
    except BusyError:
        yield False


def _set_aside(folder: Path) -> list[Path]:
    names = re.compile(r"runs\.sqlite\.damaged-\d+")
    return sorted(path for path in folder.iterdir() if names.fullmatch(path.name))


def _take_over(aside: Path, store: Store) -> int:
    """Copy the whole runs of a damaged database, and the looks, that the store does not have."""
    memory = sqlite3.connect(":memory:", isolation_level=None)
    with contextlib.closing(memory):
        salvaged = Store.over(memory, store.folder)
        with contextlib.closing(sqlite3.connect(aside)) as damaged:
            for table in TABLES:
                for order in ("ASC", "DESC"):  # up to the damage, from both ends
                    _copy_rows(damaged, memory, table, order)
        known = {run.spec.id: run for run in store.all()}
        count = 0
        for run in salvaged.all():
            mine = known.get(run.spec.id)
            useful = run.status in (*ENDED, "stopped", *FAULTS) and run.epochs
            if useful and (mine is None or mine.status in ("running", "damaged")):
                store.finish(run)
                count += 1
        store.copy_looks(memory)
    return count


def _copy_rows(
    damaged: sqlite3.Connection, whole: sqlite3.Connection, table: str, order: str
) -> None:
    with contextlib.suppress(sqlite3.Error):
        rows = damaged.execute(f"SELECT * FROM {table} ORDER BY rowid {order}")
        for row in rows:
            with contextlib.suppress(sqlite3.Error):
                places = ", ".join("?" * len(row))
                whole.execute(f"INSERT OR IGNORE INTO {table} VALUES ({places})", row)
