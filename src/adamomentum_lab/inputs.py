"""The files that a workload reads: noticed while it is imported and while it makes its data and its
network, and compared when a stored run is to be used again.

Python reports what it opens and lists to an audit hook. Files that a library opens without Python,
and those that are read later, as batches are loaded, are not noticed: a workload names them in
`reads`.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from adamomentum_lab.files import data_folder
from adamomentum_lab.identity import is_installed

LIMIT = 64 * 2**20
"""A larger file counts by its size and the time of its last change, not by its content."""
DATA = "$ADAMOMENTUM_DATA"
SYSTEM = ("/proc/", "/sys/", "/dev/", "/etc/", "/usr/lib/")
Prints = Mapping[str, str]
"""By name, a fingerprint of each file."""


class Inputs:
    """What a workload has read in this process so far."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.prints: dict[str, str] = {}
        """By name; as the files were when they were last opened."""
        self.opened: set[str] = set()
        self.listed: set[str] = set()
        self.written: set[str] = set()

    def settle(self, ignored: Path | None = None) -> None:
        """Take the fingerprints of what was opened since the last time."""
        skipped = () if ignored is None else (os.path.join(os.path.abspath(ignored), ""),)
        for path in self.opened - self.written:
            if _counts(path, skipped) and (found := _print_file(path)):
                self.prints[name_of(path, self.base)] = found
        kinds = {os.path.splitext(name)[1] for name in self.prints} - {".py"}
        for path in self.listed:
            if _counts(os.path.join(path, ""), skipped):
                name = os.path.normpath(os.path.join(name_of(path, self.base), "*"))
                for kind in kinds:
                    self.prints[name + kind] = _print_names(path, kind)
        self.opened.clear()
        self.listed.clear()


_inputs: dict[str, Inputs] = {}
_active: list[Inputs] = []


def inputs_of(code: str, file: Path) -> Inputs:
    """What the workload with this digest of its code, in a file, has read in this process: also in
    earlier runs, as modules are imported once, and a workload may keep what it has read."""
    return _inputs.setdefault(f"{code} {file}", Inputs(file.parent))


@contextlib.contextmanager
def noticing(inputs: Inputs, ignored: Path | None = None) -> Iterator[None]:
    """Notice what is opened meanwhile, in any thread, but for a folder that is the lab's own."""
    _add_hook()
    _active.append(inputs)
    try:
        yield
    finally:
        _active.remove(inputs)
        inputs.settle(ignored)


@functools.cache
def _add_hook() -> None:
    sys.addaudithook(_hear)  # for the rest of the process: it cannot be removed


def _hear(event: str, args: tuple[Any, ...]) -> None:
    if not _active or event not in ("open", "os.listdir", "os.scandir"):
        return
    try:
        path = os.path.abspath(os.fsdecode(args[0] if args[0] is not None else os.curdir))
        importing = sys._getframe(1).f_code.co_filename.startswith("<frozen ")
    except (TypeError, ValueError, OSError):  # a descriptor, or what cannot be opened either
        return
    for inputs in _active:
        if event != "open":
            if not importing:
                inputs.listed.add(path)
        elif _is_write(args[1], args[2]):
            inputs.written.add(path)
        else:
            inputs.opened.add(_source_of(path) if importing else path)


def _is_write(mode: str | None, flags: int) -> bool:
    if mode is not None:
        return any(letter in mode for letter in "wxa")
    return flags & os.O_ACCMODE == os.O_WRONLY or bool(flags & os.O_TRUNC)


def _source_of(path: str) -> str:
    """Of a compiled module, the file that it was compiled from."""
    try:
        return importlib.util.source_from_cache(path) if path.endswith(".pyc") else path
    except ValueError:
        return path


def _counts(path: str, skipped: tuple[str, ...]) -> bool:
    own = os.path.join(os.path.dirname(__file__), "")
    return not path.startswith((*SYSTEM, *skipped, own)) and not is_installed(path)


def name_of(path: str, base: Path) -> str:
    """A name that stays if the user's folder or the data folder moves."""
    for place, prefix in ((str(base), ""), (str(data_folder()), DATA)):
        for root in {os.path.abspath(place), os.path.realpath(place)}:
            if path == root or path.startswith(os.path.join(root, "")):
                return os.path.join(prefix, os.path.relpath(path, root))
    return path


def path_of(name: str, base: Path) -> Path:
    """The inverse of `name_of`."""
    first, _, rest = name.partition(os.sep)
    return data_folder() / rest if first == DATA else base / name


def print_declared(names: Iterable[str | Path], base: Path) -> Prints:
    """Fingerprints of the files and folders that a workload names, relative to its own file."""
    found = {}
    for name in names:
        path = os.path.abspath(path_of(str(name), base))
        found[name_of(path, base)] = (_print_tree if os.path.isdir(path) else _print_file)(path)
    return found


def changed_inputs(prints: Prints, base: Path) -> list[str]:
    """The names of those that are no longer what they were."""
    return [name for name, known in prints.items() if _print(name, base) != known]


def is_missing(name: str, base: Path) -> bool:
    """Whether a file of this name is not on this machine."""
    path = path_of(name, base)
    return not os.path.lexists(path.parent if path.name.startswith("*") else path)


def _print(name: str, base: Path) -> str:
    path = path_of(name, base)
    if path.name.startswith("*"):
        return _print_names(str(path.parent), path.name[1:])
    return (_print_tree if path.is_dir() else _print_file)(str(path))


def _print_file(path: str) -> str:
    """Empty, if there is no such file."""
    try:
        there = os.stat(path)
        if not stat.S_ISREG(there.st_mode):
            return ""
        if there.st_size > LIMIT:
            return f"{there.st_size} bytes of {there.st_mtime_ns}"
        return _digest(path, there.st_size, there.st_mtime_ns, there.st_ino)
    except OSError:
        return ""


@functools.lru_cache(1 << 16)
def _digest(path: str, *_: int) -> str:
    """Of the content, which is read again once the file has another size, time or number."""
    digest = hashlib.sha256()
    with open(path, "rb") as content:
        while block := content.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()[:16]


def _print_names(folder: str, kind: str) -> str:
    """Of the names of the files of one kind in a folder."""
    try:
        names = sorted(name for name in os.listdir(folder) if os.path.splitext(name)[1] == kind)
    except OSError:
        return ""
    return hashlib.sha256("\0".join(names).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _print_tree(folder: str) -> str:
    """Of all files below a folder, but for hidden ones, compiled modules and stores of runs."""
    lines, size = [], 0
    for place, folders, names in os.walk(folder):
        if "runs.sqlite" in names:
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if name[0] != "." and name != "__pycache__")
        for name in sorted(name for name in names if name[0] != "."):
            path = os.path.join(place, name)
            with contextlib.suppress(OSError):
                there = os.stat(path)
                size += there.st_size
                lines.append((path, there.st_size, there.st_mtime_ns))
    parts = [
        f"{os.path.relpath(path, folder)} "
        + (_print_file(path) if size <= LIMIT else f"{length} bytes of {time}")
        for path, length, time in lines
    ]
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:16]
