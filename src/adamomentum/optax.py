"""AdaMomentum for JAX, as an Optax gradient transformation."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from numbers import Real
from typing import Any, NamedTuple

try:
    import jax
    import jax.numpy as jnp
    import numpy as np
    import optax
except ModuleNotFoundError as error:
    if error.name not in ("jax", "optax"):
        raise
    from adamomentum._install import install_command

    raise ModuleNotFoundError(
        f"adamomentum.optax needs JAX and Optax; install them with: {install_command('optax')}",
        name=error.name,
    ) from error

from adamomentum import rule
from adamomentum._eps import warn_adam_eps

__all__ = ["ScaleByAdaMomentumState", "adamomentum", "scale_by_adamomentum"]


class ScaleByAdaMomentumState(NamedTuple):
    """State of `scale_by_adamomentum`. The moments of a complex array are complex."""

    count: jax.typing.ArrayLike  # type: ignore[assignment]  # tuples have a method count
    mu: optax.Updates
    nu: optax.Updates
    """Average of the squared *momentum*, with eps in it: not Adam's `nu`."""
    nu_max: optax.Updates | None
    """Largest `nu` so far. None (not a leaf of the tree) without amsgrad."""


def scale_by_adamomentum(
    b1: jax.typing.ArrayLike = 0.9,
    b2: jax.typing.ArrayLike = 0.999,
    eps: jax.typing.ArrayLike = 1e-16,
    mu_dtype: Any = None,
    *,
    amsgrad: bool = False,
    nesterov: bool = False,
    rectify: bool = False,
    debias_momentum: bool = False,
) -> optax.GradientTransformation:
    """Rescale updates according to the AdaMomentum algorithm.

    See `adamomentum` for the arguments. Updates have the dtype of the parameters, or of the
    gradients if `update` is called without parameters. In half precision this function rounds
    before the learning rate is applied. `adamomentum` rounds once, at the end.

    Returns:
        A `optax.GradientTransformation` object.
    """
    wide = _directions(
        b1,
        b2,
        eps,
        mu_dtype,
        amsgrad=amsgrad,
        nesterov=nesterov,
        rectify=rectify,
        debias_momentum=debias_momentum,
    )

    def update(
        updates: optax.Updates, state: ScaleByAdaMomentumState, params: optax.Params | None = None
    ) -> tuple[optax.Updates, ScaleByAdaMomentumState]:
        new, state = wide.update(updates, state)
        return _cast(new, updates if params is None else params), state

    return optax.GradientTransformation(wide.init, update)


def _directions(
    b1: Any,
    b2: Any,
    eps: Any,
    mu_dtype: Any,
    *,
    amsgrad: bool,
    nesterov: bool,
    rectify: bool,
    debias_momentum: bool,
) -> optax.GradientTransformation:
    """Like `scale_by_adamomentum`, but updates have the dtype of the second moment."""
    betas_eps: list[Any] = [
        _hyperparameter(*each)
        for each in (("b1", b1, 0.9, 1.0), ("b2", b2, 0.999, 1.0), ("eps", eps, 1e-16, math.inf))
    ]
    warn_adam_eps("eps", eps, b2)
    if mu_dtype is not None:
        if not _floating(mu_dtype):
            raise ValueError(
                f"mu_dtype must be a floating-point dtype or None, but is {mu_dtype!r}; with "
                f"optax.inject_hyperparams, list it in static_args."
            )
        mu_dtype = _dtype(jnp.dtype(mu_dtype))
    if amsgrad and rectify:
        raise ValueError(
            "amsgrad=True and rectify=True cannot be combined: the rectified step does not use "
            "the maximum; set only one of them."
        )

    def init(params: optax.Params) -> ScaleByAdaMomentumState:
        def zeros(dtype: Any = None) -> optax.Updates:
            def zero(p: Any) -> Any:
                wide = _wide(p)
                is_complex = jnp.issubdtype(wide, jnp.complexfloating)
                return jnp.zeros_like(p, dtype=wide if dtype is None or is_complex else dtype)

            return jax.tree.map(zero, params)

        count = jnp.zeros([], jnp.int32)
        return ScaleByAdaMomentumState(
            count, zeros(mu_dtype), zeros(), zeros() if amsgrad else None
        )

    def update(
        updates: optax.Updates, state: ScaleByAdaMomentumState, params: optax.Params | None = None
    ) -> tuple[optax.Updates, ScaleByAdaMomentumState]:
        del params
        count = optax.safe_increment(state.count)

        @functools.cache
        def scalars(dtype: Any) -> Any:
            b1, b2, eps = (x if isinstance(x, float) else x.astype(dtype) for x in betas_eps)
            options = {"nesterov": nesterov, "rectify": rectify, "debias_momentum": debias_momentum}
            t = count.astype(dtype)
            return rule.scalars(t, beta1=b1, beta2=b2, eps=eps, **options, xp=jnp)

        def step(g: Any, m: Any, v: Any, v_max: Any) -> tuple[Any, ...]:
            if g is None:
                return g, m, v, v_max
            if jnp.iscomplexobj(v):
                # Treat complex numbers as pairs of reals, as PyTorch does.
                pairs = [None if x is None else (x.real, x.imag) for x in (g, m, v, v_max)]
                real, imag = (step(*(x and x[i] for x in pairs)) for i in (0, 1))
                return tuple(
                    None if x is None else jax.lax.complex(x, y)
                    for x, y in zip(real, imag, strict=True)
                )
            dtype = v.dtype
            d, new_m, v, v_max = rule.direction(
                jnp, jnp.asarray(g, dtype), m.astype(dtype), v, scalars(dtype), v_max
            )
            return d, new_m.astype(m.dtype), v, v_max

        tree: Any
        leaves, tree = jax.tree.flatten(updates, is_leaf=_is_none)
        moments = [tree.flatten_up_to(x) for x in (state.mu, state.nu)]
        maxima = tree.flatten_up_to(state.nu_max) if amsgrad else [None] * len(leaves)
        rows = [step(*row) for row in zip(leaves, *moments, maxima, strict=True)]
        new, mu, nu, nu_max = (tree.unflatten([row[i] for row in rows]) for i in range(4))
        return new, ScaleByAdaMomentumState(count, mu, nu, nu_max if amsgrad else None)

    return optax.GradientTransformation(init, update)


