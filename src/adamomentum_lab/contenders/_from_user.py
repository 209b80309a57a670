"""A contender from a user's class or function: its settings from the signature, and what it needs
of a training loop from a few steps that are tried."""

from __future__ import annotations

import inspect
import io
import math
import re
import warnings
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from adamomentum_lab.contender import DECOUPLED, Contender, Need, Takes, has_modes, settings_of
from adamomentum_lab.errors import LabError
from adamomentum_lab.space import Settings

LR = 1e-3
"""Where the search begins for an optimizer without a default lr: at Adam's."""
MODEL = ("model", "module", "network", "net")
NAMED = ("named_parameters", "named_params")
"""What a function calls its first argument if it wants these instead of the parameters."""
PARAMETERS = ("params", "parameters", *NAMED)


class _UnfitError(Exception):
    """Why an optimizer cannot be raced, as the end of a sentence."""


_ERRORS = (Exception, SystemExit)
"""What users' code may raise."""


def make(value: Any, options: Settings, shown: str) -> Contender:
    """The contender that a class, a function or a Contender stands for, with these options.

    `shown` is what messages call it.
    """
    if isinstance(value, Contender):
        value.check(options)
        return _add_needs(replace(value, settings={**value.settings, **options}), shown)
    return _add_decay(_add_needs(_from_signature(value, options, shown), shown))


def _from_signature(value: Any, options: Settings, shown: str) -> Contender:
    if not callable(value):
        what = "an optimizer is a class, or a function that returns one"
        raise LabError(f"{shown} is of type {type(value).__name__}; {what}.")
    try:
        first, *rest = inspect.signature(value).parameters.values()
    except (TypeError, ValueError) as error:
        raise LabError(f"{shown} cannot be raced: it takes no parameters to train.") from error
    settings = {**settings_of(value), **options}
    defaults = {one.name: one.default for one in rest}
    later = [name for name in PARAMETERS if defaults.get(name) is inspect.Parameter.empty]
    if later and first.name not in PARAMETERS:
        why = f"its first argument is {first.name}; it must be {later[0]}"
        raise LabError(f"{shown} cannot be raced: {why}.")
    _check_options(value, options, rest, shown)
    notes: tuple[str, ...] = ()
    if "lr" not in defaults and not any(one.kind is one.VAR_KEYWORD for one in rest):
        notes = (f"{shown} has no lr: nothing of it is searched, and schedules do not change it",)
    else:
        lr = _positive(settings.get("lr", defaults.get("lr")))
        if lr is None and "lr" in options:
            why = f"its lr is {options['lr']!r}; it must be a number above 0"
            raise LabError(f"{shown} cannot be raced: {why}.")
        if lr is None:
            notes = (f"{shown} has no default lr: {LR:g} stands in for it",)
        settings = {**({} if "lr" in settings else {"lr": LR}), **settings, "lr": lr or LR}
    missing = [one.name for one in rest if one.default is one.empty and _is_named(one)]
    if lacking := [name for name in missing if name not in settings]:
        name = lacking[0]
        raise LabError(
            f"{shown} cannot be raced: {name} has no default; give it, as {shown}({name}=...), or "
            "race a function that does."
        )
    takes: Takes = "parameters"
    if first.name in (*MODEL, *NAMED):
        takes = "model" if first.name in MODEL else "named parameters"
    decays = "weight_decay" in settings and "decoupled_weight_decay" not in settings
    return Contender(
        value,
        settings=settings,
        decay="coupled" if decays else None,  # until it is tried
        source=f"the defaults of {shown}",
        summary=(inspect.getdoc(value) or shown).partition("\n")[0],
        takes=takes,
        notes=notes,
    )


def _positive(value: Any) -> float | None:
    """The value if it is a number above 0, also in a tensor; else None."""
    if isinstance(value, (bool, str)):
        return None
    try:
        # Seven digits of a tensor in float32: 0.01, not 0.009999999776.
        number = value if isinstance(value, (int, float)) else float(f"{float(value):.7g}")
    except (TypeError, ValueError, RuntimeError):
        return None
    return number if 0 < number < math.inf else None


def _is_named(one: inspect.Parameter) -> bool:
    return one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)


def _check_options(
    value: Any, options: Settings, arguments: list[inspect.Parameter], shown: str
) -> None:
    if any(one.kind is one.VAR_KEYWORD for one in arguments) and not hasattr(value, "SETTINGS"):
        return
    known = [*settings_of(value), *(one.name for one in arguments if _is_named(one))]
    if strange := [name for name in options if name not in known]:
        has = ", ".join(dict.fromkeys(known))
        raise LabError(f"{shown} has no setting {strange[0]!r}; it has {has}.")


