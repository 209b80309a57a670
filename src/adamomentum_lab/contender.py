"""What a contender is: the contract of an optimizer that is raced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from adamomentum_lab.errors import LabError
from adamomentum_lab.space import DECADES_OF_LR, Settings, Space, Stated, Value

if TYPE_CHECKING:
    from torch.optim import Optimizer
    from torch.optim.optimizer import ParamsT

ADAM: Settings = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}
"""Adam's settings (Kingma and Ba 2015, arXiv 1412.6980, Algorithm 1), which many share."""
COUPLED: Settings = {"decoupled_weight_decay": False}
DECOUPLED: Settings = {"decoupled_weight_decay": True}

Decay = Literal["coupled", "decoupled"]
Need = Literal["closure", "modes", "constant lr"]


@dataclass(frozen=True)
class Contender:
    """An optimizer with the settings it starts from. A wrong field raises a LabError."""

    optimizer: Callable[..., Optimizer]
    _: KW_ONLY
    source: str
    """Where its settings come from."""
    summary: str
    name: str = ""
    """That of its file, with `-` for `_`; `contenders` sets it."""
    settings: Settings = field(default_factory=dict, hash=False)
    """Every setting with its default; left out, the optimizer's own SETTINGS."""
    space: Space = field(default_factory=lambda: {"lr": DECADES_OF_LR}, hash=False)
    """What is searched where the workload has no space for it."""
    decay: Decay | None = None
    """The form of weight decay it is known by. The setting `decoupled_weight_decay` says it too."""
    needs: frozenset[Need] = frozenset()
    """What it needs of a training loop beyond gradients: a closure, its own train and eval modes,
    or a constant lr. No loop offers any of them yet."""
    like: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Of a control: setting -> the contender whose value it takes where a protocol states none for
    the control. "*" is every other setting."""

    def __post_init__(self) -> None:
        if not self.settings:
            object.__setattr__(self, "settings", getattr(self.optimizer, "SETTINGS", {}))
        if "lr" not in self.settings:
            raise self._fault("settings have no lr; name every setting with its default")
        if strange := [name for name in self.space if name not in self.settings]:
            raise self._fault(f"space has {strange[0]!r}, which is none of its settings")
        if empty := [name for name, values in self.space.items() if not values]:
            raise self._fault(f"space has no values of {empty[0]!r}")
        if strange := sorted(self.needs - {*get_args(Need)}):
            known = ", ".join(get_args(Need))
            raise self._fault(f"needs have {strange[0]!r}; there are {known}")
        self._check_decay()

    def _check_decay(self) -> None:
        switch = self.settings.get("decoupled_weight_decay")
        known = None if switch is None else "decoupled" if switch else "coupled"
        if self.decay is None:
            object.__setattr__(self, "decay", known)
        elif known not in (None, self.decay):
            raise self._fault(f"decay is {self.decay!r}, but its settings say {known!r}")
        if "weight_decay" in self.settings and self.decay not in get_args(Decay):
            raise self._fault("decay must be 'coupled' or 'decoupled', since it has weight_decay")

    def _fault(self, words: str) -> LabError:
        name = getattr(self.optimizer, "__name__", None) or repr(self.optimizer)
        return LabError(f"the contender {self.name or name}: its {words}.")

    def settings_for(self, stated: Stated) -> Settings:
        """Of the settings that are stated for each optimizer, those that are for this one."""
        common = stated.get("*", {})
        found = {name: common[name] for name in self.settings if name in common}
        if self.name in stated:
            return {**found, **stated[self.name]}
        for name in self.settings:
            other = stated.get(self.like.get(name, self.like.get("*", "")), {})
            if name in other:
                found[name] = other[name]
        return found

    def decoupled(self, settings: Settings) -> Settings:
        """The settings with decoupled weight decay, the form that makes contenders comparable.

        Where the optimizer's class knows only the coupled form, `build` has the lab apply it.
        """
        if "weight_decay" not in self.settings or self.decay == "decoupled":
            return settings
        return {**settings, **DECOUPLED}

    def check(self, settings: Iterable[str]) -> None:
        """Refuse names of settings that it does not have."""
        known = {*self.settings, *(DECOUPLED if self.decay == "coupled" else ())}
        if strange := [name for name in settings if name not in known]:
            raise LabError(
                f"{self.name} has no setting {strange[0]!r}; it has {', '.join(self.settings)}."
            )

    def build(self, params: ParamsT, **settings: Value) -> Optimizer:
        """The optimizer of these parameters, with `settings` in place of the defaults.

        Settings may come from JSON, which has lists only: they become tuples.
        """
        self.check(settings)
        chosen = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in {**self.settings, **settings}.items()
        }
        if "decoupled_weight_decay" in self.settings or "decoupled_weight_decay" not in chosen:
            return self.optimizer(params, **chosen)
        optimizer = self.optimizer(
            params, **{k: v for k, v in chosen.items() if k not in DECOUPLED}
        )
        if chosen["decoupled_weight_decay"]:
            decouple_weight_decay(optimizer)
        return optimizer


def decouple_weight_decay(optimizer: Optimizer) -> None:
    """Have every step multiply the parameters by 1 - lr * weight_decay, as AdamW does.

    The weight decay of each group moves from `weight_decay`, which the optimizer would couple with
    the gradient, to `decoupled_decay`, which it ignores and its checkpoints keep.
    """
    import torch

    for group in optimizer.param_groups:
        group["decoupled_decay"], group["weight_decay"] = group["weight_decay"], 0.0

    @torch.no_grad()
    def shrink(optimizer: Optimizer, *_: object) -> None:
        for group in optimizer.param_groups:
            params = [param for param in group["params"] if param.grad is not None]
            if params and group["decoupled_decay"]:
                torch._foreach_mul_(params, 1 - float(group["lr"]) * group["decoupled_decay"])

    optimizer.register_step_pre_hook(shrink)
