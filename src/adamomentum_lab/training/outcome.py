"""How a run ended, and the files it leaves."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from torch import Tensor

from adamomentum_lab.selection import EpochRecord

RESOLUTION = 1e-6
"""Smaller differences mean nothing, in parts of the score before training."""


@dataclass
class Outcome:
    """How a run ended, and what was measured."""

    status: Literal["done", "diverged", "stopped"]
    epochs: list[EpochRecord] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """Training time of each epoch."""
    updates: int = 0
    resolution: float = 0.0
    """The smallest difference of test scores that means anything: that of one example where the
    metric counts examples, else a millionth of the score before training."""


def examples_file(folder: Path) -> Path:
    """The metric on each test example at the epoch that is reported, in the folder of a run."""
    return folder / "examples.pt"


def shown_file(folder: Path, epoch: int) -> Path:
    """Return the file for what Workload.show returned after an epoch."""
    return folder / f"shown-{epoch}.txt"


def score_of_an_example(examples: Tensor) -> float:
    """What one example adds where some are right and some wrong: 1, or 100 in per cent; otherwise
    0, also where all are alike: a loss may be 0 everywhere."""
    values = set(examples.tolist())
    return next((unit for unit in (1.0, 100.0) if values == {0.0, unit}), 0.0)
