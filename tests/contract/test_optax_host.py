"""What Optax demands of an optimizer, one check each, over our options.

The demands are those of the tests of Optax 0.2.8 on its own optimizers: convergence, dtypes,
wrappers, hyperparameters, states and sharding. To these come what `jit`, `scan`, `vmap` and `grad`
must leave unchanged, and states whose structure does not depend on a value.
"""

import functools
import os
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")
import jax.numpy as jnp  # noqa: E402

from adamomentum.optax import adamomentum, scale_by_adamomentum  # noqa: E402

OPTIONS = {
    "plain": {},
    "amsgrad": {"amsgrad": True},
    "decay": {"weight_decay": 1e-4},
    "coupled": {"weight_decay": 1e-4, "decoupled_weight_decay": False},
    "nesterov": {"nesterov": True},
    "rectify": {"rectify": True},
    "debiased": {"debias_momentum": True},
    "small-mu": {"mu_dtype": "bfloat16"},
}
# Enough for what sees only the trees of a state.
TREES = ("plain", "amsgrad", "decay")
STATIC = ("mask", "mu_dtype")  # no hyperparameters
ROSENBROCK = ("rosenbrock", "complex rosenbrock")

TABLE = []


def demand(*names):
    """Put a check into the table, for these options or for all. `make check` takes the first."""

    def add(check):
        TABLE.extend(
            pytest.param(
                check,
                OPTIONS[name],
                id=f"{check.__name__}-{name}",
                marks=[pytest.mark.slow] if i else [],
            )
            for i, name in enumerate(names or OPTIONS)
        )
        return check

    return add


def same(actual, desired, rtol=0.0, atol=0.0):
    """Equal structure, dtypes and, within the tolerance, values."""
    assert jax.tree.structure(actual) == jax.tree.structure(desired)
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(desired), strict=True):
        assert a.dtype == b.dtype
        assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=atol)


def kinds(tree):
    """Shapes and dtypes, and shardings where they are part of the type."""
    return jax.tree.map(jax.typeof, tree)


def tree(dtype=jnp.float32):
    return {
        "w": jnp.asarray([[1.0, -2.0, 0.5], [3.0, 0.25, -1.0]], dtype),
        "b": jnp.asarray([0.5, -0.5], dtype),
    }


def stepped(optimizer, params, state, steps=3):
    for _ in range(steps):
        updates, state = optimizer.update(jax.tree.map(jnp.sin, params), state, params)
        params = optax.apply_updates(params, updates)
    return params, state


# Convergence


def targets():
    """Starts, goals and the sum of the losses: no coordinate sees those of another target."""
    start = {
        "parabola": jnp.array([-1.0, 10.0, 1.0]),
        "matrix": jnp.zeros((2, 2)),
        "complex": jnp.array([-1.0, 10.0, 1.0], jnp.complex64),
        "rosenbrock": jnp.zeros(2),
        "complex rosenbrock": jnp.zeros(2, jnp.complex64),
    }
    goal = {
        "parabola": jnp.array([1.0, -1.0, 1.0]),
        "matrix": jnp.array([[3.0, -2.0], [1.0, 4.0]]),
        "complex": jnp.array([1 + 1j, -1 - 1j, 1 + 1j], jnp.complex64),
        "rosenbrock": jnp.ones(2),
        "complex rosenbrock": jnp.array([1 + 1j, 2j]),
    }

    def loss(params):
        names = ("parabola", "matrix", "complex")
        total = sum(jnp.sum(abs_sq(params[name] - goal[name])) for name in names)
        for name in ("rosenbrock", "complex rosenbrock"):
            x, y = params[name]
            total += abs_sq(goal[name][0] - x) + 100 * abs_sq(y - x**2)
        return total

    return start, goal, loss


def abs_sq(x):
    """The square of the absolute value, differentiable at 0."""
    return x.real**2 + x.imag**2


def minimized(optimizer, names):
    start, goal, loss = targets()

    def step(carry, _):
        params, state = carry
        grads = jax.grad(lambda params: loss({**start, **params}))(params)
        updates, state = optimizer.update(jax.tree.map(jnp.conj, grads), state, params)
        return (optax.apply_updates(params, updates), state), None

    start_of = {name: start[name] for name in names}
    (params, _), _ = jax.jit(lambda *carry: jax.lax.scan(step, carry, length=30_000))(
        start_of, optimizer.init(start_of)
    )
    same(params, {name: goal[name] for name in names}, rtol=3e-2, atol=3e-2)


