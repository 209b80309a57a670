"""How much of a difference is due to which examples are in the test set."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adamomentum_lab.race.referee import Pair


@dataclass(frozen=True)
class Sampling:
    """The uncertainty of the mean difference of A and B that comes from the test set's size."""

    a: str
    b: str
    examples: int
    error: float
    """Standard error: examples are drawn, seeds are as they are."""


def measure_sampling(
    pairs: Iterable[Pair], folders: Mapping[str, Sequence[Path]]
) -> tuple[Sampling, ...]:
    """Measure it from the scores of single examples.

    Args:
        pairs: the pairs that are compared.
        folders: by contender, the folders of its final runs, in the order of their seeds. Pairs
            whose runs kept no scores of single examples are left out.
    """
    means = {name: _mean_by_example(own) for name, own in folders.items()}
    found = []
    for pair in pairs:
        a, b = means.get(pair.a), means.get(pair.b)
        if a is None or b is None or len(a) != len(b) or len(a) < 2:
            continue
        error = float((a - b).std()) / math.sqrt(len(a))
        if math.isfinite(error):
            found.append(Sampling(pair.a, pair.b, len(a), error))
    return tuple(found)


def _mean_by_example(folders: Sequence[Path]) -> Any:
    """The score of each example, the mean of the runs; None where a run has none."""
    import torch

    from adamomentum_lab.training.outcome import examples_file

    runs = []
    for folder in folders:
        try:
            runs.append(torch.load(examples_file(folder), weights_only=True).double())
        except (OSError, RuntimeError, ValueError, pickle.UnpicklingError):
            return None
    if not runs or len({run.shape for run in runs}) > 1:
        return None
    return torch.stack(runs).mean(0)
