"""What a race can see, before it starts. Differences are in units of the spread: the standard
deviation over seeds of the difference of two contenders.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from adamomentum_lab.stats.comparisons import POWER, detectable
from adamomentum_lab.stats.distributions import find_zero, normal_cdf, t_quantile

PANELS = 400
"""Of Simpson's rule, over a smooth density: errors below 1e-8."""


@dataclass(frozen=True)
class Sight:
    """What one look can see with 80 % power, in units of the spread.

    Seeds alone are counted: that the settings beside the tuned ones have to be bounded, too, takes
    some of the power.
    """

    seeds: int
    level: float
    """What the look spends, over the number of pairs."""
    difference: float
    """The smallest true difference that it finds."""
    margin: float
    """The smallest margin within which it calls two equals equivalent."""


def sight(seeds: int, level: float) -> Sight | None:
    """What a look at so many seeds can see; None if it is too few seeds, or nothing is left to
    spend."""
    if seeds < 2 or level <= 0:
        return None
    return Sight(seeds, level, detectable(seeds, level), equivalent_margin(seeds, level))


@functools.cache
def equivalent_margin(n: int, level: float, power: float = POWER) -> float:
    """The margin, in standard deviations of the differences, inside which the two-sided interval of
    n differences at a level lies with this power, if the true mean is 0."""
    high = 1.0
    while equivalence_power(high, n, level) < power:
        high *= 2
    return find_zero(lambda margin: equivalence_power(margin, n, level) - power, 0.0, high)


def equivalence_power(margin: float, n: int, level: float) -> float:
    """The chance that the interval lies within plus and minus the margin, if the true mean is 0."""
    freedom, t = n - 1, t_quantile(n - 1, level / 2)

    def inside(spread: float) -> float:
        room = margin * math.sqrt(n) - t * spread
        return (2 * normal_cdf(room) - 1) * _spread_density(spread, freedom) if room > 0 else 0.0

    return _integral(inside, 0.0, min(margin * math.sqrt(n) / t, _most(freedom)))


def spread_limit(differences: Sequence[float], confidence: float = 0.8) -> float | None:
    """The upper limit of the standard deviation that pilots of n seeds estimate; None of fewer than
    two. The true one is below with this confidence."""
    n = len(differences)
    if n < 2 or not all(map(math.isfinite, differences)):
        return None
    middle = math.fsum(differences) / n
    variance = math.fsum((value - middle) ** 2 for value in differences) / (n - 1)
    return math.sqrt(variance) / _spread_quantile(n - 1, 1 - confidence)


@functools.cache
def _spread_quantile(freedom: int, p: float) -> float:
    """The estimated standard deviation, in true ones, that an estimate is below with chance p."""
    return find_zero(
        lambda spread: (
            _integral(lambda s: _spread_density(s, freedom), 0.0, spread) - p if spread else -p
        ),
        0.0,
        _most(freedom),
    )


def _spread_density(spread: float, freedom: int) -> float:
    """The density of an estimated standard deviation whose true value is 1 (a scaled chi)."""
    if not spread:
        return math.sqrt(2 / math.pi) if freedom == 1 else 0.0
    half = freedom / 2
    log = math.log(2) + half * math.log(half) - math.lgamma(half)
    return math.exp(log + (freedom - 1) * math.log(spread) - half * spread * spread)


def _most(freedom: int) -> float:
    """An estimate of a standard deviation of 1 that practically none exceeds."""
    return 1 + 9 / math.sqrt(freedom)


def _integral(function: Callable[[float], float], low: float, high: float) -> float:
    """By Simpson's rule."""
    step = (high - low) / PANELS
    ends = function(low) + function(high)
    odd = math.fsum(function(low + i * step) for i in range(1, PANELS, 2))
    even = math.fsum(function(low + i * step) for i in range(2, PANELS, 2))
    return step / 3 * (ends + 4 * odd + 2 * even)
