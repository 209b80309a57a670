"""From a name or a file to the object that it stands for: the one place that finds modules."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from adamomentum_lab import plugins
from adamomentum_lab.errors import LabError, unknown
from adamomentum_lab.identity import digest
from adamomentum_lab.modules import PREFIX, import_file

if TYPE_CHECKING:
    from adamomentum_lab.workload import Workload

PROBLEMS = "adamomentum_lab.problems"
"""The package of the lab's own workloads; plugins name theirs."""


def modules(package: str) -> dict[str, str]:
    """The public modules of a package by name, without importing them."""
    spec = importlib.util.find_spec(package)
    folders = (spec and spec.submodule_search_locations) or ()
    files = [file for folder in folders for file in Path(folder).glob("[!_]*.py")]
    return {file.stem: f"{package}.{file.stem}" for file in sorted(files)}


@dataclass(frozen=True)
class Reference:
    """Where a workload comes from, in a form that another process can load."""

    name: str
    file: Path
    code: str
    """Digest of the file and what it reaches: each version has runs of its own."""
    module: str | None = None
    """Of an installed workload; None of a user's file."""

    def load(self) -> type[Workload]:
        """The class. Errors in a user's file are raised as they are."""
        from adamomentum_lab.workload import Workload, check

        name = self.module or f"{PREFIX}{self.name}"
        module = sys.modules.get(name)
        if module is None or getattr(module, "__file__", None) != str(self.file):
            if digest(self.file) != self.code:
                raise LabError(f"{self.file} has changed since the start; start again.")
            module = importlib.import_module(name) if self.module else import_file(name, self.file)
        found = [
            value
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, Workload) and value.__module__ == name
        ]
        if len(found) != 1:
            raise LabError(
                f"{self.file} defines {len(found)} workloads; it must define one subclass of "
                "adamomentum_lab.Workload."
            )
        check(found[0], self.file)
        return found[0]


def workload_names() -> list[str]:
    """The installed workloads: the lab's own, then those of plugins."""
    return list(_workloads())


def _workloads() -> dict[str, str]:
    packages = [PROBLEMS, *(plugin.workloads for plugin in plugins.plugins() if plugin.workloads)]
    return {name: module for package in packages for name, module in modules(package).items()}


def find_workload(name_or_file: str) -> Reference:
    """An installed workload by its name, or a user's by its file."""
    known = _workloads()
    module = known.get(name_or_file)
    if module is not None:
        spec = importlib.util.find_spec(module)
        assert spec is not None
        file = Path(spec.origin or "")
    else:
        file = Path(name_or_file)
        if file.suffix != ".py":
            raise LabError(unknown("workload", name_or_file, known))
        if not file.is_file():
            raise LabError(f"there is no file {name_or_file!r}.")
    return Reference(file.stem, file.resolve(), digest(file), module)
