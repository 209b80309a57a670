"""A digest of the code that decides the numbers of a run: a part of `Spec.id`, which names it.

The digest of a file covers the file and every module that it reaches by its imports, unless the
module belongs to Python or to an installed package of somebody else. Imports are read, not
executed.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import os
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple


def digest(file: Path) -> str:
    """Of a file and the modules it reaches. Neither its place nor that of the modules counts."""
    files = {"": file, **reached_modules(file)}
    parts = sorted(f"{name} {_read(files[name]).digest}" for name in files)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def reached_modules(file: Path) -> dict[str, Path]:
    """The modules whose code counts for a file, by name: those it imports, those they import..."""
    found: dict[str, Path] = {}
    seen: set[str] = set()
    find_root = functools.cache(lambda package: _find_root(package, file.parent))
    left = [(file, "")]
    while left:
        source, package = left.pop()
        for level, name in _read(source).imports:
            above = package.split(".")[: -(level - 1) or None] if level else []
            full = ".".join(filter(None, [*above, name]))
            root = None if full in seen else find_root(full.partition(".")[0])
            seen.add(full)
            module = root and _find(full, root)
            if module:
                found[full] = module
                is_package = module.name == "__init__.py"
                left.append((module, full if is_package else full.rpartition(".")[0]))
    return found


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
    return _Source(hashlib.sha256(content).hexdigest(), tuple(found))


def _find(name: str, root: str) -> Path | None:
    """The file of a module below a folder; None if there is none, as for a function."""
    place = os.path.join(root, *name.split("."))
    for file in (f"{place}.py", os.path.join(place, "__init__.py")):
        if os.path.isfile(file):
            return Path(file)
    return None


def _find_root(package: str, beside: Path) -> str | None:
    """The folder that has a package whose code counts; None of the others."""
    folders = () if _is_foreign(package) else (*sys.path, str(beside))
    places = (folder or os.curdir for folder in folders)
    return next((place for place in places if _has(package, place)), None)


def _has(package: str, place: str) -> bool:
    """Also as a folder without __init__.py, a namespace package."""
    return bool(_find(package, place)) or os.path.isdir(os.path.join(place, package))


@functools.cache
def _is_foreign(package: str) -> bool:
    """Whether a package is Python's, or installed and not of the lab's family."""
    if package in sys.stdlib_module_names or package.partition("_")[0] == "adamomentum":
        return package in sys.stdlib_module_names
    places = [Path(sysconfig.get_path(kind)) / package for kind in ("purelib", "platlib")]
    return any(place.is_dir() or any(place.parent.glob(f"{package}.*")) for place in places)
