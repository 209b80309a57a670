"""adamomentum.optax against the oracle, and in company: jit, schedules, wrappers, shards."""

import doctest
import functools
import itertools
import operator
import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose as close

from tests.adamomentum.pairs import all_pairs
from tests.adamomentum.walk import (
    CHOICES,
    DECAY,
    LR,
    OPTIONS,
    TOLERANCE,
    expected,
    gradients,
    name_of,
    starts,
)

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")
import jax.numpy as jnp  # noqa: E402

import adamomentum.optax as ours  # noqa: E402
from adamomentum import rule  # noqa: E402
from adamomentum.optax import adamomentum, scale_by_adamomentum  # noqa: E402
from tests.oracle import Oracle  # noqa: E402

TABLE = [
    *OPTIONS,
    {"decoupled_weight_decay": False},
    {**OPTIONS[-1], "decoupled_weight_decay": False},
]


def grid():
    """All pairs of options and dtypes; under `full`, the rest of the table. Each compiles anew."""
    choices = [*CHOICES, [{}, {"decoupled_weight_decay": False}]]
    pairs = [
        (functools.reduce(operator.or_, chosen), dtype)
        for *chosen, dtype in all_pairs(*choices, TOLERANCE)
    ]
    rest = [case for case in itertools.product(TABLE, TOLERANCE) if case not in pairs]
    return [
        pytest.param(options, dtype, marks=marks, id=f"{name_of(options)}-{dtype}")
        for cases, marks in ((pairs, []), (rest, [pytest.mark.full]))
        for options, dtype in cases
    ]


def walked(optimizer, params, walk):
    """Parameters and state after the walk, all of it one compiled loop."""

    def step(carry, g):
        params, state = carry
        updates, state = optimizer.update(g, state, params)
        return (optax.apply_updates(params, updates), state), None

    return jax.jit(lambda *carry: jax.lax.scan(step, carry, walk)[0])(
        params, optimizer.init(params)
    )


@pytest.mark.slow
@pytest.mark.parametrize(("options", "dtype"), grid())
def test_agrees_with_the_oracle(options, dtype):
    with jax.enable_x64(dtype == "float64"):
        params, walk = ([jnp.asarray(x, dtype) for x in xs] for xs in (starts(), gradients()))
        optimizer = adamomentum(LR, weight_decay=DECAY, **options)
        params, state = walked(optimizer, params, walk)
        mu, nu = (optax.tree_utils.tree_get(state, name) for name in ("mu", "nu"))
        tolerance = TOLERANCE[dtype]
        for param, m, v, oracle in zip(params, mu, nu, expected(**options), strict=True):
            assert param.dtype == m.dtype == v.dtype == dtype
            close(param, oracle.theta, rtol=tolerance, atol=tolerance)
            close(m, oracle.m, rtol=tolerance, atol=tolerance)
            close(v, oracle.v, rtol=tolerance)


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999])
def test_float32_knows_the_corrections(beta, traced):
    steps = np.array([*range(1, 60), 490, 500, 510, 3000, 10**5, 10**7], np.float64)
    exact = float(np.float32(beta)) if traced else beta
    left = [rule.remaining(exact, t) for t in steps]
    on, r = zip(*(rule.rectification(exact, t) for t in steps), strict=True)
    remaining, rectification = (
        functools.partial(f, xp=jnp) for f in (rule.remaining, rule.rectification)
    )
    given = jnp.float32(beta) if traced else beta
    t = jnp.asarray(steps, jnp.float32)
    close(jax.jit(remaining)(given, t) if traced else remaining(given, t), left, rtol=1e-6)
    on32, r32 = rectification(given, t)
    np.testing.assert_array_equal(on32, on)
    close(r32, r, rtol=2e-6)


