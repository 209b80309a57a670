"""The optimizers that are raced, one file each.

A module here whose name does not begin with `_` defines `CONTENDER`, which has the module's name
with `-` for `_`; adding one is adding a file.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Iterable
from pathlib import Path

from adamomentum_lab.catalog import modules
from adamomentum_lab.contender import Contender
from adamomentum_lab.errors import LabError, unknown
from adamomentum_lab.identity import digest

BASELINE = "adamomentum"
"""Whom the others are compared with where a race does not say."""
# In the order of the paper's tables.
_PAPER = ("sgdm", "adam", "adamw", "yogi", "adabound", "radam", "adabelief", "adamomentum")
_ROLES = ("paper", "control", "extra")


def names() -> list[str]:
    """Every contender: the paper's eight in its order, then controls, then extras."""
    return list(_contenders())


def check_names(given: Iterable[str]) -> None:
    """Refuse names of no contender, without importing any."""
    for name in given:
        if name not in _files():
            raise LabError(unknown("optimizer", name, _files()))


def get(name: str) -> Contender:
    """The contender of this name."""
    check_names([name])
    return _contenders()[name]


@functools.cache
def code_of(name: str) -> str:
    """Digest of a contender's own code."""
    check_names([name])
    spec = importlib.util.find_spec(_files()[name])
    assert spec is not None
    return digest(Path(spec.origin or ""))


@functools.cache
def _files() -> dict[str, str]:
    """The module of each, the paper's eight first."""
    found = {name.replace("_", "-"): module for name, module in modules(__name__).items()}
    return {
        name: found[name] for name in (*_PAPER, *(name for name in found if name not in _PAPER))
    }


@functools.cache
def _contenders() -> dict[str, Contender]:
    found: list[Contender] = []
    for name, module in _files().items():
        found.append(importlib.import_module(module).CONTENDER)
        if found[-1].name != name:
            raise LabError(f"CONTENDER of {module} is called {found[-1].name!r}, not {name!r}.")
    found.sort(key=lambda contender: _ROLES.index(contender.role))
    return {contender.name: contender for contender in found}
