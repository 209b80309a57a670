"""The oracle against steps worked out by hand, with fractions that come out even.

Common setting: betas (1/2, 3/4), eps 1/4, lr 1, theta 10, gradients 2 then 4.

    t  m          v                                1-b1^t  1-b2^t  m_hat  v_hat
    1  1          1/4*1 + 1/4 = 1/2                1/2     1/4     2      2
    2  1/2+2=5/2  3/8 + 25/16 + 1/4 = 35/16        3/4     7/16    10/3   5
"""

import numpy as np
import pytest

from tests.oracle import Oracle

COMMON = {"lr": 1.0, "betas": (0.5, 0.75), "eps": 0.25}


def walk(gradients=(2.0, 4.0), **options):
    oracle = Oracle([10.0], **{**COMMON, **options})
    return oracle, [oracle.step([g])[0] for g in gradients]


def test_algorithm_1():
    oracle, (first, second) = walk()
    assert first == pytest.approx(10 - np.sqrt(2), rel=1e-15)
    assert second == pytest.approx(10 - np.sqrt(2) - (10 / 3) / np.sqrt(5), rel=1e-15)
    assert oracle.m == pytest.approx(2.5, rel=1e-15)
    assert oracle.v == pytest.approx(35 / 16, rel=1e-15)


def test_maximize_and_decoupled_decay():
    # theta keeps 1 - lr wd = 1/2 before the step, which is taken upwards.
    _, (first, _) = walk(maximize=True, weight_decay=0.5)
    assert first == pytest.approx(5 + np.sqrt(2), rel=1e-15)


def test_coupled_decay():
    # g = 2 + 1/5*10 = 4: m 2, v 1/4*4 + 1/4 = 5/4, m_hat 4, v_hat 5.
    _, (first, _) = walk(weight_decay=0.2, decoupled_weight_decay=False)
    assert first == pytest.approx(10 - 4 / np.sqrt(5), rel=1e-15)


def test_amsgrad():
    # eps 0: v is 1/4, then with g = -1 (m = 0) 3/16; the maximum stays 1/4, v_hat = 4/7.
    oracle, (_, second) = walk((2.0, -1.0), eps=0.0, amsgrad=True)
    assert oracle.v == pytest.approx(3 / 16, rel=1e-15)
    assert oracle.v_max == pytest.approx(1 / 4, rel=1e-15)
    assert second == pytest.approx(10 - 2 / np.sqrt(1), rel=1e-15)  # m = 0: no second step
    # g = 2, -1, 4: m 2, v 9/64 + 1 = 73/64 > 1/4; m_hat 16/7, v_hat 73/37.
    _, (*_, third) = walk((2.0, -1.0, 4.0), eps=0.0, amsgrad=True)
    assert third == pytest.approx(8 - (16 / 7) / np.sqrt(73 / 37), rel=1e-15)


def test_nesterov():
    # Numerator 1/2*1/(3/4) + 1/2*2/(1/2) = 2/3 + 2 over sqrt(2).
    _, (first, _) = walk(nesterov=True)
    assert first == pytest.approx(10 - (8 / 3) / np.sqrt(2), rel=1e-15)


def test_debias_momentum():
    # The square is of m_hat = 2: v = 1/4*4 + 1/4 = 5/4, v_hat = 5; without eps the step is lr.
    _, (first, _) = walk(debias_momentum=True)
    assert first == pytest.approx(10 - 2 / np.sqrt(5), rel=1e-15)
    _, (first, _) = walk(debias_momentum=True, eps=0.0)
    assert first == pytest.approx(10 - 1, rel=1e-15)


def test_rectify():
    # b2 = 7/8: rho_inf = 15; at t = 1 rho = 15 - 2*7/8/(1/8) = 1 < 5, a step of lr m_hat.
    oracle = Oracle([10.0], **{**COMMON, "betas": (0.5, 0.875)}, rectify=True)
    assert oracle.step([2.0])[0] == pytest.approx(8, rel=1e-15)
    # From t = 6 on rho >= 5. There, with gradients of 1: m = 1 - 2^-6, and by hand
    # v = (1-b2) sum b2^(6-i) ((1-2^-i)^2 + eps/(1-b2)), rho = 15 - 12 q/(1-q), q = (7/8)^6.
    oracle = Oracle([0.0], **{**COMMON, "betas": (0.5, 0.875)}, rectify=True)
    for _ in range(5):
        before = oracle.step([1.0])[0]
    assert before == pytest.approx(-5, rel=1e-15)
    q = (7 / 8) ** 6
    rho = 15 - 12 * q / (1 - q)
    assert 5 < rho < 6
    v = sum((7 / 8) ** (6 - i) * ((1 - 2.0**-i) ** 2 / 8 + 0.25) for i in range(1, 7))
    r = np.sqrt((rho - 4) * (rho - 2) * 15 / ((15 - 4) * (15 - 2) * rho))
    expected = before - r * np.sqrt(1 - q) / (np.sqrt(v) + 0.25)
    assert oracle.step([1.0])[0] == pytest.approx(expected, rel=1e-15)


def test_nothing_happens_without_gradient_and_eps():
    oracle = Oracle([10.0], eps=0.0)
    for _ in range(3):
        assert oracle.step([0.0])[0] == 10


@pytest.mark.parametrize("options", [{}, {"amsgrad": True}, {"rectify": True}, {"nesterov": True}])
def test_a_continued_run_takes_the_same_steps(options):
    whole, first = (Oracle([10.0, -3.0], **COMMON, **options) for _ in range(2))
    for t in range(4):
        whole.step([2.0 - t, t])
        first.step([2.0 - t, t])
    start = (first.m, first.v, first.v_max, first.t)
    rest = Oracle(first.theta, **COMMON, **options, start=start)
    for t in range(4, 8):
        np.testing.assert_allclose(rest.step([2.0 - t, t]), whole.step([2.0 - t, t]), rtol=1e-14)
    np.testing.assert_allclose(rest.v, whole.v, rtol=1e-14)
