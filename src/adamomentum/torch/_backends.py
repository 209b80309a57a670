"""The interface of a backend, and the order in which backends are tried.

A step has two phases. First each backend claims the parameters that it can update exactly; nothing
changes yet. Then the scalars are computed, and each backend updates the parameters that it claimed.
A backend is one module with the names of `Backend`, and one entry in `BACKENDS`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

import torch
from torch import Tensor

from adamomentum.torch import _foreach, _native, _single, _triton
from adamomentum.torch._scalars import Table
from adamomentum.torch._state import Group, Slot, States


class Work(Protocol):
    """The parameters that a backend has claimed."""

    @property
    def steps(self) -> Collection[float]:
        """The distinct step numbers; empty while a graph is recorded."""


class Backend(Protocol):
    """The names that the module of a backend must define."""

    NAME: str
    FUSED: bool
    """Whether fused=True selects this backend."""

    def unavailable(self, device: torch.device, /) -> str | None:
        """Return why it cannot update tensors on this device; "" if it can.

        None means that the backend is for other devices.
        """

    def wants(self, group: Group) -> bool:
        """Return whether the options of the group allow this backend."""

    def claim(self, params: list[Tensor], states: States, group: Group) -> tuple[Any, list[Tensor]]:
        """Claim the parameters that `run` can update exactly. Nothing changes yet.

        Every parameter has a gradient and a complete state. A parameter that is listed twice must
        be updated twice, one after the other.

        Returns:
            The work (None if nothing is claimed), and the other parameters.
        """

    def claim_slots(self, slots: list[Slot], group: Group) -> tuple[Any, list[Slot]]:
        """Like `claim`, for tensors without a torch optimizer (those of Keras)."""

    def run(self, work: Any, scalars: Table) -> None:
        """Update the claimed tensors in place, and add 1 to their step numbers."""


# The fastest first. The last one claims everything.
BACKENDS: tuple[Backend, ...] = (_native, _triton, _foreach, _single)


def update_slots(slots: list[Slot], group: Group) -> None:
    """Take a step with tensors that belong to no torch optimizer (those of Keras)."""
    scalars = Table(group)
    with torch.no_grad():
        for backend in BACKENDS:
            if slots and backend.wants(group):
                work, slots = backend.claim_slots(slots, group)
                if work is not None:
                    backend.run(work, scalars)


def fused_unavailable(device: torch.device) -> str:
    """Return why fused=True is not supported on this device; "" if it is."""
    reasons = [backend.unavailable(device) for backend in BACKENDS if backend.FUSED]
    return next((x for x in reasons if x is not None), f"no fused kernel for {device.type}")


def backends() -> dict[str, str]:
    """List the backends and whether each is available on this machine.

    Returns:
        For each backend, in the order in which they are tried, "available" or why it is not.
    """
    devices = [torch.device("cpu")]
    if torch.accelerator.is_available() and (gpu := torch.accelerator.current_accelerator()):
        devices.append(gpu)
    found = {}
    for backend in BACKENDS:
        reasons = [x for x in map(backend.unavailable, devices) if x is not None]
        found[backend.NAME] = (reasons[0] or "available") if reasons else "no GPU found"
    if found[_native.NAME] == "available" and (note := _native.build_note()):
        found[_native.NAME] += f"; {note}"
    return found
