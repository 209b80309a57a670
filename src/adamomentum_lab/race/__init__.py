"""A race: its plan, the search for settings, the verdicts and the record.

The package itself can be called: `adamomentum_lab.race(MyProblem)` is `adamomentum_lab.api.race`.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


class _Race(ModuleType):
    @property
    def __wrapped__(self) -> Any:  # where inspect finds the signature
        return importlib.import_module("adamomentum_lab.api").race

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.__wrapped__(*arguments, **options)


sys.modules[__name__].__class__ = _Race
