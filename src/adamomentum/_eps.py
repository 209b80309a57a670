"""The warning about Adam's eps."""

from __future__ import annotations

import math
import sys
import warnings
from typing import Any

# The defaults of Adam in PyTorch and Optax, and in Keras.
ADAM = (1e-8, 1e-7)
# These packages choose eps on purpose, or repeat the choice of a user.
SILENT = ("adamomentum_lab", "adamomentum_paper", "keras")


class TunedEps(float):
    """An eps that was tuned for AdaMomentum. It causes no warning."""


def warn_adam_eps(name: str, eps: Any, beta2: Any) -> None:
    """Warn the caller of this package if eps is a default of Adam.

    Python shows a warning once for each line of code that causes it.

    Args:
        name: name of the argument.
        eps: value of the argument. Arrays and tensors are not read.
        beta2: decay rate of the second moment.
    """
    if not isinstance(eps, float) or isinstance(eps, TunedEps) or eps not in ADAM:
        return
    package, level = _caller()
    if package in SILENT:
        return
    beta2 = beta2 if isinstance(beta2, float) else 0.999
    warnings.warn(
        f"{name}={eps:g} is Adam's default, but AdaMomentum adds {name} to the second moment at "
        f"every step: no denominator is then smaller than sqrt({name} / (1 - beta2)) = "
        f"{math.sqrt(eps / (1 - beta2)):.1g}, which shortens the steps of parameters with small "
        f"gradients. Omit {name}; the default is 1e-16. If {eps:g} is intended, silence this "
        f"warning with warnings.filterwarnings('ignore', message='{name}={eps:g}').",
        UserWarning,
        stacklevel=level,
    )


def _caller() -> tuple[str, int]:
    """Return the package that called this one, and its stack level as seen by `warn_adam_eps`."""
    level = 1
    frame = sys._getframe(1)
    while frame.f_back:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package != "adamomentum":
            return package, level
        frame, level = frame.f_back, level + 1
    return "", level