@demand()
def finds_the_minimum(options):
    rate = 1e-2 if "amsgrad" in options else 1e-3
    minimized(adamomentum(rate, **options), ("parabola", "matrix", "complex", *ROSENBROCK))


@demand("plain")
def finds_the_minimum_with_a_learned_rate(options):
    optimizer = optax.contrib.mechanize(adamomentum(1.0, b1=0.99, **options), weight_decay=0.0)
    minimized(optimizer, ("parabola", "matrix"))


# Dtypes


@demand()
def updates_have_the_dtype_of_the_parameters(options):
    for dtype in (jnp.float16, jnp.bfloat16, jnp.float32, jnp.complex64):
        params = tree(dtype)
        for optimizer in (adamomentum(1e-3, **options), adamomentum(lambda _: 1e-3, **options)):
            updates, _ = jax.eval_shape(optimizer.update, params, optimizer.init(params), params)
            assert {leaf.dtype for leaf in jax.tree.leaves(updates)} == {jnp.dtype(dtype)}


@demand("plain", "decay")
def updates_have_the_dtype_of_the_parameters_not_of_the_gradients(options):
    for dtype, other in ((jnp.float32, jnp.bfloat16), (jnp.bfloat16, jnp.float32)):
        optimizer = adamomentum(1e-3, **options)
        params = tree(dtype)
        updates, _ = optimizer.update(tree(other), optimizer.init(params), params)
        assert kinds(updates) == kinds(params)


@demand()
def a_branch_may_skip_the_step(options):
    """Both branches of a `cond` have one type, for every dtype of parameters."""
    for dtype in ("float16", "bfloat16", "float32", "complex64", "float64", "complex128"):
        with jax.enable_x64(dtype in ("float64", "complex128")):
            optimizer = adamomentum(1e-3, **options)
            params = tree(dtype)

            def step(skip, params, state, optimizer=optimizer):
                return jax.lax.cond(
                    skip,
                    lambda: (params, state),
                    lambda: optimizer.update(params, state, params),
                )

            state = optimizer.init(params)
            assert kinds(jax.eval_shape(step, True, params, state)) == kinds((params, state))


@demand("plain", "decay", "rectify")
def a_tree_may_mix_dtypes(options):
    with jax.enable_x64(True):
        dtypes = ("bfloat16", "float32", "float64", "complex64")
        params = {dtype: jnp.ones(2, dtype) for dtype in dtypes}
        optimizer = adamomentum(1e-3, **options)
        state = jax.jit(optimizer.init)(params)
        updates, after = jax.jit(optimizer.update)(params, state, params)
        assert kinds(updates) == kinds(params)
        assert kinds(after) == kinds(state)


@demand()
def mu_dtype_is_kept(options):
    for dtype in (jnp.float32, jnp.bfloat16):
        for mu_dtype in ("float32", "bfloat16", jnp.bfloat16, np.float16):
            optimizer = adamomentum(1e-3, **{**options, "mu_dtype": mu_dtype})
            params = tree(dtype)
            state = optimizer.init(params)
            _, after = jax.eval_shape(optimizer.update, params, state, params)
            for each in (state, after):
                mu, nu = (optax.tree_utils.tree_get(each, key) for key in ("mu", "nu"))
                assert {leaf.dtype for leaf in jax.tree.leaves(mu)} == {jnp.dtype(mu_dtype)}
                assert {leaf.dtype for leaf in jax.tree.leaves(nu)} == {jnp.dtype("float32")}


# Wrappers


@demand("plain", "decay")
def multi_steps_holds_updates_back(options):
    optimizer = optax.MultiSteps(adamomentum(1e-3, **options), 4)
    params = tree(jnp.bfloat16)
    state = optimizer.init(params)
    updates, state = jax.jit(optimizer.update)(params, state, params)
    same(updates, jax.tree.map(jnp.zeros_like, params))
    assert state.mini_step == 1


