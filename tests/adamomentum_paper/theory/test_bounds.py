"""The bounds on regret and on non-convex convergence, worked by hand."""

import math
from fractions import Fraction

import numpy as np
import pytest

from adamomentum_paper.theory import _adversary, _nonconvex, _online, regret
from adamomentum_paper.theory._bounds import (
    Average,
    Regret,
    Smooth,
    harmonic,
    lemma,
    short_lemma,
)


class Two:
    """f_1 = (theta - 1)^2 / 2, f_2 = theta^2 / 2."""

    seeds, dimension = 1, 1

    def at(self, t, theta):
        g = theta - (1.0 if t == 1 else 0.0)
        return 0.5 * (g * g).sum(-1), g

    def comparator(self, rounds):
        best = 1 / rounds
        return np.full((1, 1), best), np.array([0.5 * (best - 1) ** 2 + (rounds - 1) * best**2 / 2])


@pytest.mark.parametrize("amsgrad", [False, True])
def test_a_regret_worked_by_hand(amsgrad):
    # beta_{1,1} = 5/8 x 4/5 = 1/2: m_1 = -1/2; v_1 = 1/4 x 1/4 + 3/16 = 1/4; step 1/2 x 1.
    play = _online.Play(
        Two(), amsgrad=amsgrad, alphas=(0.5,), decays=(0.8,), beta1=0.625, beta2=0.75, eps=3 / 16
    )
    play.step()
    assert play.theta.item() == 0.5
    play.step()
    found = {key: value[0][0][0] for key, value in play.so_far().items()}
    # Losses 1/2 and 1/8; the best point, 1/2, pays 1/8 twice.
    regret = Fraction(1, 2) + Fraction(1, 8) - 2 * Fraction(1, 8)
    assert found["regret"] == regret == Fraction(3, 8)
    assert found["distance"] == found["iterates_distance"] == 0.5
    # g_2 = 1/2, beta_{1,2} = 2/5: m_2 = -1/5 + 3/10 = 1/10; v_2 = 3/16 + 1/400 + 3/16.
    m2, v2 = Fraction(1, 10), Fraction(3, 8) + Fraction(1, 400)
    assert found["roots"] == pytest.approx(math.sqrt(v2))
    assert found["norms"] == pytest.approx(math.sqrt(1 + Fraction(1, 4)))
    weighted = 0.5 * 0.5 + 0.4 * math.sqrt(2 * v2)
    assert found["weighted"] == pytest.approx(weighted)
    momenta = 0.25 / 0.5 + float(m2**2) / math.sqrt(2 * v2)
    assert found["lemma"] == pytest.approx(momenta / math.sqrt(1.25))
    assert found["fell"] == found["fell_much"] == 0
    # beta2 m_1^2 + m_2^2 is below beta2 (m_1)^2 + (3/5 x 1/2)^2: the proof's step fails at t = 2.
    assert found["step_fails"] == 0.5


def test_bounds_of_the_convex_theorem_by_hand():
    # beta2 = 1/4 and beta1 = 1/4: gamma = 1/2, 1 - beta1 = 3/4, sqrt(1 - beta2) = sqrt(3)/2.
    by_hand = 1 / ((9 / 16) * (1 / 2) * math.sqrt(3) / 2)
    assert lemma(0.25, 0.25) == pytest.approx(by_hand)
    assert short_lemma(0.25, 0.25) == pytest.approx(4 / 3)
    made_of = Regret(
        rounds=1, alpha=0.5, beta1=0.25, beta2=0.25,
        distance=2.0, roots=3.0, weighted=5.0, norms=7.0,
    )  # fmt: skip
    # D^2/(2 alpha (1-beta1)) = 4/(3/4) = 16/3; times 3 + 5; then 1/2 x constant/(3/4) x 7.
    assert made_of.bound() == pytest.approx(16 / 3 * 8 + 0.5 * by_hand * 4 / 3 * 7)
    assert made_of.bound(constant=4 / 3) == pytest.approx(16 / 3 * 8 + 0.5 * 16 / 9 * 7)


def test_bounds_of_the_convex_corollary_by_hand():
    made_of = Average(
        rounds=1, dimension=2, alpha=0.5, beta1=0.25, beta2=0.25, decay=0.5, eps=3.0,
        distance=2.0, gradient=1.0,
    )  # fmt: skip
    # sqrt(eps/(1-beta2)) = 2; terms 2 x 1/2 x lemma/(3/4), 2 x 16/3, 2 x 16/3 x 1/4 / (1/4).
    momenta, middle, last = 4 / 3 * lemma(0.25, 0.25), 32 / 3, 32 / 3
    assert made_of.terms() == pytest.approx((momenta, middle, last))
    assert made_of.printed() == pytest.approx(3 * (momenta + middle) + last)
    assert made_of.derived() == pytest.approx(momenta + 3 * (middle + last))


