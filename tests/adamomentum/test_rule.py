"""rule.py against the oracle, on every kind of array it promises to take."""

import ast
from pathlib import Path

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
    return np.array(values)


def torch_tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def jax_array(values):
    return pytest.importorskip("jax.numpy").array(values, dtype="float32")


def keras_tensor(values):
    pytest.importorskip("keras")
    from keras import ops

    return ops.convert_to_tensor(np.array(values), dtype="float64")


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("array", [numpy_array, torch_tensor, jax_array, keras_tensor, float])
def test_every_kind_of_array_follows_the_oracle(array, variant):
    one = array is float
    random = np.random.default_rng(0)
    oracle = Oracle(0.0 if one else np.zeros(4), eps=1e-6, betas=(0.8, 0.95), lr=1.0, **variant)
    options = {name: on for name, on in variant.items() if name != "amsgrad"}
    zero = array(0.0 if one else np.zeros(4))
    m, v, v_max = zero, zero, zero if variant.get("amsgrad") else None
    for t in range(1, 101):
        g = random.normal(size=None if one else 4)
        before = oracle.theta
        expected = before - oracle.step(g)
        d, m, v, v_max = rule.direction(
            array(g), m, v, t, beta1=0.8, beta2=0.95, eps=1e-6, v_max=v_max, **options
        )
        assert type(d) is type(zero)
        tolerance = 1e-5 if array is jax_array else 1e-12
        np.testing.assert_allclose(np.asarray(d), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("rectify", [False, True])
def test_jax_traces_the_step_number(rectify):
    jax = pytest.importorskip("jax")
    jitted = jax.jit(lambda g, m, v, t: rule.direction(g, m, v, t, rectify=rectify)[:3])
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
    _, m, v, _ = rule.direction(1.0, m, v, 1, beta1=0.5, beta2=0.75, eps=0.0)
    assert (m, v) == (0.5, 0.0625)
    _, m, v, _ = rule.direction(1.0, m, v, 2, beta1=0.0, beta2=0.5, eps=0.0)
    assert (m, v) == (1.0, 0.03125 + 0.5)


def test_bias_correction_can_be_left_out():
    d, m, v, _ = rule.direction(2.0, 0.0, 0.0, 1, beta1=0.5, beta2=0.75, bias_correction=False)
    assert (m, v) == (1.0, 0.25 + 1e-16)
    assert d == pytest.approx(2.0, rel=1e-15)
    d, *_ = rule.direction(
        2.0, 0.0, 0.0, 1, beta1=0.5, beta2=0.75, bias_correction=False, nesterov=True
    )
    assert d == pytest.approx((0.5 * 1 + 0.5 * 2) / 0.5, rel=1e-15)


def test_rectification_with_a_short_average_is_never_on():
    # b2 <= 2/3 gives rho_inf <= 5: RAdam never trusts v, and nothing divides by zero.
    for beta2 in (0.0, 0.5, 0.6, 2 / 3):
        for t in (1, 2, 50):
            on, r = rule.rectification(beta2, t)
            assert on == 0 or beta2 == 2 / 3
            assert np.isfinite(r)


def test_larger_is_exact_and_keeps_infinities_and_nan():
    inf, nan = np.inf, np.nan
    a = np.array([0.1, 0.7, inf, inf, 1.0, nan, 0.0])
    b = np.array([0.7, 0.1, inf, 1.0, inf, 1.0, 0.0])
    np.testing.assert_array_equal(rule.larger(a, b), np.maximum(a, b))


def test_no_gradient_and_no_eps_is_no_update():
    d, *_ = rule.direction(np.zeros(2), np.zeros(2), np.zeros(2), 1, eps=0.0)
    np.testing.assert_array_equal(d, 0)
    # Also where the square of a momentum underflows, the step stays as small as the momentum.
    tiny = np.full(2, 1e-30, np.float32)
    d, *_ = rule.direction(tiny, np.zeros(2, np.float32), np.zeros(2, np.float32), 1, eps=0.0)
    assert np.all(np.abs(d) < 1e-29)


def test_refuses_amsgrad_with_rectify():
    with pytest.raises(ValueError, match="rectify"):
        rule.direction(1.0, 0.0, 0.0, 1, v_max=0.0, rectify=True)


def test_imports_nothing_and_calls_no_method():
    tree = ast.parse(Path(rule.__file__).read_text())
    for node in ast.walk(tree):
        assert not isinstance(node, ast.Import | ast.ImportFrom | ast.Attribute), ast.dump(node)
