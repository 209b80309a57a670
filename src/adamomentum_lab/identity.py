"""What the numbers of a run depend on besides its settings: a part of `Spec.id`, which names it.

A file depends on itself, on every module that it reaches by its imports, and on the versions of
the installed packages among these. Imports are read, not executed. One number, `NUMBERS`, stands
for the lab's own modules that train: most changes of them change no result.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import os
import site
import sys
import sysconfig
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from adamomentum_lab import modules

NUMBERS = 1
"""Raised whenever a change of the lab changes a golden loss (tests/golden): stored runs of the code
before it then no longer count. Changes that keep these losses keep stored runs."""
Parts = Mapping[str, str]
"""By name, a digest or a version of each part that numbers depend on."""
FILE, TRAINING = "the file itself", "the lab's training code"
FAMILY = ("adamomentum", "adamomentum_lab", "adamomentum_paper")
NUMBERED = {
    "adversarial", "catalog", "contender", "contract", "datasets", "engine", "errors", "files",
    "identity", "inputs", "modules", "plugins", "portable", "rules", "schedules", "selection",
    "source", "space", "training", "words", "workload", "workload_checks",
}  # fmt: skip
"""The modules of the lab that `NUMBERS` stands for. Others, those of problems, data and contenders,
count by themselves."""
SOURCES = (".c", ".h")
"""Suffixes of files that count with the Python modules of their folder."""


def digest(file: Path) -> str:
    """Of a file and what it reaches. Neither its place nor that of the modules counts."""
    return digest_of(parts(file))


def digest_of(parts: Parts) -> str:
    """One digest of all parts."""
    lines = sorted(f"{name} {value}" for name, value in parts.items())
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()[:12]


def parts(file: Path, package: str = "") -> Parts:
    """What the numbers depend on where this file defines the workload or the contender.

    `package` is the one that it is a module of, for its relative imports.
    """
    found = {FILE: _read(file).digest}
    reached, packages = _follow(file, package)
    for name, module in reached.items():
        found[f"{name.replace('.', '/')}.py"] = _read(module).digest
        for source in _sources(name, module):
            found[f"{name.replace('.', '/')}/{source.name}"] = _read(source).digest
    found |= {name: version_of(name) for name in sorted(packages | {"torch"})}
    return {**found, TRAINING: str(NUMBERS)}


def parts_of_package(file: Path, package: str, version: str) -> Parts:
    """Return the parts of a file in an installed package: itself and the package's version."""
    return {FILE: _read(file).digest, package: version} if file.is_file() else {package: version}


def reached_modules(file: Path) -> dict[str, Path]:
    """The modules whose code counts for a file, by name: those it imports, those they import..."""
    return _follow(file)[0]


def is_installed(file: str | Path) -> bool:
    """Whether a file is Python's, or of an installed package."""
    name = str(file)
    packages = any(f"/{kind}-packages/" in name for kind in ("site", "dist"))  # of any environment
    return packages or name.startswith(_installed_folders())


def _follow(file: Path, package: str = "") -> tuple[dict[str, Path], set[str]]:
    """The modules whose code counts, and the installed packages that they import."""
    found: dict[str, Path] = {}
    packages: set[str] = set()
    seen: set[str] = set()
    find_root = functools.cache(lambda package: _find_root(package, file.parent))
    left = [(file, package)]
    while left:
        source, package = left.pop()
        for level, name in _read(source).imports:
            above = package.split(".")[: -(level - 1) or None] if level else []
            full = ".".join(filter(None, [*above, name]))
            top = full.partition(".")[0]
            if full in seen or is_covered(full):
                continue
            seen.add(full)
            if _is_foreign(top):
                packages |= {top} - sys.stdlib_module_names - {""}
                continue
            root = find_root(top)
            module = root and _find(full, root)
            if module:
                found[full] = module
                is_package = module.name == "__init__.py"
                left.append((module, full if is_package else full.rpartition(".")[0]))
    return found, packages


def is_covered(module: str) -> bool:
    """Whether `NUMBERS` stands for a module."""
    first, *rest = module.split(".")
    package = rest in ([], ["contenders"], ["problems"])
    return first == "adamomentum_lab" and (package or rest[0] in NUMBERED)


class _Source(NamedTuple):
    digest: str
    imports: tuple[tuple[int, str], ...]
    """Every name that may be imported as a module; relative to how many packages above."""


def _read(file: Path) -> _Source:
    return _parse(file.read_bytes())


@functools.lru_cache(1024)
def _parse(content: bytes) -> _Source:
    found: list[tuple[int, str]] = []
    try:
        nodes = list(ast.walk(ast.parse(content)))
    except (SyntaxError, ValueError):
        nodes = []  # reported when the file is loaded
    for node in nodes:
        if isinstance(node, ast.Import):
            found += [(0, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = f"{node.module}." if node.module else ""
            found.append((node.level, node.module or ""))
            found += [(node.level, f"{base}{alias.name}") for alias in node.names]
    return _Source(hashlib.sha256(content).hexdigest()[:16], tuple(found))


def _find(name: str, root: str) -> Path | None:
    """The file of a module below a folder; None if there is none, as for a function."""
    place = os.path.join(root, *name.split("."))
    for file in (f"{place}.py", os.path.join(place, "__init__.py")):
        if os.path.isfile(file):
            return Path(file)
    return None


def _sources(name: str, module: Path) -> list[Path]:
    """What the extension modules of a package of the family are made from."""
    if module.name != "__init__.py" or name.partition(".")[0] not in FAMILY:
        return []
    return sorted(file for file in module.parent.iterdir() if file.suffix in SOURCES)


def _find_root(package: str, beside: Path) -> str | None:
    """The folder that has a package whose code counts."""
    places = (folder or os.curdir for folder in (*modules.own_path(), str(beside)))
    return next((place for place in places if _has(package, place)), None)


def _has(package: str, place: str) -> bool:
    """Also as a folder without __init__.py, a namespace package."""
    return bool(_find(package, place)) or os.path.isdir(os.path.join(place, package))


@functools.cache
def _is_foreign(package: str) -> bool:
    """Whether a package is Python's, or installed and not of the lab's family."""
    if package in sys.stdlib_module_names or package in FAMILY:
        return package in sys.stdlib_module_names
    folders = {sysconfig.get_path(kind) for kind in ("purelib", "platlib")}
    folders |= {
        folder for folder in sys.path if folder.endswith(("site-packages", "dist-packages"))
    }
    places = [Path(folder) / package for folder in folders]
    return any(place.is_dir() or any(place.parent.glob(f"{package}.*")) for place in places)


def version_of(package: str) -> str:
    """Of the installed package that a name is imported from; empty if that is not known."""
    try:
        return metadata.version(package).partition("+")[0]  # the same on CPU and GPU
    except metadata.PackageNotFoundError:
        return _search_version(package)


@functools.cache
def _search_version(package: str) -> str:
    """Of the packages with these files, as Pillow's of PIL."""
    # Searched as text: metadata.packages_distributions takes as long as an import of numpy.
    starts = (f"\n{package}/", f"\n{package}.py,")
    files = ((one, f"\n{one.read_text('RECORD')}") for one in metadata.distributions())
    found = (one for one, names in files if any(start in names for start in starts))
    return " ".join(sorted({one.version for one in found}))


@functools.cache
def _installed_folders() -> tuple[str, ...]:
    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = {sysconfig.get_path(kind) for kind in kinds} | {*site.getsitepackages()}
    folders.add(site.getusersitepackages())
    both = folders | {os.path.realpath(folder) for folder in folders}
    return tuple(sorted(os.path.join(folder, "") for folder in both))