def adamomentum(
    learning_rate: optax.ScalarOrSchedule,
    b1: jax.typing.ArrayLike = 0.9,
    b2: jax.typing.ArrayLike = 0.999,
    eps: jax.typing.ArrayLike = 1e-16,
    mu_dtype: Any = None,
    weight_decay: optax.ScalarOrSchedule = 0.0,
    mask: Any | Callable[[optax.Params], Any] | None = None,
    *,
    amsgrad: bool = False,
    decoupled_weight_decay: bool = True,
    nesterov: bool = False,
    rectify: bool = False,
    debias_momentum: bool = False,
) -> optax.GradientTransformationExtraArgs:
    r"""Adam whose second moment averages squared *momentum*, with eps inside it.

        m_t     = b1 m_{t-1} + (1 - b1) g_t
        v_t     = b2 v_{t-1} + (1 - b2) m_t^2 + eps
        theta_t = theta_{t-1} - lr * (m_t / (1 - b1^t)) / sqrt(v_t / (1 - b2^t))

    It replaces `optax.adamw`, but the learning rate and eps have a different meaning. At the same
    learning rate its steps are sqrt((1+b1)/(1-b1)) = 4.36 times as long as Adam's when noise
    dominates the gradient. The first step is learning_rate/(1-b1), ten times Adam's. Use warm-up.

    Updates have the dtype of the parameters, or of the gradients if `update` is called without
    parameters. Moments and arithmetic are in float32 or wider; an update is rounded once. The state
    is a tuple of the states of `scale_by_adamomentum`, weight decay and learning rate. Its
    structure does not depend on the value of any number.

    Args:
        learning_rate: A global scaling factor, either fixed or evolving along iterations with a
            scheduler, see `optax.scale_by_learning_rate`.
        b1: Decay rate of the average gradient.
        b2: Decay rate of the average squared momentum. bfloat16 has no number between 0.996 and 1,
            so a bfloat16 array that holds 1 means the default, 0.999.
        eps: Added to the second moment at every step. The smallest possible denominator is
            sqrt(eps / (1 - b2)): 3e-7 for the default. Do not copy Adam's value.
        mu_dtype: Optional `dtype` of the first moment of real arrays. The default is the dtype of
            the parameters, but float32 for half precision. The second moment always has that
            default.
        weight_decay: Weight decay coefficient, either fixed or a schedule. Unless it is the number
            0, `update` needs the parameters.
        mask: A tree with same structure as (or a prefix of) the params PyTree, or a Callable that
            returns such a pytree given the params/updates. The leaves should be booleans, `True`
            for leaves/subtrees you want to apply the weight decay to, and `False` for those you
            want to skip.
        amsgrad: Whether to divide by the largest second moment so far. Cannot be combined with
            `rectify`.
        decoupled_weight_decay: True shrinks the parameters by learning_rate * weight_decay, as
            AdamW does. False adds weight_decay * parameter to the gradient, as Adam does.
        nesterov: Whether to look one step ahead in the numerator.
        rectify: Whether to use RAdam's variance rectification, as the paper's authors did for
            translation and GANs.
        debias_momentum: Whether to average the square of the bias-corrected momentum. The first
            step is then learning_rate instead of learning_rate/(1-b1). Not in the paper.

    Returns:
        The corresponding `optax.GradientTransformationExtraArgs`.

    Examples:
        >>> import jax, optax
        >>> from adamomentum.optax import adamomentum
        >>> def f(x): return jax.numpy.sum(x ** 2)  # simple quadratic function
        >>> solver = adamomentum(learning_rate=0.003)
        >>> params = jax.numpy.array([1., 2., 3.])
        >>> opt_state = solver.init(params)
        >>> for _ in range(5):
        ...     grad = jax.grad(f)(params)
        ...     updates, opt_state = solver.update(grad, opt_state, params)
        ...     params = optax.apply_updates(params, updates)
        >>> print(f'Objective function: {f(params):.1f}')
        Objective function: 13.0

    References:
        Wang et al, [Rethinking Adam: A Twofold Exponential Moving Average
        Approach](https://arxiv.org/abs/2106.11514), 2021
    """
    for name, value in (("learning rate", learning_rate), ("weight_decay", weight_decay)):
        _checked(name, value, math.inf)
    scale = _directions(
        b1,
        b2,
        eps,
        mu_dtype,
        amsgrad=amsgrad,
        nesterov=nesterov,
        rectify=rectify,
        debias_momentum=debias_momentum,
    )
    decay = optax.add_decayed_weights(weight_decay, mask)
    decays = not (isinstance(weight_decay, Real) and weight_decay == 0)
    rate = optax.scale_by_learning_rate(learning_rate)

    def init(params: optax.Params) -> Any:
        return tuple(each.init(params) for each in (scale, decay, rate))

    def update(
        updates: optax.Updates, state: Any, params: optax.Params | None = None, **extra_args: Any
    ) -> tuple[optax.Updates, Any]:
        del extra_args
        scale_state, decay_state, rate_state = state
        new = updates
        if decays and not decoupled_weight_decay:
            new, decay_state = decay.update(_widened(new), decay_state, _widened(params, new))
        new, scale_state = scale.update(new, scale_state)
        if decays and decoupled_weight_decay:
            new, decay_state = decay.update(new, decay_state, _widened(params, new))
        new, rate_state = rate.update(new, rate_state)
        new = _cast(new, updates if params is None else params)
        return new, (scale_state, decay_state, rate_state)

    return optax.GradientTransformationExtraArgs(init, update)


