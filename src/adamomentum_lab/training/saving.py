"""When a run stops or saves a checkpoint, what is in it, and how it is restored."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch import Tensor
from torch.optim import Optimizer

from adamomentum_lab.contender import has_modes
from adamomentum_lab.errors import LabError
from adamomentum_lab.training.checkpoints import OPTIMIZERS, Checkpoints, has_parts, is_like
from adamomentum_lab.training.outcome import Outcome
from adamomentum_lab.workload import Workload

PAUSE, COST = 15.0, 0.02
"""By default a checkpoint is written every 15 s, or as rarely as it takes to cost at most 2 %."""


class Saving(ABC):
    """The part of a loop that checkpoints are made of."""

    workload: Workload
    fabric: Any
    checkpoints: Checkpoints | None
    checkpoint_seconds: float | None
    stopped: Callable[[], bool]
    epochs: int
    outcome: Outcome
    _optimizers: list[tuple[Optimizer, list[float]]]
    _precision: Any
    _epoch: int
    _update: int
    _loss: Any
    _measured: dict[str, list[Tensor]]
    _clock: float
    _training: bool
    _examples: Tensor | None
    _saved_at: float
    _saving: float
    _ask_at = 0
    sharded = False
    """Whether the network is sharded. It then runs only on all processes together."""

    @abstractmethod
    def _states(self) -> Mapping[str, object]:
        """Return the states of networks and optimizers, for a checkpoint."""

    @abstractmethod
    def _load_states(self, state: Any) -> None:
        """Load what `_states` returned."""

    def _set_modes(self, training: bool) -> None:
        """Switch the optimizers that have modes, as those that average weights have."""
        for optimizer, _ in self._optimizers:
            if has_modes(optimizer):
                optimizer.train() if training else optimizer.eval()  # type: ignore[attr-defined]
        self._training = training

    @property
    def _folder(self) -> Path | None:
        """The folder of the run; None if this process does not write to it."""
        if self.checkpoints is None or not self.fabric.is_global_zero:
            return None
        return self.checkpoints.last.parent

    def _agree(self) -> tuple[bool, bool]:
        """Whether to stop, and whether to save. Several processes decide together, once a second:
        one that hears of an end of its machine stops all."""
        pause = self.checkpoint_seconds
        if pause is None:
            pause = max(PAUSE, self._saving / COST)
        late = time.monotonic() - self._saved_at >= pause
        if self.fabric.world_size == 1:
            return self.stopped(), late
        if self._update < self._ask_at:
            return False, False
        stops = torch.tensor(float(self.stopped()), device=self.fabric.device)
        stop = float(self.fabric.all_reduce(stops, reduce_op="sum")) > 0
        pace = round(self._update / max(self._clock, 1e-9)) if self._update else 0
        late, self._ask_at = self.fabric.broadcast((late, self._update + max(1, pace)))
        return stop, late

    def _save(self, wait: bool = False) -> None:
        if self.checkpoints is None:
            return
        started, finished = time.monotonic(), self._epoch >= self.epochs
        own = {
            "loss": torch.as_tensor(self._loss),
            "measured": {name: torch.cat(values) for name, values in self._measured.items()},
            "carried": self.workload.state,
        }
        parts = self._states()
        if finished:
            parts = {name: part for name, part in parts.items() if name not in OPTIMIZERS}
        state = {
            **parts,
            "precision": {} if self._precision is None else self._precision.state_dict(),
            "epoch": self._epoch,
            "update": self._update,
            "training": self._training,
            **own,
            "processes": self._gather(own),
            "clock": self._clock,
            "examples": self._examples,
            **asdict(self.outcome),
        }
        if self.fabric.is_global_zero:
            self.checkpoints.save(state, wait=wait, finished=finished)
        self.fabric.barrier()
        self._saved_at = time.monotonic()
        self._saving = self._saved_at - started + self.checkpoints.seconds

    def _fits(self, state: Mapping[str, Any]) -> bool:
        if not has_parts(state):
            return False
        own = self._states()
        if state["epoch"] >= self.epochs:
            own = {name: part for name, part in own.items() if name not in OPTIMIZERS}
        return self.sharded or is_like(state, own)

    def _restore(self) -> None:
        state = self.checkpoints.load(self._fits) if self.checkpoints is not None else None
        if state is None:
            return
        self._set_modes(state.get("training", True))  # before there is anything to change
        try:
            self._load_states(state)
        except (RuntimeError, KeyError, TypeError, ValueError) as error:
            raise LabError(
                f"the checkpoints in {self._folder} do not fit this run ({error}); remove them to "
                "begin it again."
            ) from error
        if self._precision is not None:
            self._precision.load_state_dict(state["precision"])
        self._epoch, self._update, self._clock = state["epoch"], state["update"], state["clock"]
        own = self._own_part(state)
        self._loss = self.fabric.to_device(own["loss"])
        measured = self.fabric.to_device(own.get("measured", {}))
        self._measured = {name: [values] for name, values in measured.items()}
        self.workload.state = self.fabric.to_device(own.get("carried"))
        self._examples = state.get("examples")
        kept = {field.name: state[field.name] for field in fields(Outcome) if field.name in state}
        self.outcome = Outcome(**kept)

    def _own_part(self, state: Any) -> Any:
        """Return what this process carries from update to update."""
        processes, world = state.get("processes") or [state], self.fabric.world_size
        if len(processes) == world:
            return processes[self.fabric.global_rank]
        if self._update:
            raise LabError(
                f"this run was interrupted in the middle of an epoch on {len(processes)} devices; "
                f"resume it with --devices {len(processes)}."
            )
        return state

    def _gather(self, own: dict[str, Any]) -> list[Any]:
        """Return what each process carries; empty if there is one."""
        world = self.fabric.world_size
        if world == 1:
            return []
        found: list[Any] = [None] * world
        torch.distributed.all_gather_object(found, own)
        return found
