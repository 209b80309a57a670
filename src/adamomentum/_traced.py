"""What rule.py computes from the step number alone, exact where that number is a traced array.

Under jit the number of the step is an array, and 1 - beta^t in float32 has lost the digits that
beta^t shares with 1; rectification then takes the difference of two numbers of the order of
2 / (1 - beta2). Neither cancellation happens here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from adamomentum import rule

# Below this t * -log(beta2) the rectification is a series, above it a difference that loses
# nothing to speak of: rho is then at least a fifth of its limit.
_EARLY = 0.5


def corrections(ops: Any, dtype: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Stand-ins for `rule.remaining` and `rule.rectification`.

    Args:
        ops: where `expm1`, `log1p` and `where` are: jax.numpy or keras.ops.
        dtype: of the step number, and so of the results: float32 or float64. The betas are
            floats or arrays of that dtype.
    """

    def rate(beta: Any) -> Any:
        """-log(beta). beta - 1 is exact, of whatever beta was rounded to."""
        if isinstance(beta, float):
            return -math.log1p(beta - 1) if beta else math.inf
        return -ops.log1p(beta - 1)

    def remaining(beta: Any, t: Any) -> Any:
        return -ops.expm1(-rate(beta) * t)

    def rectification(beta2: Any, t: Any) -> Any:
        if dtype == "float64":
            return rule.rectification(beta2, t)
        d = 1 - beta2
        rho_inf = 2 / d - 1
        x = rate(beta2) * t
        left = remaining(beta2, t)
        late = rho_inf - 2 * t * (1 - left) / left
        # rho = rho_inf - 2t / (e^x - 1) = rho_inf + t - t coth(y) with y = x / 2. Lambert:
        # y coth(y) = 1 + y^2 / (3 + y^2 / (5 + ...)). Gregory: rho_inf - 2 / rate = d / 6 + ...
        y2 = x * x / 4
        coth = y2 / (3 + y2 / (5 + y2 / (7 + y2 / 9)))
        offset = d / 6 + d**2 / 12 + 19 * d**3 / 360 + 3 * d**4 / 80
        early = t + offset - 2 / rate(beta2) * coth
        return rule.switch(ops.where(x < _EARLY, early, late), rho_inf)

    return remaining, rectification
