"""The contract of a contender, which is an optimizer that can be raced."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from adamomentum_lab import portable
from adamomentum_lab.errors import LabError
from adamomentum_lab.schedules import Constant, Schedule
from adamomentum_lab.space import DECADES_OF_LR, Settings, Space, Stated, Value

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer
    from torch.optim.optimizer import ParamsT

ADAM: Settings = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}
"""Adam's settings (Kingma and Ba 2015, arXiv 1412.6980, Algorithm 1), which many share."""
COUPLED: Settings = {"decoupled_weight_decay": False}
DECOUPLED: Settings = {"decoupled_weight_decay": True}

Decay = Literal["coupled", "decoupled"]
Need = Literal["closure", "modes", "constant lr"]
Takes = Literal["parameters", "named parameters", "model"]
Group = dict[str, Any]
"""Parameters under `params`, and options of theirs."""
FACTORS = {"lr_factor": "lr", "weight_decay_factor": "weight_decay"}
"""factor in a group of a workload -> the setting of the optimizer that it multiplies."""


@dataclass(frozen=True)
class Entry:
    """A contender that is not in the lab's list, in the form that races and records store.

    `contenders.load` loads the contender, in any process.
    """

    target: str
    """Its place, such as "/home/me/lion.py:Lion" or "torch.optim:SGD", or the name of a contender
    of the lab."""
    options: Mapping[str, Any]
    """The settings that the user gave."""
    code: str
    """Digest of the code that defines it."""
    defaults: Mapping[str, Any]
    """Every setting before tuning, options included."""

    def __reduce__(self) -> Any:
        state = tuple(getattr(self, field.name) for field in fields(self))
        if portable.knows(self.code):
            return portable.carry(self.code, Entry, *state)
        return Entry, state

    @property
    def label(self) -> str:
        """The target without its folder. It is part of the identity of its runs."""
        return self.target.rpartition("/")[2]

    @property
    def is_users(self) -> bool:
        """Whether it is code of the user or of a package, not a contender of the lab."""
        return ":" in self.target or self.target.endswith(".py")

    @property
    def file(self) -> Path | None:
        """The user's file, if it is in one."""
        place = self.target
        if not place.endswith(".py"):
            place = place.rpartition(":")[0]
        return Path(place) if place.endswith(".py") else None

    @property
    def reference(self) -> str:
        """The text for --optimizers, such as "/home/me/lion.py:Lion(betas=(0.9, 0.99))"."""
        options = ", ".join(f"{name}={_like(v, None)!r}" for name, v in self.options.items())
        return f"{self.target}({options})" if options else self.target


