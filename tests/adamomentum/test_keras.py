"""adamomentum.keras against the oracle, and in company: fit, files, clipping, EMA, precision.

Keras fixes its backend when it is imported: here it is conftest's, torch, and the last test runs
this file again on JAX, and on TensorFlow where it is installed.
"""

import contextlib
import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose as close

from tests.adamomentum.walk import DECAY, LR, TOLERANCE, expected, gradients, name_of, starts

keras = pytest.importorskip("keras")

from adamomentum.keras import AdaMomentum  # noqa: E402
from tests.oracle import Oracle  # noqa: E402

JAX = keras.backend.backend() == "jax"
TABLE = [
    {},
    {"amsgrad": True},
    {"rectify": True},
    {"nesterov": True, "amsgrad": True},
    {"nesterov": True, "rectify": True, "debias_momentum": True},
]


def apply_walk(optimizer, variables, walk):
    """Feed gradients, one list per variable; on JAX as one compiled loop."""
    walk = [
        keras.ops.convert_to_tensor(g, dtype=v.dtype) for g, v in zip(walk, variables, strict=True)
    ]
    if not optimizer.built:
        optimizer.build(variables)
    if not JAX:
        step = optimizer.apply
        if keras.backend.backend() == "tensorflow":
            import tensorflow

            step = tensorflow.function(step)
        for gradients in zip(*walk, strict=True):
            step(list(gradients))
        return
    import jax

    def step(carry, gradients):
        params, state = optimizer.stateless_apply(carry[1], gradients, carry[0])
        return (params, state), None

    carry = [v.value for v in variables], [v.value for v in optimizer.variables]
    (params, state), _ = jax.jit(lambda *xs: jax.lax.scan(step, *xs))(carry, walk)
    owners = [*variables, *optimizer.variables]
    for variable, value in zip(owners, [*params, *state], strict=True):
        variable.assign(value)


@pytest.fixture
def floatx(request):
    before = keras.config.floatx()
    keras.config.set_floatx(request.param)
    wide = contextlib.nullcontext()
    if JAX:
        import jax

        wide = jax.enable_x64(request.param == "float64")
    with wide:
        yield request.param
    keras.config.set_floatx(before)


@pytest.mark.slow
@pytest.mark.parametrize("floatx", TOLERANCE, indirect=True)
@pytest.mark.parametrize("options", TABLE, ids=name_of)
def test_agrees_with_the_oracle(options, floatx):
    variables = [keras.Variable(start, dtype=floatx) for start in starts()]
    optimizer = AdaMomentum(LR, weight_decay=DECAY, **options)
    apply_walk(optimizer, variables, gradients())
    tolerance = TOLERANCE[floatx]
    for i, oracle in enumerate(expected(**options)):
        close(variables[i].numpy(), oracle.theta, rtol=tolerance, atol=tolerance)
        close(optimizer._v[i].numpy(), oracle.v, rtol=tolerance)


def test_half_precision_keeps_float32_moments():
    variable = keras.Variable(np.ones(3), dtype="bfloat16")
    optimizer = AdaMomentum(1e-3)
    apply_walk(optimizer, [variable], [np.full((5, 3), 0.5)])
    assert optimizer._m[0].dtype == optimizer._v[0].dtype == "float32"
    oracle = Oracle(np.ones(3))
    for _ in range(5):
        oracle.step(np.full(3, 0.5))
    close(keras.ops.convert_to_numpy(optimizer._v[0]), oracle.v, rtol=1e-5)
    close(keras.ops.convert_to_numpy(keras.ops.cast(variable, "float32")), oracle.theta, atol=1e-2)


def test_no_gradient_and_no_epsilon_is_no_update():
    variable = keras.Variable(np.ones(3))
    apply_walk(AdaMomentum(0.1, epsilon=0.0), [variable], [np.zeros((2, 3))])
    np.testing.assert_array_equal(variable.numpy(), 1)