@demand("plain", "decay")
def multi_steps_keeps_dtypes_of_mixed_precision(options):
    inner = adamomentum(1e-3, **options)
    outer = optax.MultiSteps(inner, 4)
    for dtype in (jnp.float32, jnp.bfloat16):
        for other in (jnp.float32, jnp.bfloat16, jnp.float16):
            params, grads = tree(dtype), tree(other)
            (plain, plain_state), (updates, state) = (
                jax.eval_shape(each.update, grads, each.init(params), params)
                for each in (inner, outer)
            )
            assert kinds(updates) == kinds(plain)
            assert kinds(state.inner_opt_state) == kinds(plain_state)


@demand("plain", "decay")
def multi_steps_takes_the_step_of_the_mean(options):
    """After as many small steps as a schedule says, also behind another transformation."""
    inner = optax.chain(optax.zero_nans(), adamomentum(1e-2, **options))
    outer = optax.MultiSteps(inner, lambda step: jnp.where(step < 1, 1, 2))
    update = jax.jit(outer.update)
    params, state = tree(), outer.init(tree())
    plain, plain_state = params, inner.init(params)
    for factors in ((1.0,), (0.5, 1.5), (2.0, -1.0)):
        grads = [jax.tree.map(lambda x, f=f: f * jnp.sin(x), tree()) for f in factors]
        for grad in grads:
            assert not outer.has_updated(state) or grad is grads[0]
            updates, state = update(grad, state, params)
            params = optax.apply_updates(params, updates)
        assert outer.has_updated(state)
        mean = jax.tree.map(lambda *x: sum(x) / len(x), *grads)
        updates, plain_state = inner.update(mean, plain_state, plain)
        plain = optax.apply_updates(plain, updates)
    same(params, plain, rtol=1e-5)


@demand("plain")
def multi_steps_skips_what_is_not_finite(options):
    optimizer = optax.MultiSteps(
        adamomentum(1e-3, **options), 2, should_skip_update_fn=optax.skip_not_finite
    )
    update = jax.jit(optimizer.update)
    params = tree(jnp.bfloat16)
    _, state = update(params, optimizer.init(params), params)
    bad = jax.tree.map(lambda x: x.at[0].set(jnp.inf), params)
    updates, skipped = update(bad, state, params)
    same(updates, jax.tree.map(jnp.zeros_like, params))
    assert skipped.skip_state["should_skip"]
    same(skipped.inner_opt_state, state.inner_opt_state)
    updates, state = update(params, skipped, params)
    assert state.gradient_step == 1
    assert all(jnp.all(leaf != 0) for leaf in jax.tree.leaves(updates))


@demand("plain", "decay")
def apply_if_finite_rejects_and_gives_up(options):
    optimizer = optax.apply_if_finite(adamomentum(1e-3, **options), 2)
    update = jax.jit(optimizer.update)
    params = tree(jnp.bfloat16)
    _, state = update(params, optimizer.init(params), params)
    bad = jax.tree.map(lambda x: x.at[0].set(jnp.nan), params)
    inner = state.inner_state
    for count in (1, 2):
        updates, state = update(bad, state, params)
        same(updates, jax.tree.map(jnp.zeros_like, params))
        same(state.inner_state, inner)
        assert state.notfinite_count == count
    updates, _ = update(bad, state, params)
    assert jnp.isnan(updates["b"][0])


@demand("plain", "decay")
def conditions_choose_the_steps(options):
    params = tree(jnp.bfloat16)
    for wrap, otherwise in (
        (optax.conditionally_transform, params),
        (optax.conditionally_mask, jax.tree.map(jnp.zeros_like, params)),
    ):
        optimizer = wrap(adamomentum(1e-3, **options), lambda step: step % 2 == 0)
        update = jax.jit(optimizer.update)
        taken, first = update(params, optimizer.init(params), params)
        assert kinds(taken) == kinds(params)
        left, second = update(params, first, params)
        same(left, otherwise)
        same(second.inner_state, first.inner_state)


@demand("plain", "amsgrad")
def a_transformation_alone_may_be_skipped(options):
    optimizer = optax.conditionally_transform(
        scale_by_adamomentum(**options), lambda step: step > 0
    )
    params = tree(jnp.bfloat16)
    updates, state = optimizer.update(params, optimizer.init(params))
    updates, _ = optimizer.update(updates, state)
    assert kinds(updates) == kinds(params)


