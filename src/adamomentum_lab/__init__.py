"""The lab: which optimizer should you use on your problem, and how sure is that?

To race optimizers on your problem, write a subclass of `Workload` in a Python file and run
`adamomentum race FILE`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adamomentum_lab.adversarial import Adversarial, Networks
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
    "Schedule",
    "Source",
    "Step",
    "Tensors",
    "Tokens",
    "Workload",
    "in_order",
]


def __getattr__(name: str) -> object:
    """Import public names on first use, so that `import adamomentum_lab` alone loads no torch."""
    if name in __all__:
        for module in ("schedules", "source", "training.feed", "workload", "adversarial"):
            home = importlib.import_module(f"{__name__}.{module}")
            if hasattr(home, name):
                return getattr(home, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