@dataclass(frozen=True)
class Contender:
    """An optimizer with the settings it starts from. A wrong field raises a LabError."""

    optimizer: Callable[..., Optimizer]
    _: KW_ONLY
    source: str
    """Where its settings come from."""
    summary: str
    family: str = "of the user"
    """The heading under which `adamomentum list` shows it."""
    year: int | None = None
    """The year of its publication."""
    name: str = ""
    """The name of its file, with `-` for `_`. `contenders` sets it."""
    settings: Settings = field(default_factory=dict, hash=False)
    """Every setting with its default. Without it, the SETTINGS of the optimizer's class."""
    space: Space = field(default_factory=lambda: {"lr": DECADES_OF_LR}, hash=False)
    """The values to search if the workload has no space for it."""
    decay: Decay | None = None
    """The usual form of its weight decay. The setting `decoupled_weight_decay` implies it."""
    needs: frozenset[Need] = frozenset()
    """What it needs from a training loop beyond gradients: a closure that evaluates the loss again,
    its own train and eval modes, or a constant lr in place of the schedule."""
    like: Mapping[str, str] = field(default_factory=dict, hash=False)
    """For a control: setting -> contender. If a protocol states no settings for the control, it
    uses those of that contender. "*" is every other setting."""
    takes: Takes = "parameters"
    """The first argument of `optimizer`."""
    groups: Callable[[nn.Module], list[Group]] | None = None
    """Divides the parameters of a network into groups with their own options. `part` describes a
    group for the report, such as "hidden matrices by Muon"."""
    entry: Entry | None = field(default=None, hash=False)
    """Its place, if it is not a contender of the lab. `contenders.find` sets it."""
    notes: tuple[str, ...] = ()
    """Warnings to show with its results."""
    scheduled: frozenset[str] = frozenset()
    """Those of its settings that are not the optimizer's but the schedule's."""

    def __post_init__(self) -> None:
        if not self.settings:
            object.__setattr__(self, "settings", settings_of(self.optimizer))
        if "lr" not in self.settings:
            if "lr" in inspect.signature(self.optimizer).parameters:
                raise self._fault("settings have no lr; name every setting with its default")
            if self.space == {"lr": DECADES_OF_LR}:
                object.__setattr__(self, "space", {})  # there is nothing to search
        if strange := [name for name in self.space if name not in self.settings]:
            raise self._fault(f"space has {strange[0]!r}, which is not among its settings")
        if empty := [name for name, values in self.space.items() if not values]:
            raise self._fault(f"space has no values for {empty[0]!r}")
        if strange := sorted(self.needs - {*get_args(Need)}):
            known = ", ".join(get_args(Need))
            raise self._fault(f"needs have {strange[0]!r}; known needs are {known}")
        self._check_decay()

    def _check_decay(self) -> None:
        switch = self.settings.get("decoupled_weight_decay")
        known = None if switch is None else "decoupled" if switch else "coupled"
        if self.decay is None:
            object.__setattr__(self, "decay", known)
        elif known not in (None, self.decay):
            raise self._fault(f"decay is {self.decay!r}, but its settings say {known!r}")
        if "weight_decay" in self.settings and self.decay not in get_args(Decay):
            raise self._fault("decay must be 'coupled' or 'decoupled', as it has weight_decay")

    def _fault(self, words: str) -> LabError:
        name = getattr(self.optimizer, "__name__", None) or repr(self.optimizer)
        return LabError(f"the contender {self.name or name}: its {words}.")

    def settings_for(self, stated: Stated) -> Settings:
        """Return the settings for this contender, of those stated for each optimizer.

        A value for every optimizer does not count where this one has more or fewer numbers, as
        Adan's three betas or Adafactor's two eps.
        """
        common = stated.get("*", {})
        found = {
            name: common[name]
            for name, own in self.settings.items()
            if name in common and _count_numbers(common[name]) == _count_numbers(own)
        }
        if self.name in stated:
            return {**found, **stated[self.name]}
        for name in self.settings:
            other = stated.get(self.like.get(name, self.like.get("*", "")), {})
            if name in other:
                found[name] = other[name]
        return found

    def decoupled(self, settings: Settings) -> Settings:
        """Return the settings with decoupled weight decay, which makes contenders comparable.

        If the optimizer's class has only the coupled form, `build` makes the lab apply it.
        """
        if "weight_decay" not in self.settings or self.decay == "decoupled":
            return settings
        return {**settings, **DECOUPLED}

    def with_schedule(self, settings: Settings) -> Contender:
        """Return the contender with settings of a workload's schedule among its own."""
        if not settings:
            return self
        both = {**self.settings, **settings}
        return replace(self, settings=both, scheduled=frozenset(settings))

    def check(self, settings: Iterable[str]) -> None:
        """Raise a LabError for a setting that it does not have."""
        known = {*self.settings, *(DECOUPLED if self.decay == "coupled" else ())}
        if strange := [name for name in settings if name not in known]:
            raise LabError(
                f"{self.name} has no setting {strange[0]!r}; it has {', '.join(self.settings)}."
            )

    @property
    def options(self) -> Settings:
        """The settings that the user gave with its name. No protocol changes them."""
        return self.entry.options if self.entry else {}

    @property
    def fixed(self) -> Settings:
        """The options that no search changes: all but lr, whose search starts at its value."""
        return {name: value for name, value in self.options.items() if name != "lr"}

    def schedule(self, usual: Schedule) -> Schedule:
        """Its schedule of the lr, if others have the usual one."""
        return Constant() if "constant lr" in self.needs else usual

    def build(self, params: ParamsT, **settings: Value) -> Optimizer:
        """Build the optimizer of these parameters. `settings` override the defaults.

        Lists become tuples, since settings may come from JSON.
        """
        self.check(settings)
        chosen = {**self.settings, **settings}
        chosen = {
            name: _like(value, self.settings.get(name))
            for name, value in chosen.items()
            if name not in self.scheduled
        }
        if "decoupled_weight_decay" in self.settings or "decoupled_weight_decay" not in chosen:
            return self.optimizer(params, **chosen)
        optimizer = self.optimizer(
            params, **{k: v for k, v in chosen.items() if k not in DECOUPLED}
        )
        if chosen["decoupled_weight_decay"]:
            decouple_weight_decay(optimizer)
        return optimizer

    def build_for(
        self, model: nn.Module, groups: Sequence[Group] = (), **settings: Value
    ) -> Optimizer:
        """The optimizer of a network, with the `groups` of a workload."""
        factors = any(factor in group for group in groups for factor in FACTORS)
        # LBFGS takes one group and says so, if it gets more at once.
        if self.groups or (factors and "closure" in self.needs):
            own = self.groups(model) if self.groups else [{"params": list(model.parameters())}]
            chosen = {**self.settings, **settings}
            shared = {name: chosen[name] for name in FACTORS.values() if name in chosen}
            return self.build(_divide([{**shared, **group} for group in own], groups), **settings)
        arguments: Mapping[Takes, Callable[[], Any]] = {
            "parameters": model.parameters,
            "named parameters": lambda: list(model.named_parameters()),
            "model": lambda: model,
        }
        optimizer = self.build(arguments[self.takes](), **settings)
        if factors:
            optimizer.param_groups = _divide(optimizer.param_groups, groups)
        return optimizer


