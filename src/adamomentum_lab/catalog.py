"""Find workloads by name or file."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from adamomentum_lab import plugins, portable
from adamomentum_lab.errors import LabError, locate, printable, unknown
from adamomentum_lab.identity import Parts, digest, parts
from adamomentum_lab.inputs import Inputs, inputs_of, noticing
from adamomentum_lab.modules import PREFIX, forget_workloads, import_file

if TYPE_CHECKING:
    from adamomentum_lab.workload import Workload

PROBLEMS = "adamomentum_lab.problems"
"""The package of the lab's own workloads. Plugins name theirs."""


def modules(package: str) -> dict[str, str]:
    """Return the public modules of a package by name, without importing them."""
    spec = importlib.util.find_spec(package)
    folders = (spec and spec.submodule_search_locations) or ()
    files = [file for folder in folders for file in Path(folder).glob("[!_]*.py")]
    return {file.stem: f"{package}.{file.stem}" for file in sorted(files)}


@dataclass(frozen=True)
class Reference:
    """The place of a workload, from which any process can load it."""

    name: str
    file: Path
    code: str
    """Digest of what the file's numbers depend on. Runs of another version do not count."""
    module: str | None = None
    """The module of an installed workload; None for a user's file."""
    given: bool = False
    """Whether it is a class of a script or a notebook, which `portable` has under `code`."""

    def __reduce__(self) -> Any:
        state = tuple(getattr(self, field.name) for field in fields(self))
        if self.given:
            return portable.carry(self.code, Reference, *state)
        return Reference, state

    def locate(self, error: BaseException) -> LabError:
        """Return an error that names the user's line."""
        found = locate(error, self.file)
        for place, cell in portable.cells(self.code).items() if self.given else ():
            found = type(found)(str(found).replace(place, cell))
        return found

    def load(self) -> type[Workload]:
        """Import and check the class. Errors in a user's file are raised unchanged."""
        from adamomentum_lab.workload import Workload
        from adamomentum_lab.workload_checks import check

        if self.given:
            cls: type[Workload] = portable.get(self.code)
            check(cls, self.file)
            return cls
        name = self.module or f"{PREFIX}{self.name}"
        module = sys.modules.get(name)
        if module is None or (not self.module and _loaded.get(name) != (self.file, self.code)):
            if digest(self.file) != self.code:
                raise LabError(f"{self.file} has changed since the start; run the command again.")
            with noticing(self.inputs):
                load = importlib.import_module if self.module else self._import_file
                module = load(name)
            _loaded[name] = (self.file, self.code)
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

    def _import_file(self, name: str) -> ModuleType:
        forget_workloads()
        return import_file(name, self.file)

    @property
    def parts(self) -> Parts:
        """What `code` is the digest of."""
        return portable.parts_of(self.code) if self.given else parts(self.file)

    @property
    def inputs(self) -> Inputs:
        """What the workload has read in this process so far."""
        return inputs_of(self.code, self.file)


_loaded: dict[str, tuple[Path, str]] = {}
"""By its name, the file and the code of each workload that was loaded."""


def workload_names() -> list[str]:
    """Return the names of installed workloads: the lab's own, then those of plugins."""
    return list(_workloads())


def _workloads() -> dict[str, str]:
    packages = [PROBLEMS, *(plugin.workloads for plugin in plugins.plugins() if plugin.workloads)]
    return {name: module for package in packages for name, module in modules(package).items()}


def find_workload(name_or_file: str) -> Reference:
    """Find an installed workload by its name, or a user's by its file."""
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
    return Reference(printable(file.stem), file.resolve(), digest(file), module)


def refer(cls: type[Workload]) -> tuple[Reference, str | None]:
    """Return the reference to a class, and why it cannot be identified, or else None.

    An installed workload is found by its name.
    """
    name = {module: name for name, module in _workloads().items()}.get(cls.__module__)
    if name is not None:
        return find_workload(name), None
    code, why = portable.add(cls, cls.__qualname__)
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    # Its folder is where the names in `reads` start.
    place = Path(file) if file else Path.cwd() / "notebook"
    return Reference(printable(cls.__name__), place.resolve(), code, given=True), why
