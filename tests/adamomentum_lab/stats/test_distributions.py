"""Student's t, central and noncentral, beside SciPy's and beside what is known exactly."""

import math
import subprocess
import sys
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats

from adamomentum_lab.stats.distributions import (
    find_zero,
    log_gamma_step,
    noncentral_t_cdf,
    normal_cdf,
    t_quantile,
    two_sided_p,
)

FREEDOMS = [1, 2, 3, 4, 5, 9, 10, 29, 30, 31, 99, 100, 101, 999, 10_000]


def test_quantiles_of_t_are_scipys():
    for freedom in range(1, 31):
        assert t_quantile(freedom) == float(special.stdtrit(freedom, 0.975))
    for freedom in range(31, 61):
        assert t_quantile(freedom) == pytest.approx(special.stdtrit(freedom, 0.975), rel=2e-15)


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_p_is_scipys_to_the_far_tail(freedom):
    for t in (1e-3, 0.1, 0.5, 1, 1.5, 2, 3, 5, 10, 30, 100, 1e3, 1e6, 1e10):
        expected = 2 * special.stdtr(freedom, -t)
        assert two_sided_p(t, freedom) == pytest.approx(expected, rel=3e-12, abs=1e-290)
        assert two_sided_p(-t, freedom) == two_sided_p(t, freedom)
    assert two_sided_p(0.0, freedom) == 1.0


def test_p_by_hand():
    # With one degree of freedom t is Cauchy's, with two its tail is 1 - t / sqrt(2 + t^2).
    for t in (1e-6, 0.3, 1.0, 7.0, 1e5, 1e12):
        assert two_sided_p(t, 1) == pytest.approx(2 / math.pi * math.atan2(1, t), rel=1e-14)
        tail = 2 / (2 + t * t) / (1 + t / math.sqrt(2 + t * t))
        assert two_sided_p(t, 2) == pytest.approx(tail, rel=1e-13)
    assert two_sided_p(math.inf, 5) == 0.0


@given(st.integers(1, 3000), st.floats(-60, -0.5))
def test_a_quantile_has_its_tail(freedom, log_tail):
    tail = 10.0**log_tail
    try:
        expected = -special.stdtrit(freedom, tail)
        t = t_quantile(freedom, tail)
    except OverflowError:
        return
    assert two_sided_p(t, freedom) == pytest.approx(2 * tail, rel=1e-11)
    if tail > 1e-15:
        assert t == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 6, 9, 10, 39, 40, 199])
def test_noncentral_t_is_scipys(freedom):
    for t in (0.1, 0.5, 1, 2, 3, 5, 12, 60, 1300):
        for shift in (0, 0.1, 0.5, 1, 2, 3, 5, 10, 30):
            expected = special.nctdtr(freedom, shift, t)
            found = noncentral_t_cdf(t, freedom, shift)
            assert found == pytest.approx(expected, rel=1e-10, abs=1e-15)
    assert noncentral_t_cdf(2.0, freedom, 0.0) == pytest.approx(stats.t.cdf(2.0, freedom))


@pytest.mark.parametrize(("freedom", "t", "shift"), [(1, 1300.0, 1700.0), (2, 60.0, 90.0)])
def test_noncentral_t_by_its_definition(freedom, t, shift):
    def density(z):
        return stats.norm.pdf(z) * stats.chi2.sf(freedom * ((shift + z) / t) ** 2, freedom)

    expected, _ = integrate.quad(density, -9, 9, epsabs=1e-13)
    assert noncentral_t_cdf(t, freedom, shift) == pytest.approx(expected, abs=1e-11)


def test_small_parts():
    for x in (-30.0, -3.0, 0.0, 1.0, 8.0):
        assert normal_cdf(x) == pytest.approx(special.ndtr(x), rel=1e-13)
    for a in (1, 7, 49, 50, 51, 1000):
        # Of whole numbers it is sqrt(pi) a C(2a, a) / 4^a.
        expected = math.sqrt(math.pi) * float(Fraction(a * math.comb(2 * a, a), 4**a))
        assert math.exp(log_gamma_step(a)) == pytest.approx(expected, rel=1e-13)
    assert find_zero(lambda x: x**3 - 2, 0.0, 9.0) == pytest.approx(2 ** (1 / 3), rel=1e-15)
    assert find_zero(lambda x: 1.0 if x < 0.7 else -1.0, 0.0, 1.0) == pytest.approx(0.7)


def test_statistics_import_neither_numpy_nor_scipy():
    code = (
        "import sys; from adamomentum_lab.stats import comparisons, curves, profiles;"
        "found = comparisons.compare('x', [1.0, 2.0, 4.0] * 6, {'a': [2.0, 4.0, 5.0] * 6}, True);"
        "assert found[0].missed is not None and comparisons.sign_flips([1.0, 2.0] * 9) < 1;"
        "print([name for name in ('numpy', 'scipy', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
