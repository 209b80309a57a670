"""AdaMomentum: Adam whose second moment averages squared momentum.

>>> from adamomentum import AdaMomentum  # the torch.optim.Optimizer

Importing this package loads no framework. Accessing `AdaMomentum` imports torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adamomentum.torch import AdaMomentum

__version__ = "0.2.0.dev0"
__all__ = ["AdaMomentum", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "AdaMomentum":
        from adamomentum.torch import AdaMomentum

        return AdaMomentum
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
