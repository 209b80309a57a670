"""Student's t, central and noncentral, without SciPy, whose import takes longer than a report."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

_TINY = 1e-300
# 97.5 % quantiles with 1 to 30 degrees of freedom, to the last digit.
_T = (
    12.706204736174694, 4.302652729749462, 3.1824463052837078, 2.7764451051977934,
    2.5705818356363146, 2.4469118511449786, 2.364624251592784, 2.306004135204166,
    2.262157162798205, 2.228138851986274, 2.200985160091639, 2.1788128296672284,
    2.1603686564627913, 2.144786687917804, 2.131449545559776, 2.1199052992212546,
    2.1098155778333156, 2.1009220402410382, 2.0930240544083087, 2.085963447265864,
    2.0796138447276795, 2.0738730679040254, 2.0686576104190486, 2.0638985616280245,
    2.0595385527532972, 2.0555294386428735, 2.0518305164802846, 2.0484071417952454,
    2.045229642132703, 2.0422724563012378,
)  # fmt: skip


def normal_cdf(x: float) -> float:
    """P(Z <= x) of the standard normal distribution."""
    return 0.5 * math.erfc(-x / math.sqrt(2))


def log_gamma_step(a: float) -> float:
    """log(gamma(a + 1/2) / gamma(a)); for a large a by its series, where gammas lose digits."""
    if a < 50:
        return math.lgamma(a + 0.5) - math.lgamma(a)
    return 0.5 * math.log(a) - 1 / (8 * a) + 1 / (192 * a**3) - 1 / (640 * a**5)


def two_sided_p(t: float, freedom: int) -> float:
    """P(|T| >= |t|) of Student's t: an incomplete beta function."""
    if not t:
        return 1.0
    a, x = freedom / 2, freedom / (freedom + t * t)
    rest = 1 / (1 + freedom / t / t)  # 1 - x, to all its digits
    if not x:
        return 0.0
    # log1p: x to a large power, where x is close to 1.
    log = log_gamma_step(a) + a * (math.log(x) if x < 0.5 else math.log1p(-rest))
    scale = math.exp(log + 0.5 * math.log(rest)) / math.sqrt(math.pi)
    if x > (a + 1) / (a + 2.5):  # the fraction converges slowly: from the other end
        return 1.0 - 2 * scale * _beta_fraction(0.5, a, rest)
    return scale * _beta_fraction(a, 0.5, x) / a


@functools.cache
def t_quantile(freedom: int, tail: float = 0.025) -> float:
    """The t that T exceeds with a chance of `tail`, at most 0.5."""
    if tail == 0.025 and freedom <= len(_T):
        return _T[freedom - 1]
    high = 1.0
    while two_sided_p(high, freedom) > 2 * tail:
        high *= 2
    return find_zero(lambda t: two_sided_p(t, freedom) / (2 * tail) - 1, 0.0, high)


def noncentral_t_cdf(t: float, freedom: int, shift: float) -> float:
    """P(T <= t) of the noncentral t distribution, for t and shift from 0 on.

    Owen 1965, "A special case of a bivariate non-central t-distribution": a finite sum for whole
    degrees of freedom. All its terms are positive, so that no digits are lost.
    """
    a, b = t / math.sqrt(freedom), freedom / (freedom + t * t)
    root = math.sqrt(b)
    first = a * root * _density(shift * root) * normal_cdf(shift * a * root)
    second = b * a * (shift * first + _density(shift) / math.sqrt(2 * math.pi))
    terms, factor = [first, second], 1.0
    for k in range(2, freedom - 1):
        terms.append((k - 1) / k * b * (factor * shift * a * terms[-1] + terms[-2]))
        factor = 1 / ((k - 1) * factor)
    if freedom % 2:
        total = math.fsum(terms[1 : freedom - 1 : 2])
        return normal_cdf(-shift * root) + 2 * (_owen(shift * root, a) + total)
    return normal_cdf(-shift) + math.sqrt(2 * math.pi) * math.fsum(terms[: freedom - 1 : 2])


def find_zero(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a monotonous function that has another sign at each end is 0, to the last digits."""
    at_low, at_high = function(low), function(high)
    for i in range(200):
        # Regula falsi by turns with halves: fast where the function is smooth, sure elsewhere.
        middle = (low + high) / 2
        if i % 3 and at_high != at_low:
            middle = high - at_high * (high - low) / (at_high - at_low)
        if not low < middle < high:
            middle = (low + high) / 2
        if middle in (low, high):
            break
        value = function(middle)
        if (value < 0) == (at_low < 0):
            low, at_low = middle, value
        else:
            high, at_high = middle, value
    return low if abs(at_low) < abs(at_high) else high


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _owen(h: float, a: float) -> float:
    """Owen's T function, for h and a from 0 on."""
    if a > 1:
        one, two = normal_cdf(h), normal_cdf(a * h)
        return (one + two) / 2 - one * two - _owen(a * h, 1 / a)

    def integrand(x: float) -> float:
        return math.exp(-h * h * (1 + x * x) / 2) / (1 + x * x)

    # Romberg's method: the trapezoidal rule, extrapolated to steps of no width.
    row = [a * (integrand(0.0) + integrand(a)) / 2]
    for level in range(1, 9):
        count = 2 ** (level - 1)
        middles = math.fsum(integrand(a * (i + 0.5) / count) for i in range(count))
        new = [row[0] / 2 + a * middles / (2 * count)]
        for k, old in enumerate(row, 1):
            new.append(new[-1] + (new[-1] - old) / (4**k - 1))
        row = new
    return row[-1] / (2 * math.pi)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, 1.0 / _not_zero(1.0 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for part in (even, odd):
            d = 1.0 / _not_zero(1.0 + part * d)
            c = _not_zero(1.0 + part / c)
            value *= c * d
        if abs(c * d - 1.0) < 1e-16:
            break
    return value


def _not_zero(x: float) -> float:
    return x if abs(x) > _TINY else _TINY