@pytest.mark.parametrize("options", [{}, {"rectify": True}, {"nesterov": True}], ids=str)
def test_half_precision_rounds_each_update_once(options):
    def unit(x):
        return np.spacing(np.abs(x).astype(np.float32)) * 2.0**16

    oracle = Oracle(np.asarray(jnp.bfloat16(starts()[0])), lr=LR, weight_decay=DECAY, **options)
    params = jnp.asarray(oracle.theta, jnp.bfloat16)
    optimizer = adamomentum(LR, weight_decay=DECAY, **options)
    state = optimizer.init(params)
    update = jax.jit(optimizer.update)
    for g in gradients()[0][:30]:
        g = jnp.asarray(g, jnp.bfloat16)
        updates, state = update(g, state, params)
        before = oracle.theta
        params = optax.apply_updates(params, updates)
        exact = oracle.step(np.asarray(g, np.float64))
        rounding = 0.501 * unit(exact - before)
        assert np.all(np.abs(np.asarray(updates, np.float64) - (exact - before)) <= rounding)
        # Optax rounds the sum.
        error = np.abs(np.asarray(params, np.float64) - exact)
        assert np.all(error <= 0.501 * unit(exact) + rounding)
        oracle.theta = np.asarray(params, np.float64)
    assert params.dtype == jnp.bfloat16
    assert state[0].mu.dtype == state[0].nu.dtype == jnp.float32
    close(state[0].nu, oracle.v, rtol=1e-5)


def test_a_step_compiles_once():
    traces = []
    optimizer = adamomentum(
        optax.linear_schedule(0, 1e-3, 10), weight_decay=DECAY, amsgrad=True, mu_dtype=jnp.bfloat16
    )

    @jax.jit
    def step(params, state, g):
        traces.append(1)
        updates, state = optimizer.update(g, state, params)
        return optax.apply_updates(params, updates), state

    params = {"w": jnp.ones((2, 3), jnp.bfloat16), "c": jnp.ones(2, jnp.complex64)}
    state = optimizer.init(params)
    for _ in range(20):
        params, state = step(params, state, params)
    assert len(traces) == 1
    moments = state[0]
    assert moments.count == 20
    assert moments.mu["w"].dtype == jnp.bfloat16
    assert moments.nu["w"].dtype == moments.nu_max["w"].dtype == jnp.float32


def test_the_count_saturates():
    transform = scale_by_adamomentum()
    state = transform.init(jnp.ones(2))._replace(count=jnp.int32(2**31 - 1))
    updates, state = transform.update(jnp.ones(2), state)
    assert state.count == 2**31 - 1
    assert jnp.isfinite(updates).all()


def test_no_gradient_and_no_eps_is_no_update():
    optimizer = adamomentum(0.1, eps=0.0)
    updates, _ = optimizer.update(jnp.zeros(3), optimizer.init(jnp.ones(3)))  # needs no params
    np.testing.assert_array_equal(updates, 0)


def test_schedules_of_learning_rate_and_weight_decay():
    oracle = Oracle(np.ones(3))
    optimizer = adamomentum(lambda t: 1e-3 * (t + 1), weight_decay=lambda t: 0.1 * t)
    params = jnp.ones(3)
    state = optimizer.init(params)
    for t in range(5):
        oracle.lr, oracle.decay = 1e-3 * (t + 1), 0.1 * t
        oracle.step([1.0, -2.0, 3.0])
        updates, state = optimizer.update(jnp.array([1.0, -2.0, 3.0]), state, params)
        params = optax.apply_updates(params, updates)
    close(params, oracle.theta, rtol=1e-6)


@pytest.mark.parametrize("mask", [{"w": True, "b": False}, lambda params: {"w": True, "b": False}])
@pytest.mark.parametrize("decoupled", [True, False])
def test_mask_of_weight_decay(mask, decoupled):
    optimizer = adamomentum(
        0.1, weight_decay=0.5, mask=mask, eps=1e-4, decoupled_weight_decay=decoupled
    )
    params = {"w": jnp.ones(2), "b": jnp.ones(2)}
    updates, _ = optimizer.update(params, optimizer.init(params), params)
    for name, decay in {"w": 0.5, "b": 0.0}.items():
        oracle = Oracle(
            np.ones(2), lr=0.1, weight_decay=decay, eps=1e-4, decoupled_weight_decay=decoupled
        )
        close(1 + updates[name], oracle.step(np.ones(2)), rtol=1e-6)


