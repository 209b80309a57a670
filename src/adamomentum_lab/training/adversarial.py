"""The training loop of two networks with an optimizer each."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypedDict

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import StateDict

from adamomentum_lab.adversarial import Adversarial, Networks
from adamomentum_lab.errors import LabError
from adamomentum_lab.selection import EpochRecord
from adamomentum_lab.training.loop import Loop

LOST = 1e-3
"""If the discriminator's mean loss is below this, the generator no longer learns from it."""
ALIKE = 0.01
"""Samples (between -1 and 1) whose spread is below this count as identical."""


class _State(TypedDict):
    """The loop's part of a checkpoint."""

    networks: StateDict
    optimizers: list[StateDict]
    average: StateDict | None
    start: dict[str, float] | None


class AdversarialLoop(Loop):
    """Trains a generator and a discriminator in turns, each with its own copy of the optimizer.

    One update is `d_updates` steps of the discriminator, then one of the generator. Evaluations use
    the moving average of the generator's weights if the workload has one. The first record holds
    the scores of the untrained generator in `start`. In each record `train["collapsed"]` is 1 if
    the discriminator has won or all samples look alike.
    """

    losses: ClassVar = ("loss", "d_loss")
    workload: Adversarial

    def _set_up(self, model: Any, build: Callable[[nn.Module], Optimizer]) -> None:
        if self.fabric.world_size > 1:
            name = type(self.workload).__name__
            raise LabError(f"{name} trains two networks; the lab supports that on one device only.")
        if self.workload.accumulate > 1:
            name = type(self.workload).__name__
            raise LabError(f"{name} has two networks, which train without `accumulate`.")
        optimizers = []
        networks = {}
        for name, network in model.named_children():
            optimizer = build(network)
            networks[name] = self.fabric.setup_module(network)
            optimizers.append(self._wrap_optimizer(optimizer))
        self.networks = Networks(**networks)
        self._generator_optimizer, self._discriminator_optimizer = optimizers
        self.average: nn.Module | None = None
        if self.workload.ema is not None:
            average: Any = copy.deepcopy(self.networks.generator)
            if next(average.parameters()).dtype.itemsize < 4:
                average = average.module.float()  # half precision would round a decay of 0.9999
            self.average = average.requires_grad_(False)
        self._start: dict[str, float] | None = None

    def _train_mode(self) -> None:
        if self._start is None:
            with torch.no_grad(), self._evaluation() as generator:
                split = self.data.validation or self.data.test
                self._start = self._evaluate(generator, split)
                self._draw_samples(generator, 0)
        self.networks.train()

    def _step(self, batch: Any) -> Tensor:
        workload, networks = self.workload, self.networks
        generator, discriminator = networks.generator, networks.discriminator
        d_losses = [
            self._minimise(
                discriminator,
                self._discriminator_optimizer,
                lambda part=part: workload.discriminator_loss(networks, part),  # type: ignore[misc]
            )
            for part in workload.parts(batch)
        ]
        discriminator.requires_grad_(False)  # saves a third of its backward pass
        g_optimizer = self._generator_optimizer
        loss = self._minimise(generator, g_optimizer, lambda: workload.loss(networks, batch))
        discriminator.requires_grad_(True)
        self._update_average()
        return torch.stack([loss, torch.stack(d_losses).mean()])

    def _update_average(self) -> None:
        """Update the average of the weights. Before `ema_from` it is a copy of the generator."""
        if self.average is None or self.workload.ema is None:
            return
        done = self._epoch * self.per_epoch + self._update + 1
        decay = self.workload.ema if done >= self.workload.ema_from else 0.0
        with torch.no_grad():
            ours: list[Tensor] = list(self.average.parameters())
            theirs = [
                param.to(mean.dtype)
                for mean, param in zip(ours, self.networks.generator.parameters(), strict=True)
            ]
            torch._foreach_lerp_(ours, theirs, 1 - decay)
            buffers = self.networks.generator.buffers()
            for buffer, value in zip(self.average.buffers(), buffers, strict=True):
                buffer.copy_(value)

    @contextlib.contextmanager
    def _evaluation(self) -> Iterator[Any]:
        generator = self.networks.generator if self.average is None else self.average
        yield generator.eval()

    def _look(self, model: Any, record: EpochRecord) -> None:
        if record["epoch"] == 1 and self._start is not None:
            record["start"] = self._start
        train = record["train"]
        train["spread"] = self._draw_samples(model, record["epoch"])
        train["collapsed"] = float(train["d_loss"] < LOST or not train["spread"] >= ALIKE)

    def _draw_samples(self, generator: Any, epoch: int) -> float:
        """Write a sheet of samples to the run's folder, and return their spread."""
        samples = self.workload.samples(generator)
        if self._folder is not None:
            self.workload.draw(samples, self._folder, epoch)
        return float(samples.float().std(1).mean())

    def _states(self) -> _State:
        return {
            "networks": self.networks.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer, _ in self._optimizers],
            "average": None if self.average is None else self.average.state_dict(),
            "start": self._start,
        }

    def _load_states(self, state: _State) -> None:
        # Fabric's wrappers strip their prefix from the names they save. They expect stripped names
        # only when they load themselves, so each network is loaded separately.
        for name, network in self.networks.named_children():
            prefix = f"{name}."
            weights = state["networks"].items()
            its = {k.removeprefix(prefix): value for k, value in weights if k.startswith(prefix)}
            network.load_state_dict(its)
        if "optimizers" in state:
            for (optimizer, _), its in zip(self._optimizers, state["optimizers"], strict=True):
                optimizer.load_state_dict(its)
        if self.average is not None:
            assert state["average"] is not None
            self.average.load_state_dict(state["average"])
        self._start = state["start"]