@demand("plain", "decay")
def masked_leaves_pass_through(options):
    for mask in ({"w": True, "b": False}, lambda params: {"w": True, "b": False}):
        optimizer = optax.masked(adamomentum(1e-3, **options), mask)
        params = tree()
        state = optimizer.init(params)
        updates, after = jax.jit(optimizer.update)(params, state, params)
        same(updates["b"], params["b"])
        assert jnp.all(updates["w"] != params["w"])
        assert kinds(after) == kinds(state)
        assert isinstance(optax.tree_utils.tree_get(state, "nu")["b"], optax.MaskedNode)


@demand("plain", "decay")
def parts_of_a_tree_have_optimizers_of_their_own(options):
    ours = adamomentum(1e-3, **options)
    params = tree()
    for wrap in (optax.partition, optax.multi_transform):
        optimizer = wrap(
            {"ours": ours, "frozen": optax.set_to_zero()}, {"w": "ours", "b": "frozen"}
        )
        updates, _ = jax.jit(optimizer.update)(params, optimizer.init(params), params)
        alone, _ = ours.update(params["w"], ours.init(params["w"]), params["w"])
        same(updates["w"], alone, rtol=1e-6)
        same(updates["b"], jnp.zeros_like(params["b"]))


@demand("plain", "amsgrad")
def a_flattened_tree_takes_the_same_steps(options):
    optimizer = adamomentum(1e-3, **options)
    flat = optax.flatten(optimizer)
    params = tree()
    ends = [stepped(each, params, each.init(params))[0] for each in (optimizer, flat)]
    same(*ends, rtol=1e-6)


@demand("plain", "decay")
def lookahead_synchronizes(options):
    optimizer = optax.lookahead(adamomentum(1e-3, **options), 2, 0.5)
    params = optax.LookaheadParams.init_synced(tree())
    state = optimizer.init(params)
    for _ in range(2):
        updates, state = optimizer.update(params.fast, state, params)
        params = optax.apply_updates(params, updates)
    same(params.fast, params.slow, rtol=1e-6)


@demand("plain", "decay")
def unknown_arguments_are_ignored(options):
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), adamomentum(1e-3, **options))
    params = tree()
    state = optimizer.init(params)
    plain, _ = optimizer.update(params, state, params)
    given, _ = jax.jit(optimizer.update)(params, state, params, value=1.0, nobody_knows_it=2)
    same(given, plain, rtol=1e-6)


# Hyperparameters


@demand()
def injected_hyperparameters_change_nothing(options):
    params = tree()
    plain = adamomentum(1e-3, **options)
    injected = optax.inject_hyperparams(adamomentum, static_args=STATIC)(1e-3, **options)
    updates, state = plain.update(params, plain.init(params), params)
    others, other = injected.update(params, injected.init(params), params)
    same(others, updates, rtol=1e-5)
    same(other.inner_state, state, rtol=3e-5)  # 1 - b2 of a b2 in float32


@demand()
def injected_hyperparameters_may_be_half(options):
    """Optax casts them to the dtype of the parameters; b2 = 0.999 is 1 in bfloat16."""
    for dtype in (jnp.bfloat16, jnp.float16):
        params = tree(dtype)
        plain = adamomentum(1e-3, **options)
        injected = optax.inject_hyperparams(adamomentum, static_args=STATIC)(1e-3, **options)
        state = injected.init(params)
        assert state.hyperparams["b2"].dtype == dtype
        ends = [stepped(each, params, each.init(params)) for each in (plain, injected)]
        same(ends[1][0], ends[0][0], rtol=2**-7)
        for key in ("mu", "nu"):
            moments = [optax.tree_utils.tree_get(state, key) for _, state in ends]
            same(moments[1], moments[0], rtol=2e-2, atol=1e-6)


@demand("plain")
def injected_dtypes_are_kept(options):
    for hyperparam_dtype in (jnp.bfloat16, jnp.float32):
        for dtype in (jnp.bfloat16, jnp.float32):
            optimizer = optax.inject_hyperparams(
                adamomentum, static_args=STATIC, hyperparam_dtype=hyperparam_dtype
            )(1e-3, **options)
            params = tree(dtype)
            state = optimizer.init(params)
            updates, after = jax.jit(optimizer.update)(params, state, params)
            assert kinds(updates) == kinds(params)
            assert kinds(after) == kinds(state)
            assert after.hyperparams["b1"].dtype == hyperparam_dtype


