"""The forest plot: where the interval of each difference lies, for a figure made of boxes.

Places are in per cent of the width, so that the figure fits a phone and a printed page alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from adamomentum_lab.race.result import Result
from adamomentum_lab.report.savings import decided, share_in_words
from adamomentum_lab.report.verdicts import difference
from adamomentum_lab.words import number

ROOM = 0.06


@dataclass(frozen=True)
class Interval:
    """One line of the plot."""

    name: str
    words: str
    """The numbers."""
    kind: str
    """The verdict in a word or two."""
    side: str
    """"better", "worse", "same" or "open", for its colour."""
    left: float | None
    """Of the interval; None if there is none to draw."""
    right: float | None
    dot: float | None
    open_left: bool = False
    """Whether the interval goes on beyond the plot."""
    open_right: bool = False


@dataclass(frozen=True)
class Forest:
    """The whole plot."""

    rows: tuple[Interval, ...]
    zero: float
    margin: tuple[float, float] | None
    """Ends of the shaded margin."""
    ticks: tuple[tuple[float, str], ...]
    better: str
    """"left" or "right"."""


def forest(result: Result) -> Forest | None:
    """The differences to the baseline; None if there is no baseline, or nothing to compare."""
    verdicts = {verdict.a: verdict for verdict in result.verdicts}
    if result.race.baseline is None or not verdicts:
        return None
    ordered = [verdicts[row.optimizer] for row in result.rows if row.optimizer in verdicts]
    ends = {v.a: v.seed_interval if v.kind == "undecided" else v.interval for v in ordered}
    margin = result.race.margin
    values = [v.difference for v in ordered] + [end for pair in ends.values() for end in pair]
    scale = Scale.of([0.0, margin, margin and -margin, *values])
    rows = []
    for verdict in ordered:
        low, high = ends[verdict.a]
        drawn = verdict.difference is not None
        rows.append(
            Interval(
                verdict.a,
                difference(verdict),
                verdict.kind,
                {"better": "better", "worse": "worse", "equivalent": "same"}.get(
                    verdict.kind, "open"
                ),
                (0.0 if low is None else scale(low)) if drawn else None,
                (100.0 if high is None else scale(high)) if drawn else None,
                None if verdict.difference is None else scale(verdict.difference),
                drawn and low is None,
                drawn and high is None,
            )
        )
    return Forest(
        tuple(rows),
        scale(0.0),
        (scale(-margin), scale(margin)) if margin else None,
        tuple((scale(tick), signed(tick)) for tick in scale.ticks()),
        "right" if result.workload.larger_is_better else "left",
    )


def savings_forest(result: Result) -> Forest | None:
    """The updates that each contender needs, in parts of those of the baseline."""
    found = result.speedups
    if not found:
        return None
    names = [row.optimizer for row in result.rows if row.optimizer in found]
    first = found[names[0]]
    ends = (-math.log(first.longest), -math.log(first.shortest))
    scale = Scale.of([*ends, 0.0])
    rows = []
    for name in names:
        one = found[name]
        low, high = (one.factor, one.factor) if one.low is None else (one.low, one.high)
        assert high is not None
        sides = [min(max(-_log(f), ends[0]), ends[1]) for f in (high, one.factor, low)]
        side = "open" if not decided(name, result) else "better" if one.factor > 1 else "worse"
        kind = {"better": "saves", "worse": "costs more", "open": "may be chance"}[side]
        left, dot, right = map(scale, sides)
        rows.append(
            Interval(
                name, share_in_words(one), kind, side, left, right, dot,
                math.isinf(high), low == 0.0,
            )
        )  # fmt: skip
    marks = sorted({1.0, *(round(1 / b.factor, 4) for b in result.budgets)})
    ticks = tuple((scale(math.log(mark)), f"{mark:.3g}") for mark in marks)
    return Forest(tuple(rows), scale(0.0), None, ticks, "left")


def _log(factor: float) -> float:
    return math.log(factor) if factor else -math.inf


@dataclass(frozen=True)
class Scale:
    """From values to per cent of the width."""

    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Scale:
        """With some room at both ends."""
        finite = [v for v in values if v is not None and math.isfinite(v)]
        low, high = min(finite), max(finite)
        room = ROOM * (high - low) or 1.0
        return cls(low - room, high + room)

    def __call__(self, value: float) -> float:
        """The place of a value."""
        return round(100 * (value - self.low) / (self.high - self.low), 2)

    def ticks(self) -> Sequence[float]:
        """Three to six round numbers."""
        rough = (self.high - self.low) / 4
        unit = 10.0 ** math.floor(math.log10(rough))
        step = unit * min((1, 2, 5, 10), key=lambda m: abs(m * unit - rough))
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [step * i for i in range(first, last + 1)]


def signed(value: float) -> str:
    """A tick, with its sign."""
    text = number(float(f"{value:.6g}"))
    return f"+{text}" if value > 0 else text