def _dtype(array: Any) -> Any:
    """Return JAX's dtype for an array, a number, a `jax.ShapeDtypeStruct` or a dtype."""
    dtype = array if isinstance(array, np.dtype) else getattr(array, "dtype", None)
    return jnp.result_type(array) if dtype is None else jax.dtypes.canonicalize_dtype(dtype)


def _wide(array: Any) -> Any:
    """Return the dtype of an array's second moment and arithmetic."""
    return jnp.promote_types(_dtype(array), jnp.float32)


def _is_none(x: Any) -> bool:
    return x is None


def _widened(tree: Any, like: Any = None) -> Any:
    """Convert a tree to the dtypes of the arithmetic; leaves without a gradient become None."""
    if tree is None:
        return None

    def widened(g: Any, x: Any) -> Any:
        return None if g is None else jnp.asarray(x, _wide(x))

    return jax.tree.map(widened, tree if like is None else like, tree, is_leaf=_is_none)


def _cast(updates: Any, like: Any) -> Any:
    """Cast updates to the dtypes of `like` where these are floating-point."""

    def cast(u: Any, x: Any) -> Any:
        if u is None or not jnp.issubdtype(_dtype(x), jnp.inexact):
            return u
        return u.astype(_dtype(x))

    return jax.tree.map(cast, updates, like, is_leaf=_is_none)


def _floating(dtype: Any) -> bool:
    try:
        return not isinstance(dtype, jax.Array) and bool(jnp.issubdtype(dtype, jnp.floating))
    except TypeError:
        return False


def _checked(name: str, value: Any, bound: float) -> Any:
    """Validate a number and return it as a float. Arrays and schedules are not read."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, Real):
        return value
    value = float(value)
    if not 0 <= value < bound:
        where = "it must be in [0, 1)" if bound == 1 else "it must be finite and at least 0"
        raise ValueError(f"Invalid {name}: {value} ({where}).")
    return value


def _hyperparameter(name: str, value: Any, default: float, bound: float) -> Any:
    """Return a float, or an array in float32 or wider.

    Half precision rounds 0.999 to 1, or 1e-16 to 0. Such a rounded default is replaced by the
    default itself.
    """
    value = _checked(name, value, bound)
    if isinstance(value, float):
        return value
    value = jnp.asarray(value)
    if value.dtype.itemsize >= 4:
        return value
    rounded = jnp.asarray(default, value.dtype)
    return jnp.where(value == rounded, default, value.astype(jnp.float32))