@demand("plain", "amsgrad")
def injected_numbers_may_be_whole_zero_or_static(options):
    inject = functools.partial(optax.inject_hyperparams, adamomentum)
    params = tree()
    for static in ([*STATIC], [*STATIC, "b1"], [*STATIC, "b1", "b2"]):
        for rate in (1, jnp.asarray(1), np.array(1.0)):
            injected = inject(static_args=static)(rate, b1=0.0, b2=0.0, **options)
            state = jax.jit(injected.init)(params)
            assert not {"b1", "b2"} & set(static) & state.hyperparams.keys()
            assert state.hyperparams["learning_rate"] == 1
            updates, after = jax.jit(injected.update)(params, state, params)
            # With no memory every step is a sign.
            same(updates, jax.tree.map(lambda x: -jnp.sign(x), params), rtol=1e-6)
            assert jax.tree.structure(after) == jax.tree.structure(state)
            # Numbers are set in place.
            after.hyperparams["learning_rate"] = jnp.asarray(0.5)
            updates, _ = jax.jit(injected.update)(params, after, params)
            same(updates, jax.tree.map(lambda x: -0.5 * jnp.sign(x), params), rtol=1e-6)
    with pytest.raises(ValueError, match="static"):
        inject(static_args="lr")


@demand("plain", "decay")
def injected_dtypes_are_kept_whatever_the_gradients_have(options):
    bf16, f32 = jnp.bfloat16, jnp.float32
    for hyperparam, dtype, grad in ((bf16, f32, bf16), (f32, f32, bf16), (f32, bf16, f32)):
        optimizer = optax.inject_hyperparams(
            adamomentum, static_args=STATIC, hyperparam_dtype=hyperparam
        )(1e-3, **options)
        params = tree(dtype)
        state = optimizer.init(params)
        updates, after = jax.jit(optimizer.update)(tree(grad), state, params)
        assert kinds(updates) == kinds(params)
        assert kinds(after) == kinds(state)


class Sum(NamedTuple):
    """The state of a schedule that adds up what it is given."""

    total: jax.Array


class Adding(optax.schedules.StatefulSchedule):
    """A schedule with a state: the sum of an extra argument."""

    def init(self):
        return Sum(jnp.zeros([]))

    def update(self, state, **extra_args):
        return Sum(state.total + extra_args["more"])

    def __call__(self, state, **extra_args):
        del extra_args
        return state.total


@demand("plain")
def injected_schedules_may_have_a_state(options):
    injected = optax.inject_hyperparams(adamomentum, static_args=STATIC)(Adding(), **options)
    params = tree()
    state = jax.jit(injected.init)(params)
    first, state = jax.jit(injected.update)(params, state, params, more=jnp.float32(0.5))
    same(first, jax.tree.map(lambda x: -0.0 * x, params))
    second, state = jax.jit(injected.update)(params, state, params, more=jnp.float32(0.5))
    assert state.hyperparams["learning_rate"] == 0.5
    assert all(jnp.all(leaf != 0) for leaf in jax.tree.leaves(second))


@demand("plain", "decay")
def injected_schedules_are_followed(options):
    rate = optax.linear_schedule(0.0, 1e-2, 10)
    plain = adamomentum(rate, **options)
    injected = optax.inject_hyperparams(adamomentum, static_args=STATIC)(rate, **options)
    params = tree()
    ends = [stepped(each, params, each.init(params)) for each in (plain, injected)]
    same(ends[1][0], ends[0][0], rtol=1e-6)
    assert_allclose(ends[1][1].hyperparams["learning_rate"], 2e-3, rtol=1e-6)


@demand("plain", "decay")
def hyperparameters_of_a_state_are_found_and_set(options):
    optimizer = optax.inject_hyperparams(adamomentum, static_args=STATIC)(1e-3, **options)
    params = tree()
    state = optimizer.init(params)
    assert_allclose(optax.tree_utils.tree_get(state, "learning_rate"), 1e-3)
    state = optax.tree_utils.tree_set(state, learning_rate=jnp.float32(0.0))
    updates, _ = optimizer.update(params, state, params)
    same(updates, jax.tree.map(lambda x: -0.0 * x, params))


@demand()
def a_constant_schedule_is_its_number(options):
    params = tree()
    ends = []
    for rate in (1e-3, optax.constant_schedule(1e-3)):
        optimizer = adamomentum(rate, **options)
        ends.append(stepped(optimizer, params, optimizer.init(params))[0])
    same(*ends, rtol=1e-6)


