"""Seeds that are far off the others, and curves with more than one valley.

No test on a few seeds is valid where some of them collapse, and no bound on what lies between the
settings that were tried is valid where a curve has two valleys. Neither can be mended; it is said.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from adamomentum_lab.stats.distributions import t_quantile

LEVEL = 0.01
"""The chance that of normally distributed scores any is called far off."""
DEEP = 4.2
"""Spreads of a score: the difference of two single runs is larger once in 370 times."""
SHALLOW = 0.1
"""Of the range of all scores. Valleys that are less deep are not counted."""


def far_off(scores: Sequence[float], floor: float = 0.0) -> list[int]:
    """The indices of scores that are far off the others.

    The generalized extreme studentized deviate test (Rosner 1983), for up to a fifth of the scores,
    at least one. It needs four scores, and leaves infinite ones out.

    Args:
        scores: by seed.
        floor: the smallest standard deviation that is believed.
    """
    left = [i for i, score in enumerate(scores) if math.isfinite(score)]
    removed: list[int] = []
    count = 0
    for _ in range(max(1, len(left) // 5)):
        n = len(left)
        if n < 4:
            break
        middle = sum(scores[i] for i in left) / n
        far = max(left, key=lambda i: abs(scores[i] - middle))
        left = [i for i in left if i != far]
        removed.append(far)
        rest = [scores[i] for i in left]
        center = sum(rest) / len(rest)
        variance = sum((score - center) ** 2 for score in rest) / (len(rest) - 1)
        # Against the others: in a spread of all, a collapse would hide itself.
        error = max(math.sqrt(variance), floor) * math.sqrt(1 + 1 / len(rest))
        if abs(scores[far] - center) > t_quantile(n - 2, LEVEL / (2 * n)) * error:
            count = len(removed)
    return sorted(removed[:count])


def has_two_valleys(scores: Sequence[float], spread: float) -> bool:
    """Whether single runs along a setting go down, up and down again by more than chance.

    Args:
        scores: in the order of the setting; those that diverged are left out.
        spread: the standard deviation of a score over seeds.
    """
    known = [score for score in scores if math.isfinite(score)]
    if len(known) < 4:
        return False
    deep = max(DEEP * spread, SHALLOW * (max(known) - min(known)))
    return any(
        known[i] - max(min(known[:i]), min(known[i + 1 :])) > deep for i in range(1, len(known) - 1)
    )