@pytest.mark.slow
def test_inject_hyperparams():
    optimizer = optax.inject_hyperparams(adamomentum)(1e-3, weight_decay=DECAY, rectify=True)
    plain = adamomentum(1e-3, weight_decay=DECAY, rectify=True)
    params, walk = jnp.asarray(starts()[0], jnp.float32), jnp.asarray(gradients()[0], jnp.float32)
    close(
        walked(optimizer, params, walk)[0],
        walked(plain, params, walk)[0],
        rtol=TOLERANCE["float32"],
        atol=TOLERANCE["float32"],
    )
    state = optimizer.init(params)
    state.hyperparams["learning_rate"] = jnp.float32(0.0)
    updates, _ = optimizer.update(params, state, params)
    np.testing.assert_array_equal(updates, 0)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_half_hyperparameters_stand_for_their_defaults(dtype, jit):
    """0.999 is 1 in bfloat16, and 1e-16 is 0 in float16."""

    def moments(*numbers):
        transform = scale_by_adamomentum(*numbers)
        return transform.update(jnp.float32(1e-9), transform.init(jnp.float32(1.0)))

    rounded = [jnp.asarray(x, dtype) for x in (0.9, 0.999, 1e-16)]
    expected = moments(*(jnp.float32(x) for x in (0.9, 0.999, 1e-16)))
    for a, b in zip(
        *map(jax.tree.leaves, ((jax.jit(moments) if jit else moments)(*rounded), expected)),
        strict=True,
    ):
        close(a, b, rtol=1e-6)
    others = [jnp.asarray(x, dtype) for x in (0.5, 0.75, 2.0**-10)]
    for a, b in zip(
        *map(jax.tree.leaves, (moments(*others), moments(0.5, 0.75, 2.0**-10))), strict=True
    ):
        close(a, b, rtol=1e-6)


def test_inject_hyperparams_in_half_precision():
    params = jnp.ones(2, jnp.bfloat16)
    for hyperparam_dtype in (None, jnp.float32):
        optimizer = optax.inject_hyperparams(adamomentum, hyperparam_dtype=hyperparam_dtype)(1e-3)
        updates, _ = optimizer.update(params, optimizer.init(params), params)
        close(np.asarray(updates, np.float64), -1e-2, rtol=2**-8)


def test_inject_hyperparams_says_what_is_static():
    # Optax takes the dtype for a schedule, and calls it.
    with pytest.raises(ValueError, match=r"mu_dtype .* list it in static_args"):
        optax.inject_hyperparams(adamomentum)(1e-3, mu_dtype=jnp.bfloat16).init(jnp.ones(2))


@pytest.mark.parametrize("decoupled", [True, False])
def test_numbers_are_parameters_too(decoupled):
    optimizer = adamomentum(0.01, weight_decay=0.5, decoupled_weight_decay=decoupled)
    updates, _ = optimizer.update({"x": 2.0}, optimizer.init({"x": 1.0}), {"x": 1.0})
    oracle = Oracle(1.0, lr=0.01, weight_decay=0.5, decoupled_weight_decay=decoupled)
    close(1 + updates["x"], oracle.step(2.0), rtol=1e-6)


@pytest.mark.parametrize("params", [{}, {"none": None}, {"w": np.ones((0, 3))}], ids=str)
def test_nothing_to_update(params):
    optimizer = adamomentum(0.1, weight_decay=0.5, amsgrad=True)
    updates, state = optimizer.update(params, optimizer.init(params), params)
    assert jax.tree.structure(updates) == jax.tree.structure(params)
    assert state[0].count == 1


def test_multi_steps_is_the_step_of_the_mean():
    params = jnp.asarray(starts()[0], jnp.float32)
    walk = jnp.asarray(gradients()[0][:40], jnp.float32)
    optimizer = adamomentum(LR, weight_decay=DECAY)
    every = optax.MultiSteps(optimizer, 4)
    four, _ = walked(every, params, walk)
    means, _ = walked(optimizer, params, walk.reshape(10, 4, *params.shape).mean(1))
    close(four, means, rtol=1e-5, atol=1e-6)


def test_multi_transform():
    params = {"w": jnp.ones(2), "b": jnp.ones(3)}
    optimizer = optax.multi_transform(
        {"ours": adamomentum(0.1), "sgd": optax.sgd(0.1)}, {"w": "ours", "b": "sgd"}
    )
    updates, _ = jax.jit(optimizer.update)(params, optimizer.init(params), params)
    close(updates["w"], -1.0, rtol=1e-5)
    close(updates["b"], -0.1, rtol=1e-5)