# States


@demand()
def a_state_knows_its_copies_of_the_parameters(options):
    optimizer = adamomentum(1e-3, **options)
    params = tree()
    _, state = optimizer.update(params, optimizer.init(params), params)
    same(optax.tree_map_params(optimizer, lambda leaf: leaf, state), state)
    named = optax.tree_map_params(
        optimizer,
        lambda _, name: name,
        state,
        {"w": "w", "b": "b"},
        transform_non_params=lambda _: "scalar",
    )
    moments = optax.tree_utils.tree_get(named, "ScaleByAdaMomentumState")
    names = {"w": "w", "b": "b"}
    assert moments == ("scalar", names, names, names if options.get("amsgrad") else None)


@demand(*TREES)
def masked_states_know_them_too(options):
    optimizer = optax.masked(adamomentum(1e-3, **options), {"w": True, "b": False})
    state = optimizer.init(tree())
    mapped = optax.tree_map_params(
        optimizer, lambda leaf: leaf + 1, state, transform_non_params=lambda leaf: leaf
    )
    assert jnp.all(optax.tree_utils.tree_get(mapped, "mu")["w"] == 1)


@demand(*TREES)
def parts_of_a_state_are_found_and_set(options):
    get, put = optax.tree_utils.tree_get, optax.tree_utils.tree_set
    optimizer = adamomentum(1e-3, **options)
    params = tree()
    _, state = optimizer.update(params, optimizer.init(params), params)
    assert get(state, "count") == 1
    same(get(put(state, mu=params), "mu"), params)


@demand()
def a_state_does_not_depend_on_values(options):
    """A checkpoint restores after weight_decay = 0 became 1e-4, and so for every number."""
    params = tree()
    state = adamomentum(1e-3, **options).init(params)
    for change in ({"weight_decay": 0.0}, {"weight_decay": 0.1}, {"b1": 0.0}, {"eps": 0.0}):
        assert kinds(adamomentum(0.0, **{**options, **change}).init(params)) == kinds(state)
    flipped = {**options, "decoupled_weight_decay": not options.get("decoupled_weight_decay", True)}
    other = adamomentum(1e-3, **flipped)
    stepped(other, params, state)
    assert kinds(other.init(params)) == kinds(state)


@demand()
def init_takes_shapes(options):
    params = tree(jnp.bfloat16)
    optimizer = adamomentum(1e-3, **options)
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), params)
    same(optimizer.init(shapes), optimizer.init(params))
    assert kinds(jax.eval_shape(optimizer.init, params)) == kinds(optimizer.init(params))


@demand("plain", "decay", "coupled")
def trees_may_be_empty(options):
    for params in ((), [], {}, {"a": {}}, optax.MaskedNode(), None):
        optimizer = adamomentum(1e-3, **options)
        given = {} if params is None else params
        state = optimizer.init(given)
        updates, after = optimizer.update(given, state, given)
        assert jax.tree.structure(updates) == jax.tree.structure(given)
        assert kinds(after) == kinds(state)


@demand(*TREES)
def leaves_may_be_none(options):
    optimizer = adamomentum(1e-3, **options)
    params = {**tree(), "none": None}
    state = optimizer.init(params)
    updates, after = jax.jit(optimizer.update)(params, state, params)
    assert updates["none"] is None
    assert optax.apply_updates(params, updates)["none"] is None
    assert kinds(after) == kinds(state)


@demand(*TREES)
def gradients_may_be_none(options):
    """No gradient is no update, and leaves the moments as they are."""
    optimizer = adamomentum(1e-3, **options)
    params = tree()
    _, state = optimizer.update(params, optimizer.init(params), params)
    updates, after = optimizer.update({"w": params["w"], "b": None}, state, params)
    assert updates["b"] is None
    for key in ("mu", "nu"):
        old, new = (optax.tree_utils.tree_get(each, key) for each in (state, after))
        same(new["b"], old["b"])
        assert jnp.any(new["w"] != old["w"])


@demand("plain", "amsgrad", "nesterov", "rectify", "debiased", "small-mu")
def update_needs_no_parameters_without_decay(options):
    for optimizer in (
        adamomentum(1e-3, **options),
        adamomentum(1e-3, **options, mask={"w": True, "b": False}),
        adamomentum(1e-3, **options, decoupled_weight_decay=False),
    ):
        for dtype in (jnp.bfloat16, jnp.float32):
            params = tree(dtype)
            state = optimizer.init(params)
            without, _ = optimizer.update(params, state)
            same(without, optimizer.update(params, state, params)[0])


