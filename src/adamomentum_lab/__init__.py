"""The lab: which optimizer should you use on your problem, and how sure is that?

To race optimizers on your problem, write a subclass of `Workload` in a Python file and run
`adamomentum race FILE`, or call `adamomentum_lab.race(MyProblem)`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adamomentum_lab.adversarial import Adversarial, Networks
    from adamomentum_lab.api import Result, load, race
    from adamomentum_lab.datasets import Stream
    from adamomentum_lab.schedules import Constant, Cosine, InverseSqrt, Restarted, Schedule, Step
    from adamomentum_lab.source import Examples, Repeated, Source, Tensors, Tokens
    from adamomentum_lab.training.feed import in_order
    from adamomentum_lab.workload import Classification, Data, Workload

__all__ = [
    "Adversarial",
    "Classification",
    "Constant",
    "Cosine",
    "Data",
    "Examples",
    "InverseSqrt",
    "Networks",
    "Repeated",
    "Restarted",
    "Result",
    "Schedule",
    "Source",
    "Step",
    "Stream",
    "Tensors",
    "Tokens",
    "Workload",
    "in_order",
    "load",
    "race",
]


def __getattr__(name: str) -> object:
    """Import public names on first use, so that `import adamomentum_lab` alone loads no torch."""
    if name == "race":  # the package of this name, which can be called
        return importlib.import_module(f"{__name__}.race")
    if name in __all__:
        for module in (
            "schedules",
            "source",
            "datasets",
            "training.feed",
            "workload",
            "adversarial",
            "api",
        ):
            home = importlib.import_module(f"{__name__}.{module}")
            if hasattr(home, name):
                return getattr(home, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