@pytest.mark.slow
def test_complex_numbers_are_pairs_of_reals():
    random = np.random.default_rng(0)
    pair, walk = random.normal(size=(2, 3)), random.normal(size=(20, 2, 3))
    for options in ({}, {"amsgrad": True, "nesterov": True}):
        optimizer = adamomentum(0.1, weight_decay=0.1, **options)
        real, _ = walked(optimizer, jnp.asarray(pair), jnp.asarray(walk))
        number = jax.lax.complex(*jnp.asarray(pair, jnp.float32))
        numbers = jax.lax.complex(*jnp.asarray(walk, jnp.float32).swapaxes(0, 1))
        number, _ = walked(optimizer, number, numbers)
        close([number.real, number.imag], real, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("amsgrad", [True, False])
def test_the_state_survives_orbax(tmp_path, amsgrad):
    orbax = pytest.importorskip("orbax.checkpoint")
    optimizer = adamomentum(
        optax.linear_schedule(LR, 0, 10), weight_decay=DECAY, amsgrad=amsgrad, mu_dtype=jnp.bfloat16
    )
    params = {"w": jnp.ones((2, 3)), "c": jnp.ones(2, jnp.complex64), "h": jnp.ones(2, jnp.float16)}
    state = optimizer.init(params)
    for _ in range(3):
        updates, state = optimizer.update(params, state, params)
        params = optax.apply_updates(params, updates)
    with orbax.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "state", state)
        checkpointer.wait_until_finished()
        loaded = checkpointer.restore(tmp_path / "state", jax.eval_shape(optimizer.init, params))
    assert jax.tree.structure(loaded) == jax.tree.structure(state)
    pairs = [(state, loaded)]
    pairs.append([optimizer.update(params, each, params) for each in (state, loaded)])
    for both in pairs:
        for a, b in zip(*map(jax.tree.leaves, both), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


SHARDED = """
import jax, jax.numpy as jnp, numpy as np, optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from adamomentum.optax import adamomentum
sharding = NamedSharding(Mesh(jax.devices(), "x"), PartitionSpec("x"))
optimizer = adamomentum(0.1, weight_decay=0.1, amsgrad=True)
start = jnp.arange(8.0).reshape(4, 2)
results = []
for params in (start, jax.device_put(start, sharding)):
    state = optimizer.init(params)
    for _ in range(3):
        updates, state = jax.jit(optimizer.update)(jnp.sin(params), state, params)
        params = optax.apply_updates(params, updates)
    results.append(params)
assert len(jax.devices()) == 2
for array in (params, state[0].mu, state[0].nu, state[0].nu_max):
    assert array.sharding.is_equivalent_to(sharding, 2), array.sharding
np.testing.assert_allclose(*results, rtol=1e-6)
"""


@pytest.mark.slow
def test_moments_are_sharded_as_their_parameters():
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    done = subprocess.run(
        [sys.executable, "-c", SHARDED], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"amsgrad": True, "rectify": True}, "set only one of them"),
        ({"b1": 1.0}, r"Invalid b1: 1.0 \(it must be in \[0, 1\)\)"),
        ({"b2": -0.1}, "Invalid b2"),
        ({"eps": -1e-8}, "Invalid eps"),
        ({"eps": float("nan")}, "Invalid eps"),
        ({"b2": np.float32(1.5)}, "Invalid b2: 1.5"),
        ({"mu_dtype": "int32"}, "mu_dtype must be a floating-point dtype"),
        ({"mu_dtype": "float33"}, "mu_dtype must be a floating-point dtype"),
        ({"b2": np.array(1.0)}, "Invalid b2: 1.0"),
        ({"learning_rate": -1e-3}, r"Invalid learning rate: -0.001 \(it must be finite"),
        ({"learning_rate": np.float32(-1)}, "Invalid learning rate: -1.0"),
        ({"learning_rate": float("inf")}, "Invalid learning rate: inf"),
        ({"weight_decay": -1e-2}, "Invalid weight_decay: -0.01"),
    ],
    ids=str,
)
def test_refusals(options, words):
    with pytest.raises(ValueError, match=words):
        adamomentum(**{"learning_rate": 1e-3, **options})


def test_docstrings():
    assert doctest.testmod(ours).failed == 0
