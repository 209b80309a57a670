"""What races on several workloads say together: rliable's measures, ranks, and tuning curves.

Agarwal et al. 2021 (arXiv 2108.13264): the interquartile mean of normalised scores, and the
probability of improvement, with intervals by a bootstrap that redraws the seeds of each workload.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

Table = Mapping[str, Mapping[str, Sequence[float]]]
"""workload -> optimizer -> score of each seed, larger is better."""
DRAWS = 2000
FEWEST = 10
"""Workloads that a critical-difference diagram needs."""


@dataclass(frozen=True)
class Band:
    """An estimate with its 95 % interval."""

    value: float
    low: float
    high: float


def interquartile_means(table: Table) -> dict[str, Band]:
    """By optimizer, the mean of the middle half of all its normalised scores.

    On each workload, 0 is the worst mean of an optimizer and 1 the best. The scale is that of the
    measured means; only the seeds are redrawn.
    """
    import numpy as np

    names = _shared(table)
    scaled: dict[str, list[Array]] = {name: [] for name in names}
    for scores in table.values():
        means = [float(np.mean(scores[name])) for name in names]
        low, high = min(means), max(means)
        for name in names:
            unit = high - low or 1.0
            scaled[name].append((np.asarray(scores[name], float) - low) / unit)
    return {name: _bootstrap([own], _middle_mean) for name, own in scaled.items()}


def improvements(table: Table, baseline: str) -> dict[str, Band]:
    """By optimizer, the probability that a run of it beats a run of the baseline, where ties count
    half: the mean over workloads."""
    import numpy as np

    names = _shared(table)
    rows = {name: [np.asarray(own[name], float) for own in table.values()] for name in names}
    return {
        name: _bootstrap([rows[name], rows[baseline]], _probability)
        for name in names
        if name != baseline
    }


def _shared(table: Table) -> list[str]:
    """Optimizers with scores on every workload."""
    first, *rest = table.values()
    return [name for name in first if all(name in own for own in rest)]


Drawn = list[list["Array"]]
"""For each sample, for each workload: scores, a row for each draw."""


def _bootstrap(samples: list[list[Array]], measure: Callable[[Drawn], Array]) -> Band:
    """A measure of samples, its interval by redrawing the seeds of each workload."""
    import numpy as np

    random = np.random.default_rng(0)
    value = measure([[own[None] for own in sample] for sample in samples])[0]
    drawn = [
        [own[random.integers(0, len(own), (DRAWS, len(own)))] for own in sample]
        for sample in samples
    ]
    low, high = np.quantile(measure(drawn), (0.025, 0.975))
    return Band(float(value), float(low), float(high))


def _middle_mean(samples: Drawn) -> Array:
    """The mean without the lowest and the highest quarter."""
    import numpy as np

    every = np.sort(np.concatenate(samples[0], axis=1), axis=1)
    cut = every.shape[1] // 4
    return np.asarray(every[:, cut : every.shape[1] - cut].mean(axis=1))


def _probability(samples: Drawn) -> Array:
    import numpy as np

    by_workload = [
        ((x[:, :, None] > y[:, None, :]) + 0.5 * (x[:, :, None] == y[:, None, :])).mean(axis=(1, 2))
        for x, y in zip(*samples, strict=True)
    ]
    return np.asarray(np.mean(by_workload, axis=0))


@dataclass(frozen=True)
class Ranks:
    """Mean ranks over workloads, and the difference that Nemenyi's test needs (Demšar 2006)."""

    means: dict[str, float]
    critical: float
    p: float
    """Of Friedman's test that all ranks are alike."""


def mean_ranks(table: Table) -> Ranks | None:
    """By mean score; 1 is the best. None with fewer than ten workloads or three optimizers."""
    names = _shared(table)
    count = len(table)
    if count < FEWEST or len(names) < 3:
        return None
    import numpy as np
    from scipy import stats

    means = np.array([[np.mean(own[name]) for name in names] for own in table.values()])
    ranks = stats.rankdata(-means, axis=1)
    k = len(names)
    quantile = stats.studentized_range.ppf(0.95, k, math.inf) / math.sqrt(2)
    return Ranks(
        dict(zip(names, ranks.mean(axis=0).tolist(), strict=True)),
        float(quantile * math.sqrt(k * (k + 1) / (6 * count))),
        float(stats.friedmanchisquare(*means.T).pvalue),
    )


def tuning_bands(scores: Sequence[float]) -> list[Band]:
    """The median best score after 1, 2, ... random trials, with a simultaneous 95 % band.

    The band is that of the distribution of scores by Dvoretzky, Kiefer and Wolfowitz, as in
    Lourie et al. 2024 (arXiv 2311.09480). Scores are larger-is-better; an end that the trials do
    not bound is infinite.
    """
    ordered = sorted(scores)
    n = len(ordered)
    room = math.sqrt(math.log(2 / 0.05) / (2 * n)) if n else 0.0

    def quantile(p: float) -> float:
        """The smallest score with a share of at least p; infinite beyond the scores."""
        if p <= 0:
            return -math.inf
        place = math.ceil(round(p * n, 9)) - 1
        return ordered[place] if place < n else math.inf

    return [
        Band(quantile(half), quantile(half - room), quantile(half + room))
        for half in (0.5 ** (1 / k) for k in range(1, n + 1))
    ]
