"""What all training loops share: epochs of batches, records, checkpoints and resuming."""

from __future__ import annotations

import contextlib
import io
import math
import time
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from adamomentum_lab import files
from adamomentum_lab.errors import LabError
from adamomentum_lab.files import write
from adamomentum_lab.rules import at_scale
from adamomentum_lab.schedules import Moment, Schedule
from adamomentum_lab.selection import EpochRecord, select_epoch
from adamomentum_lab.training.checkpoints import Checkpoints
from adamomentum_lab.training.feed import feed, seed_for, set_seed
from adamomentum_lab.training.outcome import (
    RESOLUTION,
    Outcome,
    examples_file,
    score_of_an_example,
    shown_file,
)
from adamomentum_lab.training.saving import Saving
from adamomentum_lab.training.single_cpu import SingleCpu
from adamomentum_lab.workload import Workload
from adamomentum_lab.workload_checks import check_splits


class Loop(Saving):
    """Trains one workload with one optimizer.

    Args:
        workload: the problem.
        build: makes the optimizer of a network.
        seed: of the initial weights, the order of examples and all other random numbers.
        schedule: None takes the workload's schedule.
        closure: whether a step of the optimizer needs a closure that evaluates the loss.
        compiled: whether torch.compile compiles the network.
        fabric: moves networks and batches to devices; None is one CPU.
        checkpoints: None saves nothing.
        checkpoint_seconds: time between two checkpoints. None is 15 s, or as much more as it takes
            for writing to cost at most 2 % of the time.
        on_epoch: called with the record and the training seconds of each epoch.
        on_update: called after each update.
        stopped: asked after each update. If it returns True, the run saves a checkpoint and ends.
    """

    losses: ClassVar[tuple[str, ...]] = ("loss",)
    """The names of the losses that an update returns. Records hold their means over an epoch."""

    def __init__(
        self,
        workload: Workload,
        build: Callable[[nn.Module], Optimizer],
        seed: int,
        *,
        schedule: Schedule | None = None,
        fabric: Any = None,
        checkpoints: Checkpoints | None = None,
        checkpoint_seconds: float | None = None,
        closure: bool = False,
        compiled: bool = False,
        on_epoch: Callable[[EpochRecord, float], None] = lambda *_: None,
        on_update: Callable[[Moment], None] = lambda *_: None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.workload, self.seed, self.checkpoints = workload, seed, checkpoints
        self.schedule = schedule or workload.schedule
        self.checkpoint_seconds = checkpoint_seconds
        self.on_epoch, self.on_update, self.stopped = on_epoch, on_update, stopped
        self.closure = closure
        self.fabric: Any = fabric or SingleCpu()
        set_seed(self.fabric.device, 0)  # random data is the same for every seed of a run
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
            raise LabError(f"model() of {name} returns {model!r}; it must return an nn.Module.")
        if next(model.parameters(), None) is None:
            raise LabError(f"model() of {name} returns a network without parameters.")
        if compiled:
            model.compile()  # its names in checkpoints stay
        self._optimizers: list[tuple[Optimizer, list[float]]] = []  # each with its initial lrs
        self._set_up(model, build)
        self.outcome = Outcome("stopped")
        self._epoch = self._update = 0  # finished epochs, and updates of the current one
        self._loss: Any = 0.0
        self._measured: dict[str, list[Tensor]] = {}  # of the updates of the epoch
        self._clock = 0.0
        self._training = True
        self._examples: Tensor | None = None

    @abstractmethod
    def _set_up(self, model: Any, build: Callable[[nn.Module], Optimizer]) -> None:
        """Move the network to its device, and build its optimizer."""

    @abstractmethod
    def _step(self, batch: Any) -> Tensor:
        """Do one update, and return its losses in the order of `losses`."""

    @abstractmethod
    def _train_mode(self) -> None:
        """Prepare the network for the updates of an epoch."""

    @abstractmethod
    def _evaluation(self) -> contextlib.AbstractContextManager[Any]:
        """Yield the network in the form that is evaluated."""

    def _wrap_optimizer(self, optimizer: Optimizer) -> Any:
        """Note the initial learning rates, and return the optimizer that steps are taken with."""
        rates = [float(group.get("lr", math.nan)) for group in optimizer.param_groups]
        self._optimizers.append((optimizer, rates))
        return self.fabric.setup_optimizers(optimizer)

    def run(self, epochs: int | None = None) -> Outcome:
        """Train up to this number of epochs, from the last checkpoint if there is one."""
        self._restore()
        self._saved_at, self._saving = time.monotonic(), 0.0
        last = min(self.epochs, epochs or self.epochs)
        going = self.outcome.status != "diverged"
        if going:  # an earlier call with fewer epochs may have set another status
            self.outcome.status = "stopped"
        self._last_epoch = last
        before = (self._epoch, self._update)
        if before == (0, 0):
            self.outcome.resolution = RESOLUTION * abs(self._score_before_training())
        while going and self._epoch < last:
            going = self._train()
        if going:
            self.outcome.status = "done"
        if (self._epoch, self._update) != before:
            self._save(wait=True)
            self._write_examples()
        return self.outcome

    def _score_before_training(self) -> float:
        """On a batch of test; 0 where that is not known."""
        return 0.0

    def _train(self) -> bool:
        """Train the rest of the current epoch. Return False if the run must stop."""
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
        patience = 1 if here else 50  # reading the loss makes a GPU wait
        scores = [record.get(workload.selection, {}) for record in self.outcome.epochs]
        history = tuple(of_epoch.get(workload.metric, math.nan) for of_epoch in scores)
        self._set_modes(training=True)
        self._train_mode()
        while True:
            started = time.perf_counter()
            batch = next(batches, None)
            if batch is None:
                break
            now = Moment(
                self._epoch * self.per_epoch + self._update,
                # Sequences of random length may give more batches than `len(source)`.
                self._epoch + min(self._update / self.per_epoch, 1 - 1e-9),
                self.epochs,
                history,
            )
            batch = batch if here else fabric.to_device(batch)
            factor = workload.lr_factor(batch)
            for optimizer, bases in self._optimizers:
                for group, base in zip(optimizer.param_groups, bases, strict=True):
                    if "lr" in group:
                        group["lr"] = self.schedule.lr(base, now) * factor
            workload.measured = {}
            loss = self._step(batch)
            self._loss = self._loss + loss
            for name, value in workload.measured.items():
                self._measured.setdefault(name, []).append(value.detach().reshape(-1))
            self._update += 1
            self._clock += time.perf_counter() - started
            self.on_update(now)
            # Several processes find it at the end of the epoch.
            if alone and self._update % patience == 0 and not math.isfinite(float(loss.sum())):
                self.outcome.status = "diverged"
                return False
            stop, late = self._agree()
            if stop:
                return False
            if late:
                self._save()
        reduced: Any = fabric.all_reduce(self._loss)
        sums = torch.as_tensor(reduced).view(-1).tolist()
        means = {name: total / self._update for name, total in zip(self.losses, sums, strict=True)}
        if not all(map(math.isfinite, means.values())):
            self.outcome.status = "diverged"
            return False
        for name, values in self._measured.items():
            unit = 100.0 if values[0].dtype == torch.bool else 1.0
            means[name] = unit * float(fabric.all_reduce(torch.cat(values).double().mean()))
        self._finish_epoch(means)
        self._ask_at = 0
        stop, late = self._agree()
        if late and self._epoch < self.epochs:
            self._save()
        return not stop

    def _minimise(self, network: Any, optimizer: Any, *losses: Callable[[], Tensor]) -> Tensor:
        """Take one optimizer step on the sum of some losses, whose graphs follow one another.

        NaN gradients are not caught: the next loss shows them.
        """

        def evaluate() -> Tensor:
            optimizer.zero_grad()
            loss = losses[0]()
            self.fabric.backward(loss)
            for other in losses[1:]:
                part = other()
                self.fabric.backward(part)
                loss = loss.detach() + part.detach()
            if (norm := self.workload.clip) is not None:
                self.fabric.clip_gradients(
                    network, optimizer, max_norm=norm, error_if_nonfinite=False
                )
            return loss

        if not self.closure:
            loss = evaluate()
            optimizer.step()
            return loss.detach()
        before, after = self.workload.state, []
        seed = torch.default_generator.initial_seed()  # of this update

        def evaluate_again() -> Tensor:
            """The loss of the same batch, with the same random numbers and the same state."""
            self.workload.state = before
            set_seed(self.fabric.device, seed)
            loss = evaluate()
            after.append((loss.detach(), self.workload.state))
            return loss

        optimizer.step(evaluate_again)
        if not after:
            raise LabError(f"{type(optimizer).__name__} did not evaluate the loss in its step.")
        loss, self.workload.state = after[0]  # at the weights before the step, as without closure
        return loss

    def _finish_epoch(self, losses: dict[str, float]) -> None:
        record: EpochRecord = {"epoch": self._epoch + 1, "train": losses}

        workload = self.workload
        # If the last epoch is reported, others may be skipped.
        skip = workload.selection == "last" and not workload.follows_test
        skip = skip and self._epoch + 1 < self._last_epoch

        def is_best() -> bool:
            return not skip and select_epoch([*self.outcome.epochs, record], workload) is record

        # Until the next update the weights are those that are evaluated, in a checkpoint too.
        self._set_modes(training=False)
        with torch.no_grad(), self._evaluation() as model:
            if self.data.validation is not None:
                record["validation"] = self._evaluate(model, self.data.validation)
            # If validation selects the epoch, test is read only at the best epoch so far.
            if (workload.selection != "validation" and not skip) or is_best():
                record["test"] = self._evaluate(model, self.data.test)
                self._note_examples(record["test"], is_best())
            self._look(model, record)
            if is_best():
                self._show(model, record["epoch"])
        self.outcome.epochs.append(record)
        self.outcome.seconds.append(self._clock)
        self.outcome.updates += self._update
        self._epoch, self._update, self._loss, self._clock = self._epoch + 1, 0, 0.0, 0.0
        self._measured = {}
        self.on_epoch(record, self.outcome.seconds[-1])

    def _look(self, model: Any, record: EpochRecord) -> None:
        """Hook after the evaluations of an epoch. It may add to the record."""
        del model, record

    def _note_examples(self, scores: dict[str, float], is_best: bool) -> None:
        """Keep the score of each test example, and what the smallest difference is."""
        examples = self.workload.by_example
        if is_best:
            self._examples = examples
        if examples is not None and (unit := score_of_an_example(examples)):
            self.outcome.resolution = unit / len(examples)
        elif not self.outcome.resolution and math.isfinite(score := scores[self.workload.metric]):
            self.outcome.resolution = RESOLUTION * abs(score)

    def _write_examples(self) -> None:
        if self._examples is not None and (folder := self._folder) is not None:
            buffer = io.BytesIO()
            torch.save(self._examples.float(), buffer)
            files.write(examples_file(folder), buffer.getvalue())

    def _show(self, model: Any, epoch: int) -> None:
        folder = self._folder
        if folder is None or self.sharded:
            return
        if words := self.workload.show(model, self.data, folder):
            write(shown_file(folder, epoch), words)

    def _evaluate(self, model: Any, split: Any) -> dict[str, float]:
        scores = self.workload.evaluate(model, split)
        if self.workload.metric not in scores:
            has = f"{type(self.workload).__name__} scores {', '.join(scores)}"
            raise LabError(f"{has}; its metric {self.workload.metric!r} is not among them.")
        scores = {name: float(value) for name, value in scores.items()}
        return self.fabric.broadcast(scores) if self.fabric.world_size > 1 else scores
