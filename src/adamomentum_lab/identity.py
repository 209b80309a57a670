"""What makes two runs the same: the code that decides their numbers, as a digest.

The digest of a file covers the file and every module that it reaches by its imports, unless the
module belongs to Python or to an installed package of somebody else. Imports are read, not
executed.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

_INSTALLED = tuple({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})


def digest(file: Path) -> str:
    """Of a file and the modules it reaches. Neither its place nor that of the modules counts."""
    parts = {"": hashlib.sha256(file.read_bytes()).hexdigest()}
    left = [(file, "")]
    while left:
        source, package = left.pop()
        for name in _imports(source, package):
            found = None if name in parts else _find(name, file.parent)
            if found is not None:
                parts[name] = hashlib.sha256(found.read_bytes()).hexdigest()
                inside = name if found.name == "__init__.py" else name.rpartition(".")[0]
                left.append((found, inside))
    text = "\n".join(f"{name} {parts[name]}" for name in sorted(parts))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


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


@functools.cache
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
