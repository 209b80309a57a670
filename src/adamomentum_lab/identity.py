"""What makes two runs the same: the code that decides their numbers, as a digest.

The digest of a file covers the file and every module that it reaches by its imports, unless the
module belongs to Python or to an installed package of somebody else. Imports are read, not
executed.
"""

from __future__ import annotations

import ast
import hashlib
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

_INSTALLED = tuple({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})


def digest(file: Path) -> str:
    """Of a file and the modules it reaches. Neither its place nor that of the modules counts."""
    files = {"": file, **reached_modules(file)}
    parts = [f"{name} {hashlib.sha256(files[name].read_bytes()).hexdigest()}" for name in files]
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()[:12]


def reached_modules(file: Path) -> dict[str, Path]:
    """The modules whose code counts for a file, by name: those it imports, those they import..."""
    found: dict[str, Path] = {}
    left = [(file, "")]
    while left:
        source, package = left.pop()
        for name in _imports(source, package):
            module = None if name in found else _find(name, file.parent)
            if module is not None:
                found[name] = module
                is_package = module.name == "__init__.py"
                left.append((module, name if is_package else name.rpartition(".")[0]))
    return found


def _imports(file: Path, package: str) -> Iterator[str]:
    """Every name that a file may import as a module."""
    try:
        nodes = ast.walk(ast.parse(file.read_bytes()))
    except (SyntaxError, ValueError):
        return  # reported when the file is loaded
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")
                base = ".".join([*above[: len(above) - node.level + 1], *filter(None, [base])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _find(name: str, beside: Path) -> Path | None:
    """The file of a module whose code counts; None of the others."""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names:
        return None
    for folder in (*sys.path, str(beside)):
        place = Path(folder or ".").joinpath(*name.split("."))
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if file.is_file():
                ours = top.partition("_")[0] == "adamomentum"
                return file if ours or not str(file).startswith(_INSTALLED) else None
    return None
