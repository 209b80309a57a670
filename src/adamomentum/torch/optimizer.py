"""The optimizer class: arguments, parameter groups, state, checkpoints, choice of backend."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch.optim import Adam, AdamW
from torch.optim.optimizer import Optimizer, ParamsT, StateDict

from adamomentum._eps import warn_adam_eps
from adamomentum.torch import _native
from adamomentum.torch._backends import BACKENDS, Backend
from adamomentum.torch._scalars import Table
from adamomentum.torch._state import V_MAX, Group, M, States, V, missing_states, new_step
from adamomentum.torch._validation import (
    check_grad,
    check_options,
    check_param,
    check_running,
    check_state_dict,
    pairs,
    refuse_fused,
)
from adamomentum.torch.migrate import take_over

if TYPE_CHECKING:
    from typing_extensions import Self


class AdaMomentum(Optimizer):
    """Adam whose second moment averages squared *momentum*, with eps inside it.

        m_t     = b1 m_{t-1} + (1 - b1) g_t
        v_t     = b2 v_{t-1} + (1 - b2) m_t^2 + eps
        theta_t = theta_{t-1} - lr * (m_t / (1 - b1^t)) / sqrt(v_t / (1 - b2^t))

    Algorithm 1 of "Rethinking Adam: A Twofold Exponential Moving Average Approach"
    (https://arxiv.org/abs/2106.11514). It replaces torch.optim.AdamW, but lr and eps have a
    different meaning. At the same lr its steps are sqrt((1+b1)/(1-b1)) = 4.36 times as long as
    Adam's when noise dominates the gradient. The first step is lr/(1-b1), ten times Adam's. Try
    learning rates between an Adam lr and a 4.36th of it, and use warm-up.

    Args:
        params: parameters, named parameters, or parameter groups. Every option below can be set
            per group.
        lr: learning rate, a float or a 1-element tensor.
        betas: decay rates of the average gradient and of the average squared momentum.
        eps: added to the second moment at every step. The smallest possible denominator is
            sqrt(eps / (1 - b2)): 3e-7 for the default, 3e-3 for 1e-8. Do not copy Adam's value. A
            float or a 1-element tensor.
        weight_decay: weight decay coefficient, a float or a 1-element tensor.
        amsgrad: divide by the largest second moment so far. Cannot be combined with `rectify`.
        decoupled_weight_decay: True shrinks the parameters by lr * weight_decay, as AdamW does.
            False adds weight_decay * parameter to the gradient, as Adam does. The paper's
            CIFAR-10 and Penn Treebank settings use False.
        nesterov: look one step ahead in the numerator.
        rectify: apply RAdam's variance rectification, as in the authors' translation and GAN runs.
        debias_momentum: average the square of the bias-corrected momentum. The first step is then
            lr instead of lr/(1-b1); late steps are unchanged. Not in the paper.
        maximize: maximize the objective instead of minimizing it.
        foreach: True and None update lists of tensors at once where that is exact. False updates
            one parameter at a time, which needs less memory and more time.
        fused: True uses the fused kernel for every parameter, and raises an error if it is
            unsupported. None uses it where it is exact, unless `foreach` is given. False never
            uses it.
        capturable: keep `step` on the parameters' device, so that a CUDA graph can capture the
            step.
        differentiable: let autograd differentiate through the step.
        state_dtype: dtype of both moments: torch.float32, torch.float64 or torch.bfloat16
            (rounded stochastically). The default is the dtype of the parameter, but float32 for
            half-precision parameters.
        stochastic_rounding: round bfloat16 parameters up or down at random, so that small updates
            are not lost on average. Ignored for other dtypes.

    Examples:
        >>> model = torch.nn.Linear(3, 1)
        >>> optimizer = AdaMomentum(model.parameters(), lr=1e-3, weight_decay=1e-2)
        >>> model(torch.ones(2, 3)).sum().backward()
        >>> optimizer.step()
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float | Tensor = 1e-16,
        weight_decay: float | Tensor = 0.0,
        amsgrad: bool = False,
        *,
        decoupled_weight_decay: bool = True,
        nesterov: bool = False,
        rectify: bool = False,
        debias_momentum: bool = False,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        state_dtype: torch.dtype | None = None,
        stochastic_rounding: bool = False,
    ) -> None:
        defaults = {**locals()}  # of which these are no options of the groups
        for name in ("self", "params", "__class__"):
            defaults.pop(name, None)
        check_options(defaults)
        warn_adam_eps("eps", eps, betas[1])
        super().__init__(params, defaults)

    @classmethod
    def from_adam(
        cls, optimizer: Adam | AdamW, *, translate_lr: bool = True, **options: Any
    ) -> Self:
        """Continue a run of torch.optim.Adam or AdamW, with its groups, steps and first moments.

        The second moment starts at Adam's times (1-b1)/(1+b1), its expected value if gradients
        are pure noise. lr is scaled by the root of the same factor, so the next step is as long as
        Adam's would have been. This does not hold for gradients of 1e-6 and below, where the
        default eps matters. Decoupled weight decay is scaled the other way, so that
        lr * weight_decay does not change. An Adam that has not stepped yet becomes a new
        AdaMomentum, with its long first steps. `optimizer` is not modified.

        Args:
            optimizer: an instance of Adam or AdamW.
            translate_lr: False keeps lr and weight decay. Steps are then 4.36 times as long at
                b1 = 0.9.
            options: options of AdaMomentum for all groups, used as given. If lr is among them,
                neither lr nor weight decay is scaled. eps is AdaMomentum's default unless given,
                because Adam's eps has a different meaning.
        """
        return take_over(cls, optimizer, translate_lr, options)

    def add_param_group(self, param_group: Group) -> None:
        """Add a parameter group. Options that it does not set get the defaults."""
        super().add_param_group(param_group)
        try:
            group = self.param_groups[-1]
            check_options(group)
            for param in group["params"]:
                if not is_lazy(param):  # else its module is initialized before the first step
                    check_param(param, group, len(self.param_groups) - 1)
        except Exception:
            self.param_groups.pop()
            raise

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update every parameter that has a gradient.

        Args:
            closure: reevaluates the model and returns the loss. Gradients are enabled inside it.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self._overflowed():
            return loss
        # Check all groups before changing anything, so that an error leaves no half-taken step.
        plans = [self._plan(group, i) for i, group in enumerate(self.param_groups)]
        for complete, _, _ in plans:
            for param, state in complete.items():
                self.state[param].update(state)
        for _, claims, scalars in plans:
            with torch.set_grad_enabled(scalars.group["differentiable"]):
                for backend, work in claims:
                    backend.run(work, scalars)
        return loss

    def _plan(self, group: Group, i: int) -> tuple[States, list[tuple[Backend, Any]], Table]:
        """Plan a step of group i: new states, the work of each backend, the scalars."""
        claims: list[tuple[Backend, Any]] = []
        complete: States = {}
        if torch.compiler.is_compiling():
            params, states = self._states_of_graph(group)
        else:
            check_running(group)
            states = self.state if isinstance(self.state, dict) else dict(self.state)
            params = list(group["params"])
            if _native.wants(group):
                # Checks in Python take longer than the kernel's step of a small tensor. The
                # kernel claims only parameters that pass all checks, so they are not repeated.
                work, params = _native.claim_ready(params, states, group)
                if work is not None:
                    claims.append((_native, work))
            else:
                params = [param for param in params if param.grad is not None]
            if params:
                complete = missing_states(params, self.state, group)
                states = {**self.state, **complete} if complete else self.state
                for param in params:
                    check_grad(param, group, i, states[param])
        for backend in BACKENDS:
            if params and backend.wants(group):
                work, params = backend.claim(params, states, group)
                if work is not None:
                    claims.append((backend, work))
        if params:
            refuse_fused(params[0], group, i, states[params[0]])
        scalars = Table(group, getattr(self, "grad_scale", None))
        for _, work in claims:
            for t in work.steps:
                scalars.at(t)
        return complete, claims, scalars

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """Tell GradScaler whether `step` unscales gradients and skips overflows itself.

        Only the CPU kernel can unscale.
        """
        return all(
            group["fused"] and all(param.is_cpu for param in group["params"])
            for group in self.param_groups
        )

    def _overflowed(self) -> bool:
        """Return whether GradScaler found an overflow. It sets `found_inf` on the optimizer."""
        found_inf = getattr(self, "found_inf", None)
        return found_inf is not None and bool(found_inf)

    def _states_of_graph(self, group: Group) -> tuple[list[Tensor], States]:
        """Return the parameters of a group and their states while torch.compile traces the step."""
        columns: list[list[Tensor]] = [[], [], [], [], [], []]
        self._init_group(group, *columns)
        params, _, *rest = columns
        keys = (M, V, "step", V_MAX) if group["amsgrad"] else (M, V, "step")
        rows = zip(*(column for column in rest if column), strict=True)
        states = [dict(zip(keys, row, strict=True)) for row in rows]
        return params, dict(zip(params, states, strict=True))

    def _init_group(self, group: Group, *columns: list[Tensor]) -> None:
        """Create the state of a group.

        torch.compile looks for this method name and runs it outside the graph. Without it the
        first step would compile to a separate graph.
        """
        params = [param for param in group["params"] if param.grad is not None]
        for param, complete in missing_states(params, self.state, group).items():
            self.state[param].update(complete)
        for param in params:
            state = self.state[param]
            v_max = state[V_MAX] if group["amsgrad"] else None
            row = (param, param.grad, state[M], state[V], state["step"], v_max)
            for column, tensor in zip(columns, row, strict=True):
                if tensor is not None:
                    column.append(tensor)

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Load a result of `state_dict()`. Training then continues bit for bit.

        Moments keep the dtype they were saved in; torch would cast them to the parameter's dtype.
        They are copied, not shared with `state_dict`. Options missing from the dictionary get their
        defaults.
        """
        check_state_dict(state_dict, self.param_groups, _DEFAULTS)
        loaded: StateDict = {}

        def check(_: Optimizer, state_dict: StateDict) -> None:
            check_state_dict(state_dict, self.param_groups, _DEFAULTS)
            loaded.update(state_dict)

        def restore(_: Optimizer) -> None:
            for group in self.param_groups:
                check_options(group)  # also converts numbers to float
            with torch.inference_mode(False):  # inference tensors could not be updated later
                for i, param, group in pairs(loaded, self.param_groups):
                    if saved := loaded["state"].get(i):
                        self.state[param].update(_own(saved, param, group))

        # Use hooks, so that the user's own hooks see the loaded state and can change it.
        handles = [
            self.register_load_state_dict_pre_hook(check),
            self.register_load_state_dict_post_hook(restore, prepend=True),
        ]
        try:
            super().load_state_dict(state_dict)
        finally:
            for handle in handles:
                handle.remove()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for options in (self.defaults, *self.param_groups):
            for name, default in _DEFAULTS.items():
                options.setdefault(name, default)


_DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(AdaMomentum).parameters.items()
    if name != "params"
}


def _own(saved: dict[str, Any], param: Tensor, group: Group) -> dict[str, Any]:
    """Return those entries of a saved state that torch would not load correctly.

    These are the step and the moments, copied to the parameter's device in their saved dtype, and
    all values that are not tensors. float16 moments (from other optimizers) are widened to
    float32. Other tensors, such as those of a wrapper, are loaded by torch.
    """
    own = {key: value for key, value in saved.items() if not isinstance(value, Tensor)}
    if "step" in saved:
        own["step"] = new_step(param, group, saved["step"])
    for key in {M, V, V_MAX} & saved.keys():
        dtype = torch.promote_types(saved[key].dtype, torch.bfloat16)
        own[key] = saved[key].to(param.device, dtype).clone()
    return own
