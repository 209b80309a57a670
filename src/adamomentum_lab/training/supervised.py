"""The loop: one network, one optimizer, epochs of batches. It knows no workload by name."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins import Precision
from lightning_fabric.strategies.single_device import SingleDeviceStrategy
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from adamomentum_lab.errors import LabError
from adamomentum_lab.training.checkpoints import Checkpoints
from adamomentum_lab.training.schedules import Moment, Schedule
from adamomentum_lab.workloads import Selection, Workload

Record = dict[str, Any]
"""Of one epoch: its number, and the scores of train and, where measured, validation and test."""
Status = Literal["done", "diverged", "stopped"]


@dataclass
class Outcome:
    """How a run ended, and all that was measured on the way."""

    status: Status
    epochs: list[Record] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """Of each epoch, training alone."""
    updates: int = 0


def seed_for(seed: int, *stages: int) -> int:
    """A seed of its own for every stage of a run: its random numbers do not depend on how many
    were drawn before it, and a continued run needs no memory of them."""
    mixed = seed & 0xFFFFFFFFFFFFFFFF
    for stage in (len(stages), *stages):
        mixed = (mixed * 0x9E3779B97F4A7C15 + stage + 1) & 0xFFFFFFFFFFFFFFFF
        mixed = ((mixed ^ (mixed >> 31)) * 0xD6E8FEB86659FD93) & 0xFFFFFFFFFFFFFFFF
    return mixed >> 1


def _seed(device: torch.device, seed: int) -> None:
    """torch.manual_seed for the devices in use: for all others it would note the call, at length,
    in case they are used one day."""
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)


def shown_in(folder: Path, epoch: int) -> Path:
    """What Workload.show returned after an epoch, in the folder of a run."""
    return folder / f"shown-{epoch}.txt"


class Supervised:
    """One run of a workload under an optimizer.

    `on_epoch` hears of each epoch with its record and seconds, `on_update` of each update. Once
    `stopped` says so, the run ends after the current update, with a checkpoint.
    """

    def __init__(
        self,
        workload: Workload,
        build: Callable[[Iterable[nn.Parameter]], Optimizer],
        seed: int,
        *,
        schedule: Schedule | None = None,
        fabric: Fabric | None = None,
        checkpoints: Checkpoints | None = None,
        checkpoint_seconds: float = 15.0,
        on_epoch: Callable[[Record, float], None] = lambda *_: None,
        on_update: Callable[[Moment], None] = lambda *_: None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.workload, self.seed, self.checkpoints = workload, seed, checkpoints
        self.schedule = schedule or workload.schedule
        self.checkpoint_seconds = checkpoint_seconds
        self.on_epoch, self.on_update, self.stopped = on_epoch, on_update, stopped
        self.fabric = fabric or Fabric(accelerator="cpu", devices=1)
        _seed(self.fabric.device, 0)  # data that is drawn is the same for every seed
        self.data = workload.splits()
        if self.data.validation is None and workload.selection == "validation":
            raise LabError(
                f"data() of {type(workload).__name__} gives no validation examples, by which the "
                "protocol 'fair' chooses."
            )
        for name, split in vars(self.data).items():
            if isinstance(split, tuple) and len({len(tensor) for tensor in split}) > 1:
                sizes = " and ".join(str(len(tensor)) for tensor in split)
                raise LabError(
                    f"the {name} examples of {type(workload).__name__} differ in number: {sizes}."
                )
        self.epochs = workload.epochs[workload.scale]
        self.per_epoch = workload.updates(self.data.train)
        _seed(self.fabric.device, seed_for(seed))
        model = workload.model()
        if not isinstance(model, nn.Module):
            raise LabError(f"model() of {type(workload).__name__} returns {model!r}, no network.")
        self.model: Any = self.fabric.setup_module(model)
        # Asked now: after a forward pass FSDP leaves the outermost parameters gathered.
        self._sharded = any(isinstance(param, DTensor) for param in self.model.parameters())
        if self._sharded and workload.averaged > 1:
            raise LabError(f"{type(workload).__name__} averages weights, which fsdp cannot yet.")
        self.optimizer = build(self.model.parameters())
        self.base = [float(group["lr"]) for group in self.optimizer.param_groups]
        self._optimizer: Any = self.fabric.setup_optimizers(self.optimizer)
        self._backward: Callable[[Any], None] = self.fabric.backward
        if (
            type(self.fabric.strategy) is SingleDeviceStrategy
            and type(self.fabric.strategy.precision) is Precision
        ):
            # Fabric's wrappers change nothing here, and cost a small network 4 % of its time.
            self.model, self._optimizer = self.model.module, self.optimizer
            self._backward = torch.Tensor.backward
        self.outcome = Outcome("stopped")
        self._epoch = self._update = 0  # epochs finished, updates done in the one after
        self._loss: Any = 0.0
        self._past: list[list[Tensor]] = []  # weights after the last epochs, where averaged
        self._clock = 0.0

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
        workload, fabric, model, optimizer = self.workload, self.fabric, self.model, self._optimizer
        rank, alone = fabric.global_rank, fabric.world_size == 1
        if self._update == 0:
            workload.state = None
        order = torch.Generator().manual_seed(seed_for(self.seed, self._epoch))
        batches = workload.batches(
            self.data.train, order, rank, fabric.world_size, skip=self._update
        )
        here = fabric.device.type == "cpu"
        patience = 1 if here else 50  # asking a GPU makes it wait
        history = tuple(
            record.get(workload.selection, {}).get(workload.metric, math.nan)
            for record in self.outcome.epochs
        )
        model.train()
        while True:
            started = time.perf_counter()
            _seed(fabric.device, seed_for(self.seed, self._epoch, self._update, rank))
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
            for group, base in zip(self.optimizer.param_groups, self.base, strict=True):
                group["lr"] = self.schedule.lr(base, now) * factor
            optimizer.zero_grad()
            loss = workload.loss(model, batch)
            self._backward(loss)
            if workload.clip is not None:
                fabric.clip_gradients(model, optimizer, max_norm=workload.clip)
            optimizer.step()
            loss = loss.detach()
            self._loss = self._loss + loss
            self._update += 1
            self._clock += time.perf_counter() - started
            self.on_update(now)
            # Several processes must agree, and do at the end of an epoch.
            if alone and self._update % patience == 0 and not math.isfinite(float(loss)):
                return self._diverged()
            if alone and self.stopped():
                return False
            if alone and time.monotonic() - self._saved_at >= self.checkpoint_seconds:
                self._save()
        reduced: Any = fabric.all_reduce(self._loss)
        mean = float(reduced) / self._update
        if not math.isfinite(mean):
            return self._diverged()
        self._finish_epoch(mean)
        late = time.monotonic() - self._saved_at >= self.checkpoint_seconds
        stop = self.stopped()
        if not alone:
            stop, late = fabric.broadcast((stop, late))
        if late and self._epoch < self.epochs:
            self._save()
        return not stop

    def _diverged(self) -> bool:
        self.outcome.status = "diverged"
        return False

    def _finish_epoch(self, loss: float) -> None:
        record: Record = {"epoch": self._epoch + 1, "train": {"loss": loss}}
        self.model.eval()
        with torch.no_grad(), self._averaged():
            if self.data.validation is not None:
                record["validation"] = self._evaluate(self.data.validation)
            # Under `fair`, test is read only where validation would have chosen.
            if (
                self.workload.selection != "validation"
                or chosen([*self.outcome.epochs, record], self.workload) is record
            ):
                record["test"] = self._evaluate(self.data.test)
            if chosen([*self.outcome.epochs, record], self.workload) is record:
                self._show(record["epoch"])
        self.outcome.epochs.append(record)
        self.outcome.seconds.append(self._clock)
        self.outcome.updates += self._update
        self._epoch, self._update, self._loss, self._clock = self._epoch + 1, 0, 0.0, 0.0
        self.on_epoch(record, self.outcome.seconds[-1])

    @contextlib.contextmanager
    def _averaged(self) -> Iterator[None]:
        """With the mean of the weights after the last epochs in place of the weights."""
        last = self.workload.averaged
        if last == 1:
            yield
            return
        params = [param.data for param in self.model.parameters()]
        now = [param.clone() for param in params]
        self._past = [*self._past, now][-last:]
        torch._foreach_zero_(params)
        for past in self._past:
            torch._foreach_add_(params, past, alpha=1 / len(self._past))
        try:
            yield
        finally:
            torch._foreach_copy_(params, now)

    def _show(self, epoch: int) -> None:
        # Sharded, the network only runs on all processes at once.
        if self.checkpoints is None or self._sharded or not self.fabric.is_global_zero:
            return
        folder = self.checkpoints.last.parent
        if words := self.workload.show(self.model, self.data, folder):
            shown_in(folder, epoch).write_text(words, encoding="utf-8")

    def _evaluate(self, split: Any) -> dict[str, float]:
        scores = self.workload.evaluate(self.model, split)
        if self.workload.metric not in scores:
            raise LabError(
                f"{type(self.workload).__name__} scores {', '.join(scores)}; its metric "
                f"{self.workload.metric!r} is not among them."
            )
        scores = {name: float(value) for name, value in scores.items()}
        return self.fabric.broadcast(scores) if self.fabric.world_size > 1 else scores

    def _save(self) -> None:
        if self.checkpoints is None:
            return
        model, optimizer = self._states()
        state = {
            "model": model,
            "sharded": self._sharded,
            "optimizer": optimizer,
            "precision": self.fabric.strategy.precision.state_dict(),
            "epoch": self._epoch,
            "update": self._update,
            "loss": torch.as_tensor(self._loss),
            "carried": self.workload.state,
            "past": self._past,
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
        if self._sharded and not state["sharded"]:
            raise LabError("this run was begun without fsdp, and can only be continued without.")
        self._load_states(state["model"], state["optimizer"])
        self.fabric.strategy.precision.load_state_dict(state["precision"])
        self._epoch, self._update, self._clock = state["epoch"], state["update"], state["clock"]
        self._loss = self.fabric.to_device(state["loss"])
        self.workload.state = self.fabric.to_device(state.get("carried"))
        self._past = self.fabric.to_device(state.get("past", []))
        names = [field.name for field in fields(Outcome)]
        self.outcome = Outcome(**{name: state[name] for name in names})

    def _states(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Of the whole model, gathered where it is spread over processes."""
        if not self._sharded:
            return self.model.state_dict(), self.optimizer.state_dict()
        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        return get_state_dict(self.model.module, self.optimizer, options=options)

    def _load_states(self, model: dict[str, Any], optimizer: dict[str, Any]) -> None:
        if not self._sharded:
            self.model.load_state_dict(model)
            self.optimizer.load_state_dict(optimizer)
            return
        options = StateDictOptions(full_state_dict=True)
        set_state_dict(
            self.model.module,
            self.optimizer,
            model_state_dict=model,
            optim_state_dict=optimizer,
            options=options,
        )


def chosen(epochs: list[Record], workload: Workload) -> Record | None:
    """The epoch that is reported, by the workload's rule of selection, if it has a score."""
    selection: Selection = workload.selection
    if selection == "last" or not epochs:
        return epochs[-1] if epochs else None
    best = None
    for record in epochs:
        score = record[selection][workload.metric]
        if not math.isnan(score) and (
            best is None or workload.better(score, best[selection][workload.metric])
        ):
            best = record
    return best
