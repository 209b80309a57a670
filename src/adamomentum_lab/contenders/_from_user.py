"""A contender from a user's class or function: its settings from the signature, and what it needs
of a training loop from a few steps that are tried."""

from __future__ import annotations

import inspect
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
    names = {one.name for one in rest}
    _check_options(value, options, rest, shown)
    notes: tuple[str, ...] = ()
    if "lr" not in names and not any(one.kind is one.VAR_KEYWORD for one in rest):
        notes = (f"{shown} has no lr: nothing of it is searched, and schedules do not change it",)
    elif "lr" not in settings:
        settings = {"lr": LR, **settings}
        notes = (f"{shown} has no default lr: {LR:g} stands in for it",)
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
        optimizer, _ = _steps(contender, closure="closure" in needs)
    except LabError:
        raise
    except Exception as error:
        try:
            optimizer, _ = _steps(contender, closure=True)
        except Exception:
            raise _fault(contender, shown, error) from error
        needs.add("closure")
    if not isinstance(optimizer, Optimizer):
        what = f"it makes a {type(optimizer).__name__}, not a torch.optim.Optimizer"
        raise LabError(f"{shown} cannot be raced: {what}.")
    if has_modes(optimizer):  # it averages weights, which takes the place of a schedule
        needs |= {"modes"} if contender.needs else {"modes", "constant lr"}
    return replace(contender, needs=frozenset(needs))


def _fault(contender: Contender, shown: str, error: Exception) -> LabError:
    try:
        _steps(contender, vectors=False)
    except Exception:
        first = str(error).strip().partition("\n")[0]
        return LabError(f"{shown} cannot be raced: {type(error).__name__}: {first}")
    what = "a contender whose `parts` give the other parameters to another optimizer could be"
    return LabError(f"{shown} cannot be raced: it trains matrices only; {what}.")


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
    except Exception:  # at other settings than its defaults; a race will say so
        return contender
    alike = (own - ours).norm() < 0.05 * (ours - none).norm()
    return replace(contender, decay="decoupled") if alike else contender


def _steps(
    contender: Contender,
    settings: Settings | None = None,
    *,
    closure: bool = False,
    vectors: bool = True,
) -> tuple[Optimizer, Tensor]:
    """An optimizer after three steps with a small network, and the weights."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        model, x = nn.Linear(4, 3, bias=vectors), torch.randn(5, 4)
        optimizer: Any = contender.build_for(model, (), **(settings or {}))
        if not isinstance(optimizer, Optimizer):
            return optimizer, x
        if has_modes(optimizer):
            optimizer.train()  # type: ignore[attr-defined]

        def evaluate() -> Tensor:
            optimizer.zero_grad()
            loss: Tensor = (model(x) - 1).square().mean()
            torch.autograd.backward(loss)
            return loss

        for _ in range(3):
            if closure:
                optimizer.step(evaluate)  # type: ignore[arg-type]
            else:
                evaluate()
                optimizer.step()
        return optimizer, torch.cat([param.detach().flatten() for param in model.parameters()])