def test_bounds_of_the_non_convex_theorem_by_hand():
    # eps = 3/4, beta2 = 1/4: eps/(1-beta2) = 1, b_u(1) = sqrt(4/3), v at most (3 + 1)(1 - beta2^t).
    made_of = Smooth(lipschitz=0.5, gradient=math.sqrt(3), eps=0.75, beta2=0.25)
    b_u, rest = math.sqrt(4 / 3), 1 - 1 / 16
    b_l = 1 / (2 * math.sqrt(rest))
    assert made_of.b_u(1) == pytest.approx(b_u)
    assert made_of.b_u(2) == pytest.approx(1 / math.sqrt(rest))
    assert made_of.b_l(1) == pytest.approx(b_l)  # of the proof's last step, 2
    assert made_of.b_l(2, printed=True) == pytest.approx(1 / (2 * rest))
    assert made_of.coupled(1) == pytest.approx(math.sqrt(b_l / (0.5 * b_u**3)))
    assert made_of.curvature(1) == pytest.approx(b_l / b_u**2)
    assert made_of.admissible(1) == min(made_of.coupled(1), made_of.curvature(1))
    # T = 1, eta = 1 + 1/2.
    q1 = 2 * 5 / b_l + math.sqrt(1 / (0.5 * b_u * b_l)) * (3 + 7)
    q2 = math.sqrt(2 / (0.25 * b_u * b_l)) * 3
    found = made_of.bound(1, alpha=0.1, gap=5.0, squared=7.0, variance=3.0)
    assert found == pytest.approx((q1 + q2 * 1.5) / (0.1 * math.sqrt(2)))
    printed = made_of.bound(1, 0.1, 5.0, 7.0, 3.0, printed_q2=True)
    assert printed == pytest.approx((q1 + q2 * math.sqrt(0.5) * 1.5) / (0.1 * math.sqrt(2)))


def test_harmonic_sums():
    exact = sum(Fraction(1, k) for k in range(1, 201))
    assert harmonic(200) == pytest.approx(float(exact), rel=1e-10)
    assert harmonic(4) == pytest.approx(25 / 12)


@pytest.mark.parametrize("name", _online.STREAMS)
def test_no_point_does_better_than_the_comparator(name):
    stream = _online.STREAMS[name](40, 2)
    best, loss = stream.comparator(40)

    def total(theta):
        return sum(stream.at(t, theta)[0] for t in range(1, 41))

    np.testing.assert_allclose(total(best), loss, rtol=1e-12)
    random = np.random.default_rng(0)
    for scale in (1e-3, 0.1, 1.0):
        others = best + scale * random.normal(size=(50, *best.shape))
        assert (total(others) >= loss - 1e-9).all()
    if name != "sparse":  # where there is a derivative
        g = sum(stream.at(t, best)[1] for t in range(1, 41))
        assert np.abs(g).max() < 1e-8


@pytest.mark.parametrize("name", _online.STREAMS)
def test_gradients_are_those_of_the_losses(name):
    stream = _online.STREAMS[name](3, 2)
    theta = np.random.default_rng(0).normal(size=(2, stream.dimension))
    _, g = stream.at(2, theta)
    for i in range(3):
        step = 1e-6 * np.eye(stream.dimension)[i]
        slope = (stream.at(2, theta + step)[0] - stream.at(2, theta - step)[0]) / 2e-6
        np.testing.assert_allclose(g[:, i], slope, atol=1e-7)


@pytest.mark.parametrize("name", _online.STREAMS)
def test_only_the_amsgrad_form_never_lowers_v(name):
    stream = _online.STREAMS[name](200, 2)
    plays = [_online.Play(stream, amsgrad=amsgrad) for amsgrad in (False, True)]
    fell = [False, False]
    for _ in range(200):
        for i, play in enumerate(plays):
            before = play.used
            play.step()
            fell[i] |= bool((play.used < before).any())
    assert fell == [True, False]
    assert np.max(plays[1].so_far()["fell"]) == 0
    # beta2 t >= t - 1 until round 1000: t v cannot fall before.
    assert np.max(plays[0].so_far()["fell_much"]) == 0


def test_the_theorem_needs_the_distance_to_the_best_point():
    far = regret._far()
    parts = (far["rounds"], far["alpha"], 0.9, 0.999)
    rest = (far["roots"], far["weighted"], far["norms"])
    assert far["regret"] > Regret(*parts, far["iterates_distance"], *rest).bound()
    assert far["regret"] < Regret(*parts, far["distance"], *rest).bound()


def test_adversarial_streams_favour_minus_one():
    for setting in _adversary.SETTINGS:
        g = _adversary._gradients(setting, 12_000)
        assert g.sum() > 0
        assert set(np.unique(g)) == {-1.0, setting.large}


def test_algorithm_1_breaks_the_bound_where_v_falls():
    numbers = _adversary.play(18_000, lambda part: None)
    ours, theirs = (np.array(numbers[form]["of_bound"]) for form in ("algorithm1", "amsgrad"))
    assert ours[-1, 0] > 1 > theirs.max()
    assert numbers["algorithm1"]["end"][0] > 0.9 > -0.9 > numbers["amsgrad"]["end"][0]


@pytest.mark.parametrize("function", _nonconvex.FUNCTIONS.values())
def test_constants_of_the_functions(function):
    x = np.linspace(-20, 20, 400_001)
    slope = function.gradient(x)
    np.testing.assert_allclose(np.gradient(function.value(x), x)[1:-1], slope[1:-1], atol=1e-7)
    assert np.abs(slope).max() == pytest.approx(function.largest, rel=1e-6)
    assert np.abs(np.diff(slope)).max() / (x[1] - x[0]) == pytest.approx(function.lipschitz, 1e-4)
    assert function.value(np.zeros(1))[0] == 0 == function.value(x).min()


def test_v_stays_between_what_the_proof_gives():
    setting = _nonconvex.QUIET
    for steps in (1, 7, 50):
        smallest = _nonconvex._constant_gradient(steps)
        assert setting.b_l(steps - 1) == pytest.approx(smallest)  # the proof's last step is T + 1
        assert smallest < setting.b_l(steps, printed=True)
        assert smallest < setting.b_u(steps)
