"""The lab: which optimizer should you use on your problem, and how sure is that?

A workload of your own is a subclass of `Workload` in a Python file; `adamomentum race FILE` races
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["Classification", "Data", "Workload"]

if TYPE_CHECKING:
    from adamomentum_lab.workload import Classification, Data, Workload


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from adamomentum_lab import workload

    return getattr(workload, name)