def _add_needs(contender: Contender, shown: str) -> Contender:
    """With what it needs of a training loop, as a few steps show it."""
    if contender.takes == "model":
        return contender  # made for a network that is not here
    needs: set[Need] = {*contender.needs}
    try:
        optimizer, _, notes = _steps(contender, closure="closure" in needs)
        _check_state(optimizer)
    except LabError:
        raise
    except _ERRORS as error:
        try:
            if isinstance(error, _UnfitError):
                raise
            optimizer, _, notes = _steps(contender, closure=True)
            _check_state(optimizer)
        except _ERRORS:
            raise _fault(contender, shown, error) from error
        needs.add("closure")
    if has_modes(optimizer):  # it averages weights, which takes the place of a schedule
        needs |= {"modes"} if contender.needs else {"modes", "constant lr"}
    notes = tuple(f"{shown} {note}" for note in notes)
    return replace(contender, needs=frozenset(needs), notes=(*contender.notes, *notes))


def _fault(contender: Contender, shown: str, error: BaseException) -> LabError:
    if isinstance(error, _UnfitError):
        return LabError(f"{shown} cannot be raced: {error}.")
    try:
        _steps(contender, vectors=False)
    except _ERRORS:
        first = str(error).strip().partition("\n")[0]
        return LabError(f"{shown} cannot be raced: {type(error).__name__}: {first}")
    what = "a contender whose `parts` give the other parameters to another optimizer could be"
    return LabError(f"{shown} cannot be raced: it trains matrices only; {what}.")


def _check_state(optimizer: Optimizer) -> None:
    """Raise an error if a checkpoint cannot hold its state."""
    file = io.BytesIO()
    try:
        torch.save(optimizer.state_dict(), file)
        file.seek(0)
        torch.load(file, weights_only=True)
    except Exception as error:
        unknown = re.search(r"GLOBAL ([\w.]+)", str(error))
        first = str(error).strip().partition("\n")[0]
        why = f"it has a {unknown[1]}" if unknown else f"{type(error).__name__}: {first}"
        raise _UnfitError(f"a checkpoint cannot hold its state: {why}") from error


def _add_decay(contender: Contender) -> Contender:
    """With the form of weight decay that it has: decoupled, if a step with weight decay is one that
    shrinks the parameters by lr * weight_decay and then does as without."""
    if contender.decay is None or contender.takes == "model":
        return contender
    if "decoupled_weight_decay" in contender.settings:
        return contender
    if "modes" in contender.needs:  # its weights are not those that the lab could shrink
        return replace(contender, decay="decoupled")
    closure, decay = "closure" in contender.needs, {"lr": 1e-2, "weight_decay": 0.1}
    try:
        none, own, ours = (
            _steps(contender, settings, closure=closure)[1]
            for settings in ({"lr": 1e-2, "weight_decay": 0.0}, decay, {**decay, **DECOUPLED})
        )
    except _ERRORS:  # at other settings than its defaults; a race will say so
        return contender
    alike = (own - ours).norm() < 0.05 * (ours - none).norm()
    return replace(contender, decay="decoupled") if alike else contender


def _steps(
    contender: Contender,
    settings: Settings | None = None,
    *,
    closure: bool = False,
    vectors: bool = True,
) -> tuple[Optimizer, Tensor, tuple[str, ...]]:
    """An optimizer after three steps with a small network, the weights, and what is odd about its
    lr."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        model, x = nn.Linear(4, 3, bias=vectors), torch.randn(5, 4)
        params = list(model.parameters())
        optimizer: Any = contender.build_for(model, (), **(settings or {}))
        if not isinstance(optimizer, Optimizer):
            raise _UnfitError(f"it makes a {type(optimizer).__name__}, not a torch.optim.Optimizer")
        if not hasattr(optimizer, "param_groups"):
            raise _UnfitError("it has no param_groups; its __init__ must call super().__init__")
        rates = _rates(optimizer)
        if has_modes(optimizer):
            optimizer.train()  # type: ignore[attr-defined]
        evaluations = 0

        def evaluate() -> Tensor:
            nonlocal evaluations
            evaluations += 1
            optimizer.zero_grad()
            loss: Tensor = (model(x) - 1).square().mean()
            torch.autograd.backward(loss)
            return loss

        for _ in range(3):
            _check_dtypes(params, x.dtype)
            if closure:
                optimizer.step(evaluate)  # type: ignore[arg-type]
            else:
                evaluate()
                optimizer.step()
        _check_dtypes(params, x.dtype)
        if not evaluations:
            raise _UnfitError("it does not evaluate the loss in its step")
        notes: tuple[str, ...] = ()
        if "lr" in contender.settings and None in rates:
            notes = ("has no lr in its groups: schedules do not change it",)
        elif _rates(optimizer) != rates:
            notes = ("changes its lr itself, but the lab sets it again before each step",)
        return optimizer, torch.cat([param.detach().flatten() for param in params]), notes


def _rates(optimizer: Optimizer) -> list[float | None]:
    return [float(group["lr"]) if "lr" in group else None for group in optimizer.param_groups]


def _check_dtypes(params: list[nn.Parameter], dtype: torch.dtype) -> None:
    if others := [param.dtype for param in params if param.dtype != dtype]:
        raise _UnfitError(f"it changes the dtype of parameters from {dtype} to {others[0]}")
