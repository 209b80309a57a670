"""From the target of a reference to the Python object that it stands for."""

from __future__ import annotations

import difflib
import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from adamomentum_lab.contenders._written import FORMS
from adamomentum_lab.errors import LabError, locate
from adamomentum_lab.identity import Parts, digest_of, is_installed, parts, parts_of_package
from adamomentum_lab.modules import import_file


@dataclass(frozen=True)
class Found:
    """An object, and where it is."""

    target: str
    """In the form that means the same in every process on this machine."""
    value: Any
    parts: Parts
    """What its numbers depend on."""
    place: Path | None
    """The user's file, if it is in one."""

    @property
    def code(self) -> str:
        """Digest of the code that defines it."""
        return digest_of(self.parts)

    @property
    def name(self) -> str:
        """What it goes by if the user gives no name."""
        _, _, attribute = self.target.rpartition("/")[2].partition(":")
        if attribute or self.place is None:
            return attribute.rpartition(".")[2]
        return getattr(self.value, "name", "") or self.place.stem.replace("_", "-")


def find(target: str) -> Found:
    """The object that a target stands for: file.py:Class, file.py, package.module:Class or
    package.Class."""
    left, colon, attribute = target.rpartition(":")
    if target.endswith(".py"):
        return _in_file(Path(target), "")
    if left.endswith(".py"):
        return _in_file(Path(left), attribute)
    if not colon:
        left, _, attribute = target.rpartition(".")
    if not all(part.isidentifier() for part in (*left.split("."), *attribute.split("."))):
        raise LabError(f"{target!r} is no optimizer; write {FORMS}.")
    module = _import(left, target)
    value = _attribute(module, attribute, left)
    return Found(f"{left}:{attribute}", value, _parts_of(value, module), None)


def _in_file(file: Path, attribute: str) -> Found:
    file = file.expanduser().resolve()
    if not file.is_file():
        raise LabError(f"there is no file {str(file)!r}.")
    found = parts(file)
    # Another version of a file is another module.
    name = f"_contender_{file.stem}_{digest_of(found)}"
    try:
        module = sys.modules.get(name) or import_file(name, file)
    except LabError:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, ImportError) and "relative import" in str(error):
            wanted = "write package.module:Class, with the folder of the package on PYTHONPATH"
            raise LabError(f"{file} has relative imports; {wanted}.") from error
        raise locate(error, file) from error
    if not attribute and not hasattr(module, "CONTENDER"):
        wanted = f"name what to race, as {file.name}:Class"
        raise LabError(f"{file} defines no CONTENDER = Contender(...); {wanted}.")
    value = _attribute(module, attribute or "CONTENDER", str(file))
    place = file.as_posix()
    return Found(f"{place}:{attribute}" if attribute else place, value, found, file)


def _import(name: str, target: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if "." not in missing:
            why = f"the package {missing} is not installed"
            if Path(missing).is_dir() or Path(f"{missing}.py").is_file():
                why += "; for the one in this folder, set PYTHONPATH=."
        else:
            why = f"there is no module {missing}"
    except (Exception, SystemExit) as error:
        why = f"{type(error).__name__}: {error}".splitlines()[0]
    raise LabError(f"{target} cannot be imported: {why.removesuffix('.')}.")


def _attribute(module: ModuleType, attribute: str, place: str) -> Any:
    value: Any = module
    for name in attribute.split("."):
        if not hasattr(value, name):
            public = [key for key in dir(value) if not key.startswith("_")]
            near = difflib.get_close_matches(name, public, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise LabError(f"{place} has no {attribute!r}{hint}.")
        value = getattr(value, name)
    return value


def _parts_of(value: Any, module: ModuleType) -> Parts:
    """The parts of the file that defines it, and the version of its package."""
    home = sys.modules.get(getattr(value, "__module__", ""), module)
    package = sys.modules.get(home.__name__.partition(".")[0])
    version = str(getattr(package, "__version__", "")).partition("+")[0]  # the same on CPU and GPU
    file = getattr(home, "__file__", None) or ""
    name = home.__name__.partition(".")[0]
    if not file.endswith(".py") or is_installed(file):
        return parts_of_package(Path(file), name, version)
    return {**parts(Path(file), home.__package__ or ""), name: version}
