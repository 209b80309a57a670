"""Users' files as Python modules, in this process and in those that it starts."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from adamomentum_lab.errors import LabError

PREFIX = "_workload_"
"""Begins the names of modules that are users' files, so that they hide no installed module."""


def import_file(name: str, file: Path) -> ModuleType:
    """Import a user's file, which finds its neighbours as a script does."""
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise LabError(f"{file} is not a Python file; its name must end in .py.")
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def import_files(files: Mapping[str, Path]) -> None:
    """Import users' files that another process has imported."""
    for name, file in files.items():
        import_file(name, file)


def imported_files() -> dict[str, Path]:
    """The users' files that this process has imported, by the names of their modules."""
    files = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
    return {name: Path(file) for name, file in files.items() if file and name.startswith(PREFIX)}