@demand("decay", "coupled")
def update_asks_for_parameters_with_decay(options):
    optimizer = adamomentum(1e-3, **options)
    params = tree()
    with pytest.raises(ValueError, match="params"):
        optimizer.update(params, optimizer.init(params))


# Transformations


@demand()
def compiled_steps_are_the_same(options):
    """They compile once, and reuse the memory of their arguments."""
    optimizer = adamomentum(1e-3, **options)
    step = jax.jit(functools.partial(stepped, optimizer, steps=1), donate_argnums=(0, 1))
    params = tree()
    eager = stepped(optimizer, params, optimizer.init(params))
    state = optimizer.init(params)
    for _ in range(3):
        old = params, state
        params, state = step(*old)
        assert all(leaf.is_deleted() for leaf in jax.tree.leaves(old))
    assert step._cache_size() == 1
    # In bfloat16 the last bit may differ.
    same((params, state), eager, rtol=2**-7 if "mu_dtype" in options else 1e-5, atol=1e-7)


@demand("plain", "amsgrad", "decay", "nesterov", "rectify", "debiased")
def a_compiled_step_costs_what_that_of_optax_costs(options):
    """As many bytes, and no copies, powers or arrays between; no operation for zeros that eps
    rules out."""

    def compiled(optimizer):
        params = jnp.ones(4096)
        state = optimizer.init(params)
        step = jax.jit(functools.partial(stepped, optimizer, steps=1), donate_argnums=(0, 1))
        return step.lower(params, state).compile()

    hosts = {"amsgrad": optax.amsgrad, "weight_decay": optax.adamw, "nesterov": optax.nadam}
    host = next((hosts[name] for name in hosts if name in options), optax.adam)
    ours, theirs = compiled(adamomentum(1e-3, **options)), compiled(host(1e-3))
    scalars = 256
    moved = [each.cost_analysis()["bytes accessed"] for each in (ours, theirs)]
    assert moved[0] <= moved[1] + scalars
    if not {"amsgrad", "rectify", "debias_momentum"} & options.keys():
        operations = [each.cost_analysis()["flops"] for each in (ours, theirs)]
        assert operations[0] <= operations[1] + scalars
    extra = [each.memory_analysis().temp_size_in_bytes for each in (ours, theirs)]
    assert extra[0] <= extra[1] + scalars
    text = ours.as_text()
    assert " copy(" not in text
    assert " power(" not in text


@demand("plain", "rectify", "amsgrad")
def scanned_steps_are_the_same(options):
    optimizer = adamomentum(optax.linear_schedule(1e-3, 0.0, 10), **options)
    params = tree(jnp.bfloat16)

    def step(carry, _):
        return stepped(optimizer, *carry, steps=1), None

    carry = params, optimizer.init(params)
    scanned, _ = jax.jit(lambda carry: jax.lax.scan(step, carry, length=5))(carry)
    same(scanned, stepped(optimizer, *carry, steps=5), rtol=2**-7, atol=1e-6)


@demand("plain", "amsgrad")
def a_batch_of_models_is_its_models(options):
    optimizer = adamomentum(1e-3, **options)
    batch = jax.tree.map(lambda x: jnp.stack([x, -2 * x]), tree())
    state = jax.vmap(optimizer.init)(batch)
    ends, _ = jax.vmap(functools.partial(stepped, optimizer))(batch, state)
    for i in range(2):
        params = jax.tree.map(lambda x, i=i: x[i], batch)
        end, _ = stepped(optimizer, params, optimizer.init(params))
        same(jax.tree.map(lambda x, i=i: x[i], ends), end, rtol=1e-6)


@demand("plain", "amsgrad", "decay")
def a_mapped_step_is_the_same(options):
    optimizer = adamomentum(1e-3, **options)
    params = tree()
    plain = stepped(optimizer, params, optimizer.init(params), steps=1)
    step = jax.pmap(functools.partial(stepped, optimizer, steps=1))
    one = jax.tree.map(lambda x: x[None], params)
    mapped = step(one, jax.pmap(optimizer.init)(one))
    same(jax.tree.map(lambda x: x[0], mapped), plain, rtol=1e-6)


