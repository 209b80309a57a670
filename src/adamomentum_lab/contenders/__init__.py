"""The optimizers that are raced, one file each.

A module here whose name does not begin with `_` defines `CONTENDER`; adding one is adding a file.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from torch.optim import Optimizer
from torch.optim.optimizer import ParamsT

from adamomentum_lab.contenders._grids import GRIDS, space

__all__ = ["GRIDS", "Contender", "get", "names", "space"]

# The order of the paper's tables.
_PAPER = ("sgdm", "adam", "adamw", "yogi", "adabound", "radam", "adabelief", "adamomentum")
_ROLES = ("paper", "control", "extra")


@dataclass(frozen=True)
class Contender:
    """An optimizer with the settings it starts from."""

    name: str
    optimizer: Callable[..., Optimizer]
    defaults: dict[str, Any] = field(hash=False)  # every setting there is, lr and weight_decay too
    source: str  # of the defaults
    summary: str
    role: Literal["paper", "control", "extra"]
    family: Literal["sgdm", "adaptive"]  # of the paper's search grids

    def build(self, params: ParamsT, **settings: Any) -> Optimizer:
        """The optimizer of these parameters, with `settings` in place of the defaults.

        Settings may come from JSON, which has lists only: they become tuples.
        """
        if unknown := [name for name in settings if name not in self.defaults]:
            raise ValueError(
                f"The contender {self.name!r} has no setting {unknown[0]!r}; "
                f"it has {', '.join(self.defaults)}."
            )
        chosen = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in (self.defaults | settings).items()
        }
        return self.optimizer(params, **chosen)


def names() -> list[str]:
    """Every contender: the paper's eight in its order, then controls, then extras."""
    return list(_contenders())


def get(name: str) -> Contender:
    """The contender of this name."""
    known = _contenders()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ValueError(f"There is no contender {name!r}{hint}; there are {', '.join(known)}.")
    return known[name]


@functools.cache
def _contenders() -> dict[str, Contender]:
    found: list[Contender] = [
        importlib.import_module(f"{__name__}.{module.name}").CONTENDER
        for module in pkgutil.iter_modules(__path__)
        if not module.name.startswith("_")
    ]

    def place(contender: Contender) -> tuple[int, int, str]:
        order = _PAPER.index(contender.name) if contender.name in _PAPER else len(_PAPER)
        return _ROLES.index(contender.role), order, contender.name

    return {contender.name: contender for contender in sorted(found, key=place)}
