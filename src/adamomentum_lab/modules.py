"""Import users' files as modules, in this process and in those it starts."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from adamomentum_lab.errors import LabError, locate

PREFIX = "_workload_"
"""Prefix of the module names of users' files, so that they hide no installed module."""
_added: dict[str, str] = {}
"""Folders that users' files have put into sys.path, and the modules that these files are."""
_before: set[str] = set()
"""The modules that were imported before the user's file was."""


def own_path() -> list[str]:
    """Return sys.path without the folders that users' files have added.

    What a file reaches by its imports must not depend on whether it was imported before.
    """
    return [folder for folder in sys.path if folder not in _added]


def import_file(name: str, file: Path) -> ModuleType:
    """Import a user's file. It can import modules from its own folder, as a script can."""
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise LabError(f"{file} is not a Python file; its name must end in .py.")
    path = [*sys.path]
    if not _before:
        _before.update(sys.modules)
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _without_exit():
            spec.loader.exec_module(module)
    except SystemExit as error:
        del sys.modules[name]
        raise locate(error, file) from error
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        _added.update((folder, name) for folder in sys.path if folder not in path)
    return module


@contextlib.contextmanager
def _without_exit() -> Iterator[None]:
    """Have `os._exit` raise SystemExit: no file that is imported ends a race in silence."""

    def leave(status: int) -> NoReturn:
        if os.getpid() != process:
            end(status)
        raise SystemExit(status)

    process, end = os.getpid(), os._exit
    os._exit = leave
    try:
        yield
    finally:
        os._exit = end


def forget_workloads() -> None:
    """Forget the modules that came with workloads' files, and where they were found.

    They may have changed, or another file may have neighbours of the same names.
    """
    gone = {folder for folder, name in _added.items() if name.startswith(PREFIX)}
    folders = tuple(os.path.join(folder, "") for folder in gone)
    for name in {*sys.modules} - _before if folders else ():
        file = getattr(sys.modules[name], "__file__", None)
        if file and file.startswith(folders) and not name.startswith((PREFIX, "_contender_")):
            del sys.modules[name]
    sys.path[:] = [folder for folder in sys.path if folder not in gone]
    for folder in gone:
        del _added[folder]
    importlib.invalidate_caches()


def import_files(files: Mapping[str, Path]) -> None:
    """Import the users' files that another process has imported."""
    for name, file in files.items():
        import_file(name, file)


def imported_files() -> dict[str, Path]:
    """Return the users' files that this process has imported, by module name."""
    files = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
    return {name: Path(file) for name, file in files.items() if file and name.startswith(PREFIX)}