@demand("plain", "rectify")
def gradients_flow_through_steps(options):
    """Also where a gradient, and eps, is zero."""

    def end(rate, eps):
        optimizer = adamomentum(rate, eps=eps, **options)
        params = jnp.array([0.0, 1.0])
        return jnp.sum(stepped(optimizer, params, optimizer.init(params))[0])

    for eps in (0.0, 1e-16):
        slope = jax.grad(end)(1e-2, eps)
        difference = (end(1.01e-2, eps) - end(0.99e-2, eps)) / 2e-4
        assert_allclose(slope, difference, rtol=1e-2)


# Sharding


def sharding():
    """A mesh whose axis is part of the types, over all devices."""
    explicit = (jax.sharding.AxisType.Explicit,)
    mesh = jax.make_mesh((jax.device_count(),), ("x",), axis_types=explicit)
    return mesh, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(None, "x"))


@demand("plain", "amsgrad", "decay", "rectify")
def shards_stay_where_they_are(options):
    mesh, spec = sharding()
    with jax.set_mesh(mesh):
        params = jax.device_put(jnp.ones((2, 8), jnp.float16), spec)
        optimizer = adamomentum(1e-3, **options)
        state = optimizer.init(params)
        assert kinds(jax.jit(optimizer.init)(params)) == kinds(state)
        eager = optimizer.update(params, state, params)
        jitted = jax.jit(optimizer.update)(params, state, params)
        assert kinds(eager) == kinds(jitted) == kinds((params, state))
        for key in ("mu", "nu"):
            moment = optax.tree_utils.tree_get(jitted[1], key)
            assert moment.sharding.is_equivalent_to(spec, 2)


@demand("plain", "decay")
def shards_take_the_same_steps(options):
    """With shardings that the compiler chooses, beside one device."""
    mesh = jax.sharding.Mesh(jax.devices(), "x")
    spec = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(None, "x"))
    optimizer = adamomentum(1e-3, **options)
    params = jnp.linspace(-1.0, 1.0, 16).reshape(2, 8)
    step = jax.jit(functools.partial(stepped, optimizer, steps=1))
    one, _ = step(params, optimizer.init(params))
    placed = jax.device_put(params, spec)
    many, state = step(placed, jax.jit(optimizer.init)(placed))
    assert_allclose(np.asarray(many), np.asarray(one), rtol=1e-6)
    assert optax.tree_utils.tree_get(state, "nu").sharding.is_equivalent_to(spec, 2)


@pytest.mark.parametrize(("check", "options"), TABLE)
def test_demand(check, options):
    check(options)


def test_shards_on_two_devices():
    code = """if True:
        import jax
        from tests.contract import test_optax_host as host
        assert jax.device_count() == 2
        host.shards_stay_where_they_are({"amsgrad": True, "weight_decay": 0.1})
        host.shards_take_the_same_steps({"amsgrad": True, "weight_decay": 0.1})
    """
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("rate", [-1e-3, -1, np.float32(-1), np.array(-1.0), float("nan")])
def test_a_negative_learning_rate_is_refused(rate):
    with pytest.raises(ValueError, match="Invalid learning rate"):
        adamomentum(rate)


@pytest.mark.parametrize("rate", [0, 0.0, np.float32(1e-3), np.array(1e-3), jnp.float32(1e-3)])
def test_numbers_of_every_kind_are_learning_rates(rate):
    optimizer = adamomentum(rate)
    updates, _ = optimizer.update(tree(), optimizer.init(tree()))
    assert_array_equal(np.asarray(updates["b"] == 0), float(rate) == 0)


def test_a_weight_decay_may_follow_a_schedule():
    schedule = optax.linear_schedule(0.1, 0.0, 3)
    params = tree()
    ends = []
    for decay in (schedule, 0.1):
        optimizer = adamomentum(1e-3, weight_decay=decay)
        ends.append(stepped(optimizer, params, optimizer.init(params), steps=1)[0])
    same(*ends, rtol=1e-6)
    injected = optax.inject_hyperparams(adamomentum)(1e-3, weight_decay=schedule)
    scheduled = adamomentum(1e-3, weight_decay=schedule)
    ends = [stepped(each, params, each.init(params))[0] for each in (injected, scheduled)]
    same(*ends, rtol=1e-6)
