"""rule.py against the oracle, on every kind of array it promises to take."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
import torch

from adamomentum import rule
from tests.oracle import Oracle

VARIANTS = [
    {},
    {"amsgrad": True},
    {"nesterov": True},
    {"rectify": True},
    {"debias_momentum": True},
    {"nesterov": True, "amsgrad": True},
    {"nesterov": True, "rectify": True, "debias_momentum": True},
]


def numpy_array(values):
    return np, np.array(values)


def torch_tensor(values):
    return torch, torch.tensor(values, dtype=torch.float64)


def jax_array(values):
    jnp = pytest.importorskip("jax.numpy")
    return jnp, jnp.array(values, dtype="float32")


def keras_tensor(values):
    pytest.importorskip("keras")
    from keras import ops

    return ops, ops.convert_to_tensor(np.array(values), dtype="float64")


def python_float(values):
    return None, float(values)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize(
    "array", [numpy_array, torch_tensor, jax_array, keras_tensor, python_float]
)
def test_every_kind_of_array_follows_the_oracle(array, variant):
    one = array is python_float
    random = np.random.default_rng(0)
    oracle = Oracle(0.0 if one else np.zeros(4), eps=1e-6, betas=(0.8, 0.95), lr=1.0, **variant)
    options = {name: on for name, on in variant.items() if name != "amsgrad"}
    xp, zero = array(0.0 if one else np.zeros(4))
    m, v, v_max = zero, zero, zero if variant.get("amsgrad") else None
    for t in range(1, 101):
        g = random.normal(size=None if one else 4)
        before = oracle.theta
        expected = before - oracle.step(g)
        scalars = rule.scalars(t, beta1=0.8, beta2=0.95, eps=1e-6, **options)
        d, m, v, v_max = rule.direction(xp, array(g)[1], m, v, scalars, v_max)
        assert type(d) is type(zero)
        tolerance = 1e-5 if array is jax_array else 1e-12
        np.testing.assert_allclose(np.asarray(d), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("rectify", [False, True])
def test_jax_traces_the_step_number(rectify):
    jax = pytest.importorskip("jax")

    @jax.jit
    def jitted(g, m, v, t):
        scalars = rule.scalars(t, rectify=rectify, xp=jax.numpy)
        return rule.direction(jax.numpy, g, m, v, scalars)[:3]

    with jax.enable_x64(True):
        oracle = Oracle(np.zeros(3), lr=1.0, rectify=rectify)
        m = v = jax.numpy.zeros(3)
        for t in range(1, 30):
            g = np.array([1.0, -2.0, 3.0]) * t
            d, m, v = jitted(g, m, v, t)
            before = oracle.theta
            np.testing.assert_allclose(d, before - oracle.step(g), rtol=1e-9)
        assert jitted._cache_size() == 1


def test_betas_may_change_from_step_to_step():
    m = v = 0.0
    _, m, v, _ = rule.direction(None, 1.0, m, v, rule.scalars(1, beta1=0.5, beta2=0.75, eps=0.0))
    assert (m, v) == (0.5, 0.0625)
    _, m, v, _ = rule.direction(None, 1.0, m, v, rule.scalars(2, beta1=0.0, beta2=0.5, eps=0.0))
    assert (m, v) == (1.0, 0.03125 + 0.5)


def test_bias_correction_can_be_left_out():
    options = {"beta1": 0.5, "beta2": 0.75, "bias_correction": False}
    d, m, v, _ = rule.direction(None, 2.0, 0.0, 0.0, rule.scalars(1, **options))
    assert (m, v) == (1.0, 0.25 + 1e-16)
    assert d == pytest.approx(2.0, rel=1e-15)
    d, *_ = rule.direction(None, 2.0, 0.0, 0.0, rule.scalars(1, nesterov=True, **options))
    assert d == pytest.approx((0.5 * 1 + 0.5 * 2) / 0.5, rel=1e-15)


def test_rectification_with_a_short_average_is_never_on():
    # b2 <= 2/3 gives rho_inf <= 5: RAdam never trusts v, and nothing divides by zero.
    for beta2 in (0.0, 0.5, 0.6, 2 / 3):
        for t in (1, 2, 50):
            on, r = rule.rectification(beta2, t)
            assert on == 0 or beta2 == 2 / 3
            assert np.isfinite(r)


@pytest.mark.parametrize("xp", [np, torch, None], ids=["numpy", "torch", "floats"])
def test_the_maximum_keeps_infinities_and_nan(xp):
    inf, nan = math.inf, math.nan
    before = [0.1, 0.7, inf, 1.0, nan, 0.0, 0.5]
    v = [0.7, 0.1, 1.0, inf, 1.0, 0.0, nan]
    expected = [0.7, 0.7, inf, inf, nan, 0.0, nan]
    scalars = rule.scalars(1, beta1=0.0, beta2=0.0, eps=0.0)  # the new v is the squared gradient
    if xp is None:
        found = [
            rule.direction(None, x**0.5, 0.0, 0.0, scalars, y)[3]
            for x, y in zip(v, before, strict=True)
        ]
    else:
        g, old = (xp.asarray(x, dtype=xp.float64) for x in (v, before))
        zero = xp.zeros_like(g)
        with np.errstate(invalid="ignore"):
            found = rule.direction(xp, xp.sqrt(g), zero, zero, scalars, old)[3]
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-15)


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.7, 0.9, 0.93, 0.95, 0.98, 0.999, 0.99999])
def test_the_corrections_are_exact(beta):
    with localcontext() as context:
        context.prec = 60
        b = Decimal(beta)
        for t in (*range(1, 60), 490, 500, 510, 3000, 10**5, 10**7):
            left, limit = 1 - b**t, 2 / (1 - b) - 1
            assert rule.remaining(beta, t) == pytest.approx(float(left), rel=4e-16)
            rho = limit - 2 * t * b**t / left
            on, r = rule.rectification(beta, t)
            assert on == (rho >= 5)
            if on:
                exact = (rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho)
                assert r == pytest.approx(float(exact.sqrt()), rel=1e-11)


def test_no_gradient_and_no_eps_is_no_update():
    scalars = rule.scalars(1, eps=0.0)
    d, *_ = rule.direction(np, np.zeros(2), np.zeros(2), np.zeros(2), scalars)
    np.testing.assert_array_equal(d, 0)
    # Also where the square of a momentum underflows, the step stays as small as the momentum.
    zero = np.zeros(2, np.float32)
    d, *_ = rule.direction(np, np.full(2, 1e-30, np.float32), zero, zero, scalars)
    assert np.all(np.abs(d) < 1e-29)


def test_an_infinite_v_does_not_disturb_steps_before_rectification():
    g, zero = np.float32([1e25]), np.zeros(1, np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        d, _, v, _ = rule.direction(np, g, zero, zero, rule.scalars(1, rectify=True))
    assert np.isinf(v)
    np.testing.assert_allclose(d, g, rtol=1e-6)


def test_refuses_amsgrad_with_rectify():
    with pytest.raises(ValueError, match="rectify"):
        rule.direction(None, 1.0, 0.0, 0.0, rule.scalars(1, rectify=True), 0.0)
