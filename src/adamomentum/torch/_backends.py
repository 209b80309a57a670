"""What a backend is, and the order in which they are asked.

A step has two phases. First each backend claims the parameters for which it is exact, and nothing
is changed. Then the scalars are computed, and each backend runs what it has claimed. A backend is
one module with the names of `Backend`, and one entry in `BACKENDS`.
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
    """What a backend has claimed."""

    @property
    def steps(self) -> Collection[float]:
        """The distinct numbers of this step; none where a graph is recorded."""


class Backend(Protocol):
    """A module with these names."""

    NAME: str
    FUSED: bool
    """Whether fused=True asks for it."""
    VALIDATES: bool
    """Whether it leaves parameters alone whose gradients `check_grad` refuses. It is then asked
    before the check, which takes longer than the step of a small tensor."""

    def unavailable(self, device: torch.device, /) -> str | None:
        """Why it cannot update tensors of this device, or ""; None if it is not meant for it."""

    def wants(self, group: Group) -> bool:
        """Whether the options of the group allow it."""

    def claim(self, params: list[Tensor], states: States, group: Group) -> tuple[Any, list[Tensor]]:
        """The work on those parameters for which `run` is exact, or None, and the others.

        Every parameter has a gradient and a complete state; nothing is changed. A parameter that
        is listed twice is to be updated twice, one after the other.
        """

    def claim_slots(self, slots: list[Slot], group: Group) -> tuple[Any, list[Slot]]:
        """The same for tensors that no torch optimizer holds: those of Keras."""

    def run(self, work: Any, scalars: Table) -> None:
        """Update the tensors of the work in place, and count their steps up by 1."""


# Each before those it is faster than; the last one claims everything.
BACKENDS: tuple[Backend, ...] = (_native, _triton, _foreach, _single)


def update_slots(slots: list[Slot], group: Group) -> None:
    """Take a step with tensors that no torch optimizer holds: those of Keras."""
    scalars = Table(group)
    with torch.no_grad():
        for backend in BACKENDS:
            if slots and backend.wants(group):
                work, slots = backend.claim_slots(slots, group)
                if work is not None:
                    backend.run(work, scalars)


def fused_unavailable(device: torch.device) -> str:
    """Why fused=True cannot be honoured for tensors of this device, or nothing."""
    reasons = [backend.unavailable(device) for backend in BACKENDS if backend.FUSED]
    return next((x for x in reasons if x is not None), f"there is none for {device.type}")


def backends() -> dict[str, str]:
    """What can update tensors here, and why not what cannot.

    Returns:
        For each backend, in the order in which they are tried, "available" or the reason.
    """
    devices = [torch.device("cpu")]
    if torch.accelerator.is_available() and (gpu := torch.accelerator.current_accelerator()):
        devices.append(gpu)
    found = {}
    for backend in BACKENDS:
        reasons = [x for x in map(backend.unavailable, devices) if x is not None]
        found[backend.NAME] = (reasons[0] or "available") if reasons else "there is no GPU"
    if found[_native.NAME] == "available" and (note := _native.build_note()):
        found[_native.NAME] += f"; {note}"
    return found
