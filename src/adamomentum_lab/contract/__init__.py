"""Checks that every torch optimizer must pass.

A check is a function of a `Case` that raises AssertionError. torch.optim's own AdamW and SGD pass
all of them.

    for check in CHECKS:
        check(Case("mine", MyOptimizer))
"""

from adamomentum_lab.contract import _steps, _training  # noqa: F401  (they add to CHECKS)
from adamomentum_lab.contract._case import (
    CHECKS,
    Case,
    feed,
    gradient,
    loss_of,
    network,
    parameter,
    through_file,
    train,
)

__all__ = [
    "CHECKS",
    "Case",
    "feed",
    "gradient",
    "loss_of",
    "network",
    "parameter",
    "through_file",
    "train",
]
