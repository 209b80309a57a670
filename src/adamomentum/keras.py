"""AdaMomentum for Keras 3, on every backend except OpenVINO."""

from __future__ import annotations

import math
import re
from typing import Any

try:
    import keras
    from keras import ops
except ModuleNotFoundError as error:
    if error.name == "tensorflow":
        raise ModuleNotFoundError(
            "Keras uses TensorFlow by default, which is not installed; "
            "set the environment variable KERAS_BACKEND to torch or jax",
            name=error.name,
        ) from error
    if error.name != "keras":
        raise
    from adamomentum._install import install_command

    raise ModuleNotFoundError(
        f"adamomentum.keras needs Keras; install it with: {install_command('keras')}",
        name=error.name,
    ) from error

from adamomentum import rule
from adamomentum._eps import warn_adam_eps

__all__ = ["AdaMomentum"]

_EXCLUDED = "excluded_from_weight_decay"


@keras.saving.register_keras_serializable(package="adamomentum")
class AdaMomentum(keras.optimizers.Optimizer):
    """Adam whose second moment averages squared *momentum*, with epsilon inside it.

        m_t     = b1 m_{t-1} + (1 - b1) g_t
        v_t     = b2 v_{t-1} + (1 - b2) m_t^2 + epsilon
        theta_t = theta_{t-1} - lr * (m_t / (1 - b1^t)) / sqrt(v_t / (1 - b2^t))

    It replaces `keras.optimizers.AdamW`, but the learning rate and epsilon have a different
    meaning. At the same learning rate its steps are sqrt((1+b1)/(1-b1)) = 4.36 times as long as
    Adam's when noise dominates the gradient. The first step is learning_rate/(1-b1), ten times
    Adam's. Use warm-up.

    Args:
        learning_rate: A float, a `keras.optimizers.schedules.LearningRateSchedule`, or a callable
            that takes no arguments and returns the value to use.
        beta_1: Decay rate of the average gradient.
        beta_2: Decay rate of the average squared momentum.
        epsilon: Added to the second moment at every step. The smallest possible denominator is
            sqrt(epsilon / (1 - beta_2)): 3e-7 for the default. Do not copy Adam's value.
        amsgrad: Whether to divide by the largest second moment so far. Cannot be combined with
            `rectify`.
        weight_decay: Weight decay coefficient. Variables shrink by learning_rate * weight_decay,
            as in AdamW. None (default) means no decay. For decay in the gradient, give layers a
            `keras.regularizers.L2`.
        clipnorm: Maximum norm of the gradient of each variable.
        clipvalue: Maximum absolute value in a gradient.
        global_clipnorm: Maximum norm of all gradients together. Set at most one of `clipnorm`,
            `clipvalue` and `global_clipnorm`.
        use_ema: Whether to keep a moving average of the variables.
        ema_momentum: Decay rate of that average.
        ema_overwrite_frequency: Number of steps after which the average replaces the variables.
            None: at the end of `fit`, or when you call `finalize_variable_values`.
        loss_scale_factor: The loss is multiplied by this number, and gradients are divided by it.
        gradient_accumulation_steps: Number of gradients that are averaged for one step.
        name: Name of the optimizer. None: `ada_momentum`, with a number from the second one on.
        nesterov: Whether to look one step ahead in the numerator.
        rectify: Whether to use RAdam's variance rectification, as the paper's authors did for
            translation and GANs.
        debias_momentum: Whether to average the square of the bias-corrected momentum. The first
            step is then learning_rate instead of learning_rate/(1-beta_1). Not in the paper.

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
        weight_decay: float | None = None,
        clipnorm: float | None = None,
        clipvalue: float | None = None,
        global_clipnorm: float | None = None,
        use_ema: bool = False,
        ema_momentum: float = 0.99,
        ema_overwrite_frequency: int | None = None,
        loss_scale_factor: float | None = None,
        gradient_accumulation_steps: int | None = None,
        name: str | None = None,
        *,
        nesterov: bool = False,
        rectify: bool = False,
        debias_momentum: bool = False,
        **kwargs: Any,
    ) -> None:
        backend = keras.backend.backend()
        if backend == "openvino":
            raise NotImplementedError(
                "Keras cannot train on OpenVINO; "
                "set the environment variable KERAS_BACKEND to torch or jax."
            )
        if isinstance(weight_decay, bool):  # nesterov used to be at this position
            raise TypeError(f"weight_decay must be a number or None, but is {weight_decay}.")
        for key, beta in {"beta_1": beta_1, "beta_2": beta_2}.items():
            if not 0 <= beta < 1:
                raise ValueError(f"Invalid {key}: {beta} (it must be in [0, 1)).")
        if not 0 <= epsilon < math.inf:
            raise ValueError(f"Invalid epsilon: {epsilon} (it must be finite and at least 0).")
        warn_adam_eps("epsilon", epsilon, beta_2)
        if amsgrad and rectify:
            raise ValueError(
                "amsgrad=True and rectify=True cannot be combined: the rectified step does not "
                "use the maximum; set only one of them."
            )
        super().__init__(
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            clipnorm=clipnorm,
            clipvalue=clipvalue,
            global_clipnorm=global_clipnorm,
            use_ema=use_ema,
            ema_momentum=ema_momentum,
            ema_overwrite_frequency=ema_overwrite_frequency,
            loss_scale_factor=loss_scale_factor,
            gradient_accumulation_steps=gradient_accumulation_steps,
            name=name,
            **kwargs,
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
        """Create the moments of the variables, in float32 for half-precision variables."""
        if self.built:
            return
        super().build(variables)
        self._m = self._moments(variables, "momentum")
        self._v = self._moments(variables, "momentum_square")
        self._v_max = self._moments(variables, "max_momentum_square") if self.amsgrad else []

    def _moments(self, variables: list[Any], name: str) -> list[Any]:
        moments: list[Any] = []
        for variable in variables:
            dtype = _wide(variable)
            if getattr(variable, "overwrite_with_gradient", False):  # Keras never updates these
                moments.append(None)
            elif dtype == keras.backend.standardize_dtype(variable.dtype):
                moments.append(self.add_variable_from_reference(variable, name=name))
            else:
                layout = getattr(variable, "_layout", None)  # missing in some versions of Keras
                path = re.sub("[/:]", "_", getattr(variable, "path", variable.name))
                moments.append(
                    self.add_variable(
                        shape=variable.shape,
                        dtype=dtype,
                        name=f"{path}_{name}",
                        **({} if layout is None else {"layout": layout}),
                    )
                )
        return moments

    def exclude_from_weight_decay(self, var_list: Any = None, var_names: Any = None) -> None:
        """Exclude variables from weight decay. Call it before training.

        Args:
            var_list: Variables to exclude. They are not saved with the model.
            var_names: List of strings. A variable is excluded if its name contains one of them.
                They are saved with the model.
        """
        if isinstance(var_names, str):  # Keras would search for its letters
            raise TypeError(f"var_names must be a list of strings; pass [{var_names!r}].")
        super().exclude_from_weight_decay(var_list, var_names)
        self._excluded = list(var_names or [])

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Update one variable and its moments."""
        self._update(gradient, variable, learning_rate, self._scalars(_wide(variable)))

    def _backend_update_step(self, grads: Any, variables: Any, learning_rate: Any) -> None:
        if keras.backend.backend() == "torch":
            self._update_torch(grads, variables, learning_rate)
        elif keras.backend.backend() == "tensorflow":  # handles several replicas
            super()._backend_update_step(grads, variables, learning_rate)
        else:
            scalars = {dtype: self._scalars(dtype) for dtype in set(map(_wide, variables))}
            for gradient, variable in zip(grads, variables, strict=True):
                self._update(gradient, variable, learning_rate, scalars[_wide(variable)])

    def _update_torch(self, grads: Any, variables: Any, learning_rate: Any) -> None:
        """Update all variables at once with the backends of the torch optimizer."""
        from adamomentum.torch._keras import update

        names = ("amsgrad", "nesterov", "rectify", "debias_momentum")
        options: dict[str, Any] = {name: getattr(self, name) for name in names}
        options |= {"betas": (self.beta_1, self.beta_2), "eps": self.epsilon}
        rows: dict[float, list[Any]] = {}
        for gradient, variable in zip(grads, variables, strict=True):
            i = self._get_variable_index(variable)
            v_max = self._v_max[i].value if self.amsgrad else None
            row = (variable.value, gradient, self._m[i].value, self._v[i].value, v_max)
            rows.setdefault(self._decay(i), []).append(row)
        t = ops.convert_to_tensor(self.iterations)
        for decay, each in rows.items():
            update(each, t, learning_rate, {**options, "weight_decay": decay})

    def _scalars(self, dtype: str) -> rule.Scalars:
        """Return the scalars of the next step for moments of this dtype."""
        t = ops.cast(self.iterations + 1, dtype)
        apart = self.rectify and keras.backend.backend() == "tensorflow"
        found: rule.Scalars = rule.scalars(
            t,
            beta1=self.beta_1,
            beta2=self.beta_2,
            eps=self.epsilon,
            nesterov=self.nesterov,
            rectify=self.rectify and not apart,
            debias_momentum=self.debias_momentum,
            xp=ops,
        )
        if apart:  # TensorFlow cannot multiply the switch, a boolean, by a number.
            on, r = rule.rectification(self.beta_2, t, ops)
            found = found._replace(
                scale=ops.cast(on, dtype) * found.scale / r, outside=self.epsilon
            )
        return found

    def _update(
        self, gradient: Any, variable: Any, learning_rate: Any, scalars: rule.Scalars
    ) -> None:
        i = self._get_variable_index(variable)
        dtype = _wide(variable)
        gradient = ops.convert_to_tensor(gradient, sparse=False)
        if hasattr(gradient, "dense_shape"):  # TensorFlow's slices are still sparse here
            gradient = ops.add(gradient, ops.zeros(variable.shape, gradient.dtype))
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
        if decay := self._decay(i):
            direction = direction + decay * theta
        stepped = theta - ops.cast(learning_rate, dtype) * direction
        self.assign(variable, ops.cast(stepped, variable.dtype))

    def _decay(self, i: int) -> float:
        """Return the weight decay of variable i. TensorFlow's own variables have longer names."""
        decays = self.weight_decay and self._use_weight_decay(self._trainable_variables[i])
        return self.weight_decay if decays else 0.0

    def _apply_weight_decay(self, variables: list[Any]) -> None:
        """Do nothing: `update_step` applies weight decay. Keras would round it before the step."""

    def stateless_apply(
        self, optimizer_variables: Any, grads: Any, trainable_variables: Any
    ) -> tuple[list[Any], list[Any]]:
        """Take a step with these values. Return the new variables and the new state."""
        if keras.backend.backend() == "torch":  # steps on torch are in place
            optimizer_variables = list(map(ops.copy, optimizer_variables))
            trainable_variables = list(map(ops.copy, trainable_variables))
        stepped: tuple[list[Any], list[Any]] = super().stateless_apply(
            optimizer_variables, grads, trainable_variables
        )
        return stepped

    def finalize_variable_values(self, var_list: Any) -> None:
        """Replace the variables by their moving average, if `use_ema` is set."""
        super().finalize_variable_values(var_list)
        if self.use_ema and keras.backend.backend() == "jax":
            for variable in var_list:  # Without a copy both share memory that `fit` donates twice.
                variable.assign(ops.copy(variable))

    def get_config(self) -> dict[str, Any]:
        """Return the arguments as a dictionary for `from_config`."""
        config: dict[str, Any] = super().get_config()
        own = ("beta_1", "beta_2", "epsilon", "amsgrad", "nesterov", "rectify", "debias_momentum")
        config |= {name: getattr(self, name) for name in own}
        # Added only if not empty, because __init__ does not accept it.
        return config | ({_EXCLUDED: self._excluded} if self._excluded else {})

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> AdaMomentum:
        """Create an optimizer from the result of `get_config`."""
        config = dict(config)
        excluded = config.pop(_EXCLUDED, None)
        optimizer: AdaMomentum = super().from_config(config, custom_objects)
        if excluded:
            optimizer.exclude_from_weight_decay(var_names=excluded)
        return optimizer


def _wide(variable: Any) -> str:
    """Return the dtype of a variable's moments and arithmetic."""
    dtype: str = keras.backend.standardize_dtype(variable.dtype)  # TensorFlow has its own types
    return "float32" if dtype in ("float16", "bfloat16") else dtype