def test_weight_decay_exclusion():
    kept, shrunk = (keras.Variable(np.ones(2), name=name) for name in ("bias", "kernel"))
    optimizer = AdaMomentum(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    apply_walk(optimizer, [kept, shrunk], [np.zeros((1, 2))] * 2)
    close(kept.numpy(), 1)
    close(shrunk.numpy(), 0.95, rtol=1e-6)


def test_one_name_is_not_a_list_of_letters():
    with pytest.raises(TypeError, match=r"var_names must be a list of strings; pass \['bias'\]"):
        AdaMomentum(weight_decay=0.5).exclude_from_weight_decay(var_names="bias")


def test_weight_decay_is_not_rounded_away():
    # 1 - lr * decay in float32 is wrong by 1e-8, which adds up: 4e-6 over these steps.
    variable = keras.Variable(np.ones(2))
    apply_walk(AdaMomentum(LR, weight_decay=DECAY), [variable], [np.zeros((300, 2))])
    close(variable.numpy(), (1 - LR * DECAY) ** 300, rtol=1e-6)


def test_weight_decay_of_nothing():
    variable = keras.Variable(np.ones(2), name="bias")
    optimizer = AdaMomentum(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    apply_walk(optimizer, [variable], [np.zeros((1, 2))])
    close(variable.numpy(), 1)


def test_half_precision_rounds_each_step_once():
    variable = keras.Variable(starts()[0], dtype="bfloat16")
    # A decay of about half the last digit, which would be lost if it were rounded on its own.
    optimizer = AdaMomentum(1e-2, weight_decay=0.3)

    def value():
        return keras.ops.convert_to_numpy(keras.ops.cast(variable, "float32")).astype(np.float64)

    oracle = Oracle(value(), lr=1e-2, weight_decay=0.3)
    for g in gradients()[0][:30]:
        g = keras.ops.cast(g, "bfloat16")
        exact = oracle.step(keras.ops.convert_to_numpy(keras.ops.cast(g, "float32")))
        optimizer.apply([g], [variable])
        unit = np.spacing(np.abs(exact).astype(np.float32)) * 2.0**16
        assert np.max(np.abs(value() - exact) / unit) <= 0.501
        oracle.theta = value()


def test_clipping_and_ema():
    clipped, scaled = keras.Variable(np.ones(2)), keras.Variable(np.ones(2))
    # An eps that counts: else the size of a constant gradient would not matter.
    options = {"epsilon": 1e-2, "use_ema": True, "ema_momentum": 0.5}
    optimizer = AdaMomentum(0.1, clipnorm=1.0, **options)
    apply_walk(optimizer, [clipped], [np.full((3, 2), [3.0, 4.0])])
    apply_walk(AdaMomentum(0.1, **options), [scaled], [np.full((3, 2), [0.6, 0.8])])
    close(clipped.numpy(), scaled.numpy(), rtol=1e-6)
    oracle = Oracle(np.ones(2), lr=0.1, eps=1e-2)
    first, second, third = (oracle.step([0.6, 0.8]) for _ in range(3))
    optimizer.finalize_variable_values([clipped])
    close(clipped.numpy(), first / 4 + second / 4 + third / 2, rtol=1e-6)


def test_gradient_accumulation_is_the_step_of_the_mean():
    accumulated, plain = keras.Variable(np.ones(2)), keras.Variable(np.ones(2))
    walk = np.random.default_rng(0).normal(size=(8, 2))
    apply_walk(AdaMomentum(0.1, gradient_accumulation_steps=4), [accumulated], [walk])
    apply_walk(AdaMomentum(0.1), [plain], [walk.reshape(2, 4, 2).mean(1)])
    close(accumulated.numpy(), plain.numpy(), rtol=1e-5)


def test_config_round_trip():
    schedule = keras.optimizers.schedules.CosineDecay(1e-3, 100)
    optimizer = AdaMomentum(
        schedule, 0.8, 0.99, 1e-12, nesterov=True, rectify=True, weight_decay=0.1, clipnorm=1.0
    )
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(again) is AdaMomentum
    assert again.get_config() == optimizer.get_config()


def model_and_data(policy="float32"):
    keras.utils.set_random_seed(0)
    x = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(8, "tanh", dtype=policy), keras.layers.Dense(1)]
    )
    return model, x, x[:, :1] * x[:, 1:2]


def test_a_saved_model_continues(tmp_path):
    model, x, y = model_and_data()
    optimizer = AdaMomentum(1e-2, weight_decay=5.0, amsgrad=True)
    optimizer.exclude_from_weight_decay(var_names=["bias"])  # Keras' own forget this
    model.compile(optimizer, "mse")
    fit = {"epochs": 3, "batch_size": 8, "shuffle": False, "verbose": 0}
    first = model.fit(x, y, **fit).history["loss"]
    assert first[-1] < first[0]
    model.save(tmp_path / "model.keras")
    model.fit(x, y, **fit)

    again = keras.saving.load_model(tmp_path / "model.keras")
    assert type(again.optimizer) is AdaMomentum
    assert int(again.optimizer.iterations) == 12
    again.fit(x, y, **fit)
    for a, b in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision(policy):
    model, x, y = model_and_data(policy)
    optimizer = keras.optimizers.LossScaleOptimizer(AdaMomentum(1e-2))
    model.compile(optimizer, "mse")
    losses = model.fit(x, y, epochs=5, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    assert all(np.isfinite(w).all() for w in model.get_weights())
    # A step that overflows is skipped, and not counted.
    before, count = model.get_weights(), int(optimizer.inner_optimizer.iterations)
    variables = model.trainable_variables
    bad = [np.full((1, *v.shape), np.inf) for v in variables]
    apply_walk(optimizer, variables, bad)
    assert int(optimizer.inner_optimizer.iterations) == count
    for a, b in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"amsgrad": True, "rectify": True}, "set only one of them"),
        ({"beta_1": 1.0}, r"Invalid beta_1: 1.0 \(it must be in \[0, 1\)\)"),
        ({"beta_2": -0.1}, "Invalid beta_2"),
        ({"epsilon": float("nan")}, "Invalid epsilon"),
    ],
    ids=str,
)
def test_refusals(options, words):
    with pytest.raises(ValueError, match=words):
        AdaMomentum(**options)


def test_a_truth_value_is_no_weight_decay():
    with pytest.raises(TypeError, match="weight_decay must be a number or None, but is True"):
        AdaMomentum(1e-3, 0.9, 0.999, 1e-16, False, True)


def test_a_backend_that_does_not_train_is_refused(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "openvino")
    with pytest.raises(NotImplementedError, match="Keras cannot train on OpenVINO"):
        AdaMomentum()


def test_a_saved_name_stays():
    assert AdaMomentum.from_config({"name": "adamomentum"}).name == "adamomentum"  # that of 0.1


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.skipif(keras.backend.backend() != "torch", reason="is that run")
@pytest.mark.parametrize("backend", ["jax", "tensorflow"])
def test_all_of_it_on(backend):
    pytest.importorskip(backend)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env={**os.environ, "KERAS_BACKEND": backend},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
