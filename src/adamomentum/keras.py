"""AdaMomentum for Keras 3, on its torch and JAX backends."""

from __future__ import annotations

import math
from typing import Any

try:
    import keras
    from keras import ops
except ModuleNotFoundError as error:
    if error.name == "tensorflow":
        raise ModuleNotFoundError(
            "adamomentum.keras runs on Keras' torch and JAX backends; "
            "set the environment variable KERAS_BACKEND to torch or jax",
            name=error.name,
        ) from error
    if error.name != "keras":
        raise
    raise ModuleNotFoundError(
        "adamomentum.keras needs Keras; install it with: pip install 'adamomentum[keras]'",
        name=error.name,
    ) from error

from adamomentum import rule

__all__ = ["AdaMomentum"]

_EXCLUDED = "excluded_from_weight_decay"


@keras.saving.register_keras_serializable(package="adamomentum")
class AdaMomentum(keras.optimizers.Optimizer):
    """Adam whose second moment averages squared *momentum*, with epsilon inside it.

        m_t     = b1 m_{t-1} + (1 - b1) g_t
        v_t     = b2 v_{t-1} + (1 - b2) m_t^2 + epsilon
        theta_t = theta_{t-1} - lr * (m_t / (1 - b1^t)) / sqrt(v_t / (1 - b2^t))

    It takes the place of `keras.optimizers.AdamW`, but learning rate and epsilon do not mean the
    same: at equal learning rate its steps are sqrt((1+b1)/(1-b1)) = 4.36 times Adam's where noise
    dominates, and the first is learning_rate/(1-b1), ten times Adam's. Warm it up.

    Args:
        learning_rate: A float, a `keras.optimizers.schedules.LearningRateSchedule`, or a callable
            that takes no arguments and returns the value to use.
        beta_1: Decay rate of the average of the gradient.
        beta_2: Decay rate of the average of the squared momentum.
        epsilon: Added to the second moment at every step, which makes the smallest denominator
            sqrt(epsilon / (1 - beta_2)): 3e-7 for the default. Adam's values do not carry over.
        amsgrad: Whether to divide by the largest second moment so far. Not together with
            `rectify`.
        nesterov: Whether to look one step ahead in the numerator.
        rectify: Whether to use RAdam's variance rectification, as the paper's authors did for
            translation and GANs.
        debias_momentum: Whether to average the square of the bias-corrected momentum, which makes
            the first step learning_rate instead of learning_rate/(1-beta_1). Not in the paper.
        weight_decay: Strength of the weight decay: variables shrink by
            learning_rate * weight_decay, as in AdamW. For decay in the gradient give layers a
            `keras.regularizers.L2`.
        name: The name of the optimizer.
        **kwargs: Those of every Keras optimizer: `clipnorm`, `clipvalue`, `global_clipnorm`,
            `use_ema`, `ema_momentum`, `ema_overwrite_frequency`, `loss_scale_factor`,
            `gradient_accumulation_steps`.

    Reference:
        [Wang et al., 2021](https://arxiv.org/abs/2106.11514), Algorithm 1.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-16,
        amsgrad: bool = False,
        nesterov: bool = False,
        rectify: bool = False,
        debias_momentum: bool = False,
        weight_decay: float | None = None,
        name: str = "adamomentum",
        **kwargs: Any,
    ) -> None:
        backend = keras.backend.backend()
        if backend not in ("torch", "jax"):
            raise NotImplementedError(
                f"adamomentum.keras runs on Keras' torch and JAX backends, not on {backend}; "
                f"set the environment variable KERAS_BACKEND to torch or jax."
            )
        for key, beta in {"beta_1": beta_1, "beta_2": beta_2}.items():
            if not 0 <= beta < 1:
                raise ValueError(f"Invalid {key}: {beta} (it lies in [0, 1)).")
        if not 0 <= epsilon < math.inf:
            raise ValueError(f"Invalid epsilon: {epsilon} (it must be finite and at least 0).")
        if amsgrad and rectify:
            raise ValueError(
                "amsgrad=True and rectify=True contradict each other: the rectified step has no "
                "place for the maximum; use one of the two."
            )
        super().__init__(
            learning_rate=learning_rate, weight_decay=weight_decay, name=name, **kwargs
        )
        self._excluded: list[str] = []
        self.beta_1 = float(beta_1)
        self.beta_2 = float(beta_2)
        self.epsilon = float(epsilon)
        self.amsgrad = amsgrad
        self.nesterov = nesterov
        self.rectify = rectify
        self.debias_momentum = debias_momentum

    def build(self, variables: list[Any]) -> None:
        """Make the moments of the variables: in float32 for half-precision ones."""
        if self.built:
            return
        super().build(variables)
        self._m = self._moments(variables, "momentum")
        self._v = self._moments(variables, "momentum_square")
        self._v_max = self._moments(variables, "max_momentum_square") if self.amsgrad else []

    def _moments(self, variables: list[Any], name: str) -> list[Any]:
        moments: list[Any] = []
        for variable in variables:
            if getattr(variable, "overwrite_with_gradient", False):  # which is never stepped
                moments.append(None)
            elif _wide(variable) == variable.dtype:
                moments.append(self.add_variable_from_reference(variable, name=name))
            else:
                moments.append(
                    self.add_variable(
                        shape=variable.shape,
                        dtype=_wide(variable),
                        name=f"{variable.path.replace('/', '_')}_{name}",
                    )
                )
        return moments

    def exclude_from_weight_decay(self, var_list: Any = None, var_names: Any = None) -> None:
        """Leave variables out of weight decay: these, and those with one of these in their name.

        Call it before training. Names are saved with the model, variables are not.
        """
        if isinstance(var_names, str):  # whose letters Keras would look for
            raise TypeError(f"var_names is a list of strings; pass [{var_names!r}].")
        super().exclude_from_weight_decay(var_list, var_names)
        self._excluded = list(var_names or [])

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Update one variable and its moments."""
        self._update(gradient, variable, learning_rate, self._scalars(_wide(variable)))

    def _backend_update_step(self, grads: Any, variables: Any, learning_rate: Any) -> None:
        if keras.backend.backend() == "torch":
            self._update_torch(grads, variables, learning_rate)
            return
        scalars = {dtype: self._scalars(dtype) for dtype in set(map(_wide, variables))}
        for gradient, variable in zip(grads, variables, strict=True):
            self._update(gradient, variable, learning_rate, scalars[_wide(variable)])

    def _update_torch(self, grads: Any, variables: Any, learning_rate: Any) -> None:
        """Update all variables at once, by the backends of the torch optimizer."""
        from adamomentum.torch._keras import update

        names = ("amsgrad", "nesterov", "rectify", "debias_momentum")
        options: dict[str, Any] = {name: getattr(self, name) for name in names}
        options |= {"betas": (self.beta_1, self.beta_2), "eps": self.epsilon}
        rows: dict[float, list[Any]] = {}
        for gradient, variable in zip(grads, variables, strict=True):
            i = self._get_variable_index(variable)
            v_max = self._v_max[i].value if self.amsgrad else None
            decays = self.weight_decay is not None and self._use_weight_decay(variable)
            row = (variable.value, gradient, self._m[i].value, self._v[i].value, v_max)
            rows.setdefault(self.weight_decay if decays else 0.0, []).append(row)
        t = ops.convert_to_tensor(self.iterations)
        for decay, each in rows.items():
            update(each, t, learning_rate, {**options, "weight_decay": decay})

    def _scalars(self, dtype: str) -> rule.Scalars:
        """Those of the coming step, for moments of this dtype."""
        found: rule.Scalars = rule.scalars(
            ops.cast(self.iterations + 1, dtype),
            beta1=self.beta_1,
            beta2=self.beta_2,
            eps=self.epsilon,
            nesterov=self.nesterov,
            rectify=self.rectify,
            debias_momentum=self.debias_momentum,
            xp=ops,
        )
        return found

    def _update(
        self, gradient: Any, variable: Any, learning_rate: Any, scalars: rule.Scalars
    ) -> None:
        i = self._get_variable_index(variable)
        dtype = _wide(variable)
        direction, m, v, v_max = rule.direction(
            ops,
            ops.cast(gradient, dtype),
            ops.convert_to_tensor(self._m[i]),
            ops.convert_to_tensor(self._v[i]),
            scalars,
            ops.convert_to_tensor(self._v_max[i]) if self.amsgrad else None,
        )
        self.assign(self._m[i], m)
        self.assign(self._v[i], v)
        if self.amsgrad:
            self.assign(self._v_max[i], v_max)
        theta = ops.cast(variable, dtype)
        if self.weight_decay is not None and self._use_weight_decay(variable):
            direction = direction + self.weight_decay * theta
        stepped = theta - ops.cast(learning_rate, dtype) * direction
        self.assign(variable, ops.cast(stepped, variable.dtype))

    def _apply_weight_decay(self, variables: list[Any]) -> None:
        """Leave it to `update_step`: Keras would round it on its own, before the step."""

    def get_config(self) -> dict[str, Any]:
        """The arguments, as a dictionary that `from_config` takes."""
        config: dict[str, Any] = super().get_config()
        own = ("beta_1", "beta_2", "epsilon", "amsgrad", "nesterov", "rectify", "debias_momentum")
        config |= {name: getattr(self, name) for name in own}
        # Only where there are any, as __init__ does not take them.
        return config | ({_EXCLUDED: self._excluded} if self._excluded else {})

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> AdaMomentum:
        """The optimizer of a dictionary that `get_config` returned."""
        config = dict(config)
        excluded = config.pop(_EXCLUDED, None)
        optimizer: AdaMomentum = super().from_config(config, custom_objects)
        if excluded:
            optimizer.exclude_from_weight_decay(var_names=excluded)
        return optimizer


def _wide(variable: Any) -> str:
    """The dtype of a variable's moments and arithmetic."""
    return "float32" if variable.dtype in ("float16", "bfloat16") else variable.dtype
