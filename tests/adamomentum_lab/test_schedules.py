"""Learning rates over a run, by hand."""

import math

import pytest

from adamomentum_lab.schedules import Constant, Cosine, InverseSqrt, Moment, Step


def lrs(schedule, epochs, per_epoch, base=1.0):
    return [schedule.lr(base, Moment(u, u / per_epoch, epochs)) for u in range(epochs * per_epoch)]


def test_constant():
    assert set(lrs(Constant(), 3, 4, base=0.1)) == {0.1}


def test_the_papers_steps():
    by_epoch = lrs(Step(), 200, 1, base=0.1)
    assert by_epoch[59] == 0.1
    assert by_epoch[60] == pytest.approx(0.02)
    assert by_epoch[119] == pytest.approx(0.02)
    assert by_epoch[120] == pytest.approx(0.004)
    assert by_epoch[160:] == pytest.approx([0.0008] * 40)


def test_steps_fall_at_the_beginning_of_an_epoch():
    # 0.5 of 3 epochs is 1.5, which rounds to the beginning of the third.
    assert lrs(Step(at=(0.5,), factor=0.1), 3, 2) == pytest.approx([1, 1, 1, 1, 0.1, 0.1])


def test_cosine():
    curve = lrs(Cosine(), 10, 10)
    assert curve[0] == 1.0
    assert curve[50] == pytest.approx(0.5)
    assert curve == sorted(curve, reverse=True)
    assert 0 < curve[-1] < 1e-3
    end = lrs(Cosine(final=0.1), 10, 1000)[-1]
    assert end == pytest.approx(0.1, abs=1e-6)


def test_cosine_with_warmup():
    curve = lrs(Cosine(warmup=0.1), 10, 10)
    assert curve[:11] == pytest.approx([i / 10 for i in range(11)])
    assert max(curve) == curve[10] == 1.0


def test_inverse_sqrt_as_the_paper_states_it():
    schedule = InverseSqrt()
    base = 5e-4

    def lr(update):
        return schedule.lr(base, Moment(update, update / 1000, 55))

    assert lr(0) == pytest.approx(1e-7 + (base - 1e-7) / 8000)
    assert lr(3999) == pytest.approx((1e-7 + base) / 2, rel=1e-3)
    assert lr(7999) == base
    assert lr(31999) == pytest.approx(base / 2)
    assert InverseSqrt(least=1e-4).lr(base, Moment(10**9, 1.0, 2)) == 1e-4
    assert math.isclose(lr(8000), base, rel_tol=1e-3)