def _divide(own: Sequence[Group], groups: Sequence[Group]) -> list[Group]:
    """An optimizer's groups, each divided by those of a workload and with their factors."""
    found = []
    for group in own:
        for other in groups or [{"params": group["params"]}]:
            theirs = set(other["params"])
            params = [param for param in group["params"] if param in theirs]
            scaled = {
                name: group[name] * other[factor]
                for factor, name in FACTORS.items()
                if factor in other and name in group
            }
            if "decoupled_decay" in group and "weight_decay_factor" in other:
                strength = group["decoupled_decay"] * other["weight_decay_factor"]
                scaled["decoupled_decay"] = strength
            if params:
                found.append({**group, **scaled, "params": params})
    return found


def has_modes(optimizer: Optimizer) -> bool:
    """Whether it has modes for training and evaluation, as those that average weights have."""
    return all(callable(getattr(optimizer, mode, None)) for mode in ("train", "eval"))


def settings_of(optimizer: Callable[..., Any]) -> Settings:
    """Its own SETTINGS, or else the arguments of its signature that have plain defaults."""
    own: Settings | None = getattr(optimizer, "SETTINGS", None)
    if own is not None:
        return own
    arguments = [*inspect.signature(optimizer).parameters.values()][1:]
    return {one.name: one.default for one in arguments if is_value(one.default)}


def _count_numbers(value: Value) -> int | None:
    return len(value) if isinstance(value, (tuple, list)) else None


def is_value(value: object) -> bool:
    """Whether it can be the value of a setting: a number, a switch, a name, a list of them."""
    if isinstance(value, (tuple, list)):
        return all(map(is_value, value))
    finite = not isinstance(value, float) or math.isfinite(value)
    return finite and (value is None or isinstance(value, (bool, int, float, str)))


def _like(value: Any, default: Any) -> Any:
    """A value that may come from JSON, which has lists for tuples, or from a specification, whose
    numbers are floats: with the types of the default."""
    if isinstance(value, (tuple, list)):
        of = default if isinstance(default, (tuple, list)) else ()
        parts = [*of, *[None] * (len(value) - len(of))]
        return tuple(_like(one, part) for one, part in zip(value, parts, strict=False))
    if type(default) is int and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def decouple_weight_decay(optimizer: Optimizer) -> None:
    """Make every step first multiply the parameters by 1 - lr * weight_decay, as AdamW does.

    The weight decay of each group moves from `weight_decay`, which the optimizer would add to the
    gradient, to `decoupled_decay`. The optimizer ignores that entry; checkpoints keep it.
    """
    import torch

    for group in optimizer.param_groups:
        if "weight_decay" not in group:
            raise LabError(
                f"{type(optimizer).__name__} has no weight_decay in its groups, so the lab cannot "
                "give it decoupled weight decay; race it with --own-decay."
            )
        group["decoupled_decay"], group["weight_decay"] = group["weight_decay"], 0.0

    @torch.no_grad()
    def shrink(optimizer: Optimizer, *_: object) -> None:
        for group in optimizer.param_groups:
            params = [param for param in group["params"] if param.grad is not None]
            if params and group["decoupled_decay"]:
                torch._foreach_mul_(params, 1 - float(group["lr"]) * group["decoupled_decay"])

    optimizer.register_step_pre_hook(shrink)
