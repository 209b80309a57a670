"""What rule.py computes from the step number alone, exact where that number is a traced array.

Under jit the number of the step is an array, and 1 - beta^t in float32 has lost the digits that
beta^t shares with 1; rectification then takes the difference of two numbers of the order of
2 / (1 - beta2). Neither cancellation happens here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adamomentum import rule

# Below this t * -log(beta2) the rectification is a series, above it a difference that loses
# nothing to speak of: rho is then at least a fifth of its limit.
_EARLY = 0.5


def corrections(math: Any, dtype: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Stand-ins for `rule.remaining` and `rule.rectification`.

    Args:
        math: where `expm1`, `log1p` and `where` are: jax.numpy or keras.ops.
        dtype: of the results, and of the step number: float32 or float64.
    """

    def log(beta: Any) -> Any:
        # beta - 1 is exact: of a Python float before, of an array after it was rounded.
        return math.log1p(math.array(beta - 1, dtype=dtype))

    def remaining(beta: Any, t: Any) -> Any:
        return -math.expm1(t * log(beta))

    def rectification(beta2: Any, t: Any) -> Any:
        if dtype == "float64":
            return rule.rectification(beta2, t)
        rate = -log(beta2)
        d = math.array(1 - beta2, dtype=dtype)
        rho_inf = 2 / d - 1
        left = remaining(beta2, t)
        late = rho_inf - 2 * t * (1 - left) / left
        # rho = rho_inf - 2t / (e^2y - 1) = rho_inf + t - t coth(y) with y = t * rate / 2. Lambert:
        # y coth(y) = 1 + y^2 / (3 + y^2 / (5 + ...)); the rest is Gregory's series of 1 / log(1-d).
        y2 = (t * rate / 2) ** 2
        coth = y2 / (3 + y2 / (5 + y2 / (7 + y2 / 9)))
        offset = d / 6 + d**2 / 12 + 19 * d**3 / 360 + 3 * d**4 / 80  # rho_inf - 2 / rate
        early = t + offset - 2 / rate * coth
        return rule.switch(math.where(t * rate < _EARLY, early, late), rho_inf)

    return remaining, rectification
