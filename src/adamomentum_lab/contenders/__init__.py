"""The optimizers that are raced, one file each.

A module here whose name does not begin with `_` defines `CONTENDER`; adding one is adding a file.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torch.optim import Optimizer
from torch.optim.optimizer import ParamsT

from adamomentum_lab.contenders._grids import GRIDS, LOGARITHMIC, TUNABLE, space
from adamomentum_lab.errors import LabError, unknown

__all__ = ["GRIDS", "LOGARITHMIC", "TUNABLE", "Contender", "get", "names", "space"]

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
    shares: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """Of a control: whose settings are its own too, and which, where a protocol states none."""

    def stated(self, settings: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Of the settings that a protocol has for each optimizer, those that are for this one."""
        if self.name in settings:
            return dict(settings[self.name])
        return {
            key: settings[other][key]
            for other, keys in self.shares.items()
            for key in keys
            if key in settings.get(other, ())
        }

    def check(self, settings: Iterable[str]) -> None:
        """Refuse names of settings that it does not have."""
        if strange := [name for name in settings if name not in self.defaults]:
            raise LabError(
                f"{self.name} has no setting {strange[0]!r}; it has {', '.join(self.defaults)}."
            )

    def build(self, params: ParamsT, **settings: Any) -> Optimizer:
        """The optimizer of these parameters, with `settings` in place of the defaults.

        Settings may come from JSON, which has lists only: they become tuples.
        """
        self.check(settings)
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
        raise LabError(unknown("optimizer", name, known))
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
