"""What a contender is: the contract of an optimizer that is raced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from adamomentum_lab.errors import LabError

if TYPE_CHECKING:
    from torch.optim import Optimizer
    from torch.optim.optimizer import ParamsT

TUNABLE = ("lr", "weight_decay", "eps", "betas", "momentum", "final_lr")
"""The settings that can be searched."""
ADAM: dict[str, Any] = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}
"""Adam's settings (Kingma and Ba 2015, arXiv 1412.6980, Algorithm 1), which many share."""
COUPLED = {"decoupled_weight_decay": False}
DECOUPLED = {"decoupled_weight_decay": True}
LOGARITHMIC = frozenset({"lr", "weight_decay", "eps", "final_lr"})
"""Those that are searched on a logarithmic scale. Of the others values are listed."""


@dataclass(frozen=True)
class Contender:
    """An optimizer with the settings it starts from."""

    name: str
    optimizer: Callable[..., Optimizer]
    defaults: dict[str, Any] = field(hash=False)  # every setting there is, lr and weight_decay too
    source: str  # of the defaults
    summary: str
    role: Literal["paper", "control", "extra"]
    family: Literal["sgdm", "adaptive"]  # of the search grids
    shares: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """Of a control: whose settings are its own too, and which, where a protocol states none."""

    def settings_for(self, settings: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Of the settings that a protocol has for each optimizer, those that are for this one."""
        if self.name in settings:
            return dict(settings[self.name])
        return {
            key: settings[other][key]
            for other, keys in self.shares.items()
            for key in keys
            if key in settings.get(other, ())
        }

    def check(self, settings: Iterable[str]) -> None:
        """Refuse names of settings that it does not have."""
        if strange := [name for name in settings if name not in self.defaults]:
            raise LabError(
                f"{self.name} has no setting {strange[0]!r}; it has {', '.join(self.defaults)}."
            )

    def build(self, params: ParamsT, **settings: Any) -> Optimizer:
        """The optimizer of these parameters, with `settings` in place of the defaults.

        Settings may come from JSON, which has lists only: they become tuples.
        """
        self.check(settings)
        chosen = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in (self.defaults | settings).items()
        }
        return self.optimizer(params, **chosen)
