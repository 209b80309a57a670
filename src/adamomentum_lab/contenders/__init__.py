"""The optimizers that are raced, one file each.

A module here whose name does not begin with `_` defines `CONTENDER`, which gets the module's name
with `-` for `_`; adding one is adding a file.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from adamomentum_lab.catalog import modules
from adamomentum_lab.contender import Contender
from adamomentum_lab.errors import LabError, unknown
from adamomentum_lab.identity import digest

STANDARD = ("sgdm", "adam", "adamw", "yogi", "adabound", "radam", "adabelief", "adamomentum")
"""Those that are raced where none are named. They stand first, the others follow by name."""
BASELINE = "adamomentum"
"""Whom the others are compared with where a race does not say."""
BASELINE_OF_0_1 = "adamomentum"
"""Whom they were compared with in every race of version 0.1 that it took part in."""


def names() -> list[str]:
    """Every contender: the standard ones, then the others by name."""
    return list(_files())


def check_names(given: Iterable[str]) -> None:
    """Refuse names of no contender, without importing any."""
    for name in given:
        if name not in _files():
            raise LabError(unknown("optimizer", name, _files()))


@functools.cache
def get(name: str) -> Contender:
    """The contender of this name."""
    check_names([name])
    module = importlib.import_module(_files()[name])
    found = getattr(module, "CONTENDER", None)
    if not isinstance(found, Contender):
        raise LabError(f"{module.__file__} defines no CONTENDER = Contender(...).")
    return replace(found, name=name)


@functools.cache
def code_of(name: str) -> str:
    """Digest of a contender's own code."""
    check_names([name])
    spec = importlib.util.find_spec(_files()[name])
    assert spec is not None
    return digest(Path(spec.origin or ""))


@functools.cache
def _files() -> dict[str, str]:
    """The module of each."""
    found = {name.replace("_", "-"): module for name, module in modules(__name__).items()}
    order = dict.fromkeys((*STANDARD, *sorted(found)))
    return {name: found[name] for name in order}
