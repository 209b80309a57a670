"""What several trials or several workloads say: expected best scores, performance profiles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from adamomentum_lab.stats.estimates import Scores, finite

TAU_MAX = 4.0
"""Of AlgoPerf's performance profiles: four times the best is as bad as never."""


def expected_best(values: Scores, larger_is_better: bool) -> list[float | None]:
    """The best score to expect after 1, 2, ... trials, drawn without replacement from those run.

    The unbiased estimate of Tang et al. 2020 (arXiv 2004.13705): of n scores, best first, the i-th
    is the best of k with probability C(n-i, k-1) / C(n, k). A lost trial (None or NaN) is worse
    than any score but has none, so there is no mean while all k may be lost: None up to there.
    """
    scores = sorted((s for s in finite(values) if s is not None), reverse=larger_is_better)
    n, lost = len(values), len(values) - len(scores)
    return [
        None
        if k <= lost
        else math.fsum(
            math.comb(n - i, k - 1) / math.comb(n, k) * score for i, score in enumerate(scores, 1)
        )
        for k in range(1, n + 1)
    ]


@dataclass(frozen=True)
class Profiles:
    """Performance profiles over workloads (Dolan and Moré 2002), as AlgoPerf has them."""

    taus: list[float]
    shares: dict[str, list[float]]
    """By optimizer: of the workloads, the share where it took at most tau times the best."""
    scores: dict[str, float]
    """The mean of its share over tau from 1 to 4: 1 is the best everywhere, 0 never within 4."""
    ratios: dict[str, dict[str, float | None]]
    """By workload and optimizer, to the best there; None where it never reached the target."""
    unreached: list[str]
    """Workloads where nobody reached the target. They count, for nobody."""
    left_out: list[str]
    """Optimizers that were not raced on every workload."""


def profiles(
    measures: Mapping[str, Mapping[str, float | None]], taus: Iterable[float] | None = None
) -> Profiles:
    """From what each optimizer took to the target on each workload, smaller is better.

    None, NaN and infinity are never. Only optimizers that were raced on all workloads are compared,
    and the best is the best of these. AlgoPerf: arXiv 2306.07179, section 4.
    """
    if taus is None:
        taus = [1 + i * (TAU_MAX - 1) / 120 for i in range(121)]
    grid = list(taus)
    raced = {name: None for by_name in measures.values() for name in by_name}  # in their order
    shared = [name for name in raced if all(name in by_name for by_name in measures.values())]
    ratios: dict[str, dict[str, float | None]] = {}
    for workload, by_name in measures.items():
        took = finite([by_name[name] for name in shared])
        best = min((value for value in took if value is not None), default=math.nan)
        if best <= 0:
            raise ValueError(f"what an optimizer took on {workload} must be above 0.")
        shares = [None if value is None else value / best for value in took]
        ratios[workload] = dict(zip(shared, shares, strict=True))
    every = ratios.values()
    by_optimizer = {n: [math.inf if (r := its[n]) is None else r for its in every] for n in shared}
    count = max(1, len(measures))
    return Profiles(
        taus=grid,
        shares={
            name: [sum(ratio <= tau for ratio in mine) / count for tau in grid]
            for name, mine in by_optimizer.items()
        },
        scores={
            name: sum(max(0.0, TAU_MAX - ratio) for ratio in mine) / (TAU_MAX - 1) / count
            for name, mine in by_optimizer.items()
        },
        ratios=ratios,
        unreached=[name for name, its in ratios.items() if all(r is None for r in its.values())],
        left_out=[name for name in raced if name not in shared],
    )
