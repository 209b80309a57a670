"""Learning curves over seeds, from the records of epochs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from adamomentum_lab.selection import EpochRecord
from adamomentum_lab.stats.estimates import Estimate

Epochs = Sequence[EpochRecord]
Values = list[float | None]


def split_metrics(runs: Iterable[Epochs]) -> list[tuple[str, str]]:
    """The splits and metrics that were recorded, in the order of their first appearance."""
    found = {
        (split, metric): None
        for run in runs
        for record in run
        for split, scores in record.items()
        if split in ("train", "validation", "test")
        for metric in scores
    }
    return list(found)


def values(run: Epochs, split: str, metric: str, carried: bool = False) -> Values:
    """One value for each epoch of a run, None where there is none.

    With `carried`, an epoch that did not read the split has the last value before it: under `fair`,
    test is read only where validation is the best so far, and this is what would be reported of the
    run until here.
    """
    found: Values = []
    for record in run:
        value = record.get(split, {}).get(metric)
        found.append(found[-1] if carried and split not in record and found else value)
    return found


def band(columns: Sequence[Values]) -> dict[str, Values]:
    """Mean and 95 % t-interval at each epoch.

    It ends where the first run does: a mean over those that are left would improve by losing the
    others.
    """
    found: dict[str, Values] = {"mean": [], "low": [], "high": []}
    for now in zip(*columns, strict=False):
        known = [value for value in now if value is not None]
        estimate = Estimate.of(known if len(known) == len(now) else [])
        mean, half = estimate.mean, estimate.half
        found["mean"].append(mean)
        found["low"].append(None if half is None or mean is None else mean - half)
        found["high"].append(None if half is None or mean is None else mean + half)
    return found


def clock(runs: Iterable[Sequence[float]]) -> list[float]:
    """Seconds of training until the end of each epoch, the mean over runs, from those of each."""
    times = [list(accumulate(seconds)) for seconds in runs]
    return [sum(now) / len(now) for now in zip(*times, strict=False)]
