"""What every loop shares: epochs of batches, their records, checkpoints, and going on from them."""

from __future__ import annotations

import contextlib
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from adamomentum_lab.errors import LabError
from adamomentum_lab.rules import at_scale
from adamomentum_lab.schedules import Moment, Schedule
from adamomentum_lab.selection import EpochRecord, select_epoch
from adamomentum_lab.training.checkpoints import Checkpoints
from adamomentum_lab.training.feed import feed, seed_for, set_seed
from adamomentum_lab.training.single_cpu import SingleCpu
from adamomentum_lab.workload import Workload, check_splits


@dataclass
class Outcome:
    """How a run ended, and all that was measured on the way."""

    status: Literal["done", "diverged", "stopped"]
    epochs: list[EpochRecord] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """Of each epoch, training alone."""
    updates: int = 0


def shown_file(folder: Path, epoch: int) -> Path:
    """What Workload.show returned after an epoch, in the folder of a run."""
    return folder / f"shown-{epoch}.txt"


class Loop(ABC):
    """One run of a workload under an optimizer.

    `on_epoch` hears of each epoch with its record and seconds, `on_update` of each update. Once
    `stopped` says so, the run ends after the current update, with a checkpoint.
    """

    losses: ClassVar[tuple[str, ...]] = ("loss",)
    """What an update returns, by the names that their means over an epoch go by."""
    sharded = False
    """Whether the network is spread over processes, and only runs on all of them at once."""

    def __init__(
        self,
        workload: Workload,
        build: Callable[[Iterable[nn.Parameter]], Optimizer],
        seed: int,
        *,
        schedule: Schedule | None = None,
        fabric: Any = None,
        checkpoints: Checkpoints | None = None,
        checkpoint_seconds: float = 15.0,
        on_epoch: Callable[[EpochRecord, float], None] = lambda *_: None,
        on_update: Callable[[Moment], None] = lambda *_: None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.workload, self.seed, self.checkpoints = workload, seed, checkpoints
        self.schedule = schedule or workload.schedule
        self.checkpoint_seconds = checkpoint_seconds
        self.on_epoch, self.on_update, self.stopped = on_epoch, on_update, stopped
        self.fabric: Any = fabric or SingleCpu()
        set_seed(self.fabric.device, 0)  # data that is drawn is the same for every seed
        self.data, name = workload.splits(), type(workload).__name__
        check_splits(workload, self.data)
        alone = isinstance(self.fabric, SingleCpu)
        self._precision = None if alone else fabric.strategy.precision
        self.epochs = at_scale(workload.epochs, workload.scale)
        self.source = workload.source(self.data.train, training=True)
        self.per_epoch = len(self.source)
        set_seed(self.fabric.device, seed_for(seed))
        model = workload.model()
        if not isinstance(model, nn.Module):
            raise LabError(f"model() of {name} returns {model!r}, no network.")
        if next(model.parameters(), None) is None:
            raise LabError(f"model() of {name} returns a network without parameters to train.")
        self._optimizers: list[tuple[Optimizer, list[float]]] = []  # with the lr each began with
        self._set_up(model, build)
        self.outcome = Outcome("stopped")
        self._epoch = self._update = 0  # epochs finished, updates done in the one after
        self._loss: Any = 0.0
        self._clock = 0.0

    @abstractmethod
    def _set_up(self, model: Any, build: Callable[[Iterable[nn.Parameter]], Optimizer]) -> None:
        """Bring the network to its device, and give it what trains it."""

    @abstractmethod
    def _step(self, batch: Any) -> Tensor:
        """One update; its losses, in the order of `losses`."""

    @abstractmethod
    def _train_mode(self) -> None:
        """Before the updates of an epoch."""

    @abstractmethod
    def _evaluation(self) -> contextlib.AbstractContextManager[Any]:
        """With the network as it is evaluated."""

    @abstractmethod
    def _states(self) -> Mapping[str, object]:
        """What of the networks and optimizers a checkpoint must hold."""

    @abstractmethod
    def _load_states(self, state: Any) -> None:
        """The inverse of `_states`."""

    def _wrap_optimizer(self, optimizer: Optimizer) -> Any:
        """As it is to be called."""
        rates = [float(group["lr"]) for group in optimizer.param_groups]
        self._optimizers.append((optimizer, rates))
        return self.fabric.setup_optimizers(optimizer)

    def run(self, epochs: int | None = None) -> Outcome:
        """Train up to so many epochs, from the last checkpoint if there is one."""
        self._restore()
        self._saved_at = time.monotonic()
        last = min(self.epochs, epochs or self.epochs)
        going = self.outcome.status != "diverged"
        if going:  # whatever an earlier call with fewer epochs has said
            self.outcome.status = "stopped"
        before = (self._epoch, self._update)
        while going and self._epoch < last:
            going = self._train()
        if going:
            self.outcome.status = "done"
        if (self._epoch, self._update) != before:
            self._save()
        return self.outcome

    def _train(self) -> bool:
        """One epoch, or what is left of it; whether the run goes on."""
        workload, fabric = self.workload, self.fabric
        alone = fabric.world_size == 1
        if self._update == 0:
            workload.state = None
        batches = feed(
            self.source,
            self.seed,
            self._epoch,
            rank=fabric.global_rank,
            world=fabric.world_size,
            skip=self._update,
            device=fabric.device,
        )
        here = fabric.device.type == "cpu"
        patience = 1 if here else 50  # asking a GPU makes it wait
        scores = [record.get(workload.selection, {}) for record in self.outcome.epochs]
        history = tuple(of_epoch.get(workload.metric, math.nan) for of_epoch in scores)
        self._train_mode()
        while True:
            started = time.perf_counter()
            batch = next(batches, None)
            if batch is None:
                break
            now = Moment(
                self._epoch * self.per_epoch + self._update,
                # Where batches are cut at random, there may be more of them than were foreseen.
                self._epoch + min(self._update / self.per_epoch, 1 - 1e-9),
                self.epochs,
                history,
            )
            batch = batch if here else fabric.to_device(batch)
            factor = workload.lr_factor(batch)
            for optimizer, bases in self._optimizers:
                for group, base in zip(optimizer.param_groups, bases, strict=True):
                    group["lr"] = self.schedule.lr(base, now) * factor
            loss = self._step(batch)
            self._loss = self._loss + loss
            self._update += 1
            self._clock += time.perf_counter() - started
            self.on_update(now)
            # Several processes must agree, and do at the end of an epoch.
            if alone and self._update % patience == 0 and not math.isfinite(float(loss.sum())):
                self.outcome.status = "diverged"
                return False
            if alone and self.stopped():
                return False
            if alone and time.monotonic() - self._saved_at >= self.checkpoint_seconds:
                self._save()
        reduced: Any = fabric.all_reduce(self._loss)
        sums = torch.as_tensor(reduced).view(-1).tolist()
        means = {name: total / self._update for name, total in zip(self.losses, sums, strict=True)}
        if not all(map(math.isfinite, means.values())):
            self.outcome.status = "diverged"
            return False
        self._finish_epoch(means)
        late = time.monotonic() - self._saved_at >= self.checkpoint_seconds
        stop = self.stopped()
        if not alone:
            stop, late = fabric.broadcast((stop, late))
        if late and self._epoch < self.epochs:
            self._save()
        return not stop

    def _minimise(self, loss_of: Callable[[], Tensor], network: Any, optimizer: Any) -> Tensor:
        """A step of an optimizer. Gradients that are no numbers stay so: the loss will tell."""
        optimizer.zero_grad()
        loss = loss_of()
        self.fabric.backward(loss)
        if (norm := self.workload.clip) is not None:
            self.fabric.clip_gradients(network, optimizer, max_norm=norm, error_if_nonfinite=False)
        optimizer.step()
        return loss.detach()

    def _finish_epoch(self, losses: dict[str, float]) -> None:
        record: EpochRecord = {"epoch": self._epoch + 1, "train": losses}

        def is_best() -> bool:
            return select_epoch([*self.outcome.epochs, record], self.workload) is record

        with torch.no_grad(), self._evaluation() as model:
            if self.data.validation is not None:
                record["validation"] = self._evaluate(model, self.data.validation)
            # Under `fair`, test is read only where validation would have chosen.
            if self.workload.selection != "validation" or is_best():
                record["test"] = self._evaluate(model, self.data.test)
            self._look(model, record)
            if is_best():
                self._show(model, record["epoch"])
        self.outcome.epochs.append(record)
        self.outcome.seconds.append(self._clock)
        self.outcome.updates += self._update
        self._epoch, self._update, self._loss, self._clock = self._epoch + 1, 0, 0.0, 0.0
        self.on_epoch(record, self.outcome.seconds[-1])

    def _look(self, model: Any, record: EpochRecord) -> None:
        """What else there is to see after an epoch; may add to its record."""
        del model, record

    @property
    def _folder(self) -> Path | None:
        """Of the run, where this process may write to it."""
        if self.checkpoints is None or not self.fabric.is_global_zero:
            return None
        return self.checkpoints.last.parent

    def _show(self, model: Any, epoch: int) -> None:
        folder = self._folder
        if folder is None or self.sharded:
            return
        if words := self.workload.show(model, self.data, folder):
            shown_file(folder, epoch).write_text(words, encoding="utf-8")

    def _evaluate(self, model: Any, split: Any) -> dict[str, float]:
        scores = self.workload.evaluate(model, split)
        if self.workload.metric not in scores:
            has = f"{type(self.workload).__name__} scores {', '.join(scores)}"
            raise LabError(f"{has}; its metric {self.workload.metric!r} is not among them.")
        scores = {name: float(value) for name, value in scores.items()}
        return self.fabric.broadcast(scores) if self.fabric.world_size > 1 else scores

    def _save(self) -> None:
        if self.checkpoints is None:
            return
        state = {
            **self._states(),
            "precision": {} if self._precision is None else self._precision.state_dict(),
            "epoch": self._epoch,
            "update": self._update,
            "loss": torch.as_tensor(self._loss),
            "carried": self.workload.state,
            "clock": self._clock,
            **asdict(self.outcome),
        }
        if self.fabric.is_global_zero:
            self.checkpoints.save(state)
        self.fabric.barrier()
        self._saved_at = time.monotonic()

    def _restore(self) -> None:
        state = self.checkpoints.load() if self.checkpoints is not None else None
        if state is None:
            return
        self._load_states(state)
        if self._precision is not None:
            self._precision.load_state_dict(state["precision"])
        self._epoch, self._update, self._clock = state["epoch"], state["update"], state["clock"]
        self._loss = self.fabric.to_device(state["loss"])
        self.workload.state = self.fabric.to_device(state.get("carried"))
        self.outcome = Outcome(**{field.name: state[field.name] for field in fields(Outcome)})
