"""The specification of a run: everything that determines its numbers, and nothing else."""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass, fields
from typing import Any

from adamomentum_lab.rules import Scale
from adamomentum_lab.space import Settings


@dataclass(frozen=True)
class Spec:
    """One run. Threads and paths are not part of it: they belong to the machine. The number of
    devices is, if it is above 1, since it changes the numbers."""

    workload: str
    code: str
    """Digest of the code that defines the workload."""
    optimizer: str
    settings: tuple[tuple[str, Any], ...]
    """Every setting of the optimizer, defaults included, sorted by name."""
    seed: int
    scale: Scale
    protocol: str
    precision: str = "32-true"
    optimizer_code: str = ""
    """Digest of the code that defines the contender; empty in stores of version 0.1."""
    target: str = ""
    """What the contender is, unless it is the lab's of this name: "lion.py:Lion"."""
    epochs: int = 0
    """The length of the run and of its schedule, unless it is the workload's."""
    device: str = ""
    """The kind of device, "cuda" or "mps"; empty is the CPU."""
    compile: bool = False
    """Whether torch.compile compiles the network."""
    devices: str = ""
    """If several share the run: how many, and how, as "2 ddp". Batch norm sees a part of a batch,
    and each device draws its own random numbers."""

    @classmethod
    def of(cls, settings: Settings, **rest: Any) -> Spec:
        """Make a specification from a mapping of settings. Lists become tuples."""
        items = ((key, _freeze(value)) for key, value in sorted(settings.items()))
        return cls(settings=tuple(items), **rest)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Spec:
        """The inverse of `as_json`."""
        return cls.of(**data)

    def as_json(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        # Ids without these must not change.
        for later in ("optimizer_code", "target", "epochs", "device", "compile", "devices"):
            if not plain[later]:
                del plain[later]
        settings = {k: list(v) if isinstance(v, tuple) else v for k, v in self.settings}
        return {**plain, "settings": settings}

    @functools.cached_property
    def id(self) -> str:
        """A digest of the whole specification, which also names the folder of the run."""
        text = json.dumps(self.as_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        return f"{self.optimizer} on {self.workload}, seed {self.seed}"


def _freeze(value: Any) -> Any:
    """Return the value as hashable, with 1 as 1.0."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_freeze, value))
    return float(value) if type(value) is int else value
