"""The training loop of one network with one optimizer."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, TypedDict

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint import state_dict
from torch.distributed.tensor import DTensor
from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm
from torch.optim import Optimizer
from torch.optim.optimizer import StateDict

from adamomentum_lab.contender import has_modes
from adamomentum_lab.errors import LabError
from adamomentum_lab.rules import at_scale
from adamomentum_lab.source import split_batch, to_device
from adamomentum_lab.training.feed import feed, in_order, set_seed
from adamomentum_lab.training.loop import Loop
from adamomentum_lab.workload import Workload
from adamomentum_lab.workload_checks import check_loss

BATCHES = 50
"""For the statistics of batch norm, at most."""


class _State(TypedDict):
    """The loop's part of a checkpoint."""

    model: StateDict
    optimizer: StateDict
    sharded: bool
    past: list[list[Tensor]]
    average: list[Tensor] | None


class Supervised(Loop):
    """Trains one network to minimise the workload's loss."""

    def _set_up(self, model: Any, build: Callable[[nn.Module], Optimizer]) -> None:
        self.model: Any = self.fabric.setup_module(model)
        # Checked before the first forward pass, which leaves FSDP's outermost parameters gathered.
        self.sharded = any(isinstance(param, DTensor) for param in self.model.parameters())
        self._last = at_scale(self.workload.averaged, self.workload.scale)
        if self.sharded and (self._last > 1 or self.workload.ema is not None):
            name = type(self.workload).__name__
            raise LabError(f"{name} averages weights, which fsdp does not support yet.")
        self._average: list[Tensor] | None = None
        if self.workload.ema is not None:
            self._average = [param.detach().clone() for param in self.model.parameters()]
        self.optimizer = build(model)
        self._optimizer = self._wrap_optimizer(self.optimizer)
        self._checked = False  # whether the loss is one
        self._past: list[list[Tensor]] = []  # weights after the last epochs, to be averaged

    def _score_before_training(self) -> float:
        if type(self.workload).evaluate is not Workload.evaluate:
            return 0.0
        self.model.eval()
        with torch.no_grad():
            batch = next(in_order(self.workload.source(self.data.test, training=False)))
            scores = self.workload.scores(self.model, to_device(batch, self.fabric.device))
        score = scores.get(self.workload.metric)
        found = 0.0 if score is None else float(score.double().mean())
        return found if math.isfinite(found) else 0.0

    def _train_mode(self) -> None:
        self.model.train()

    def _step(self, batch: Any) -> Tensor:
        model = self.model
        parts = split_batch(batch, self.workload.accumulate)
        if len(parts) == 1:
            loss = self._minimise(model, self._optimizer, lambda: self._loss_of(batch))
        else:
            loss = self._accumulate(parts)
        if self._average is not None:
            weights = [param.data for param in model.parameters()]
            torch._foreach_lerp_(self._average, weights, 1 - (self.workload.ema or 0.0))
        return loss

    def _accumulate(self, parts: list[tuple[float, Any]]) -> Tensor:
        """Take a step on a batch in parts, each with its share of the examples."""
        workload, model = self.workload, self.model
        measured: dict[str, list[Tensor]] = {}

        def loss_of(share: float, part: Any) -> Tensor:
            workload.measured = {}
            loss = self._loss_of(part) * share
            for name, value in workload.measured.items():
                measured.setdefault(name, []).append(value.detach().reshape(-1))
            return loss

        losses = [functools.partial(loss_of, *part) for part in parts]
        loss = self._minimise(model, self._optimizer, *losses)
        workload.measured = {name: torch.cat(values) for name, values in measured.items()}
        return loss

    def _loss_of(self, batch: Any) -> Tensor:
        loss = self.workload.loss(self.model, batch)
        if not self._checked:
            check_loss(self.workload, loss)
            self._checked = True
        return loss

    @contextlib.contextmanager
    def _evaluation(self) -> Iterator[Any]:
        """Yield the model in eval mode, with the mean of its last weights if `averaged` > 1, or
        their moving average if the workload has an `ema`."""
        if has_modes(self.optimizer):
            self._refresh_statistics()
        self.model.eval()
        if self._last == 1 and self._average is None:
            yield self.model
            return
        params = [param.data for param in self.model.parameters()]
        now = [param.clone() for param in params]
        if self._average is not None:
            torch._foreach_copy_(params, self._average)
            self._refresh_statistics()
            self.model.eval()
        else:
            self._past = [*self._past, now][-self._last :]
            torch._foreach_zero_(params)
            for past in self._past:
                torch._foreach_add_(params, past, alpha=1 / len(self._past))
        try:
            yield self.model
        finally:
            torch._foreach_copy_(params, now)

    def _refresh_statistics(self) -> None:
        """Batch norm's statistics of the weights that are evaluated, which are not those that are
        trained: over some batches of training data."""
        norms = [part for part in self.model.modules() if isinstance(part, BatchNorm)]
        norms = [norm for norm in norms if norm.track_running_stats]
        if not norms:
            return
        momenta = [norm.momentum for norm in norms]
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # the mean over all batches
        fabric, state = self.fabric, self.workload.state
        seed = torch.default_generator.initial_seed()  # of the evaluation
        parts = {"rank": fabric.global_rank, "world": fabric.world_size, "device": fabric.device}
        self.model.train()
        for batch in itertools.islice(feed(self.source, self.seed, self._epoch, **parts), BATCHES):
            self.workload.loss(self.model, fabric.to_device(batch))
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        self.workload.state = state
        set_seed(fabric.device, seed)

    def _states(self) -> _State:
        """Return the states of the whole model, gathered if it is sharded."""
        if self.sharded:
            options = state_dict.StateDictOptions(full_state_dict=True, cpu_offload=True)
            parts = (self.model.module, self.optimizer)
            model, optimizer = state_dict.get_state_dict(*parts, options=options)
        else:
            model, optimizer = self.model.state_dict(), self.optimizer.state_dict()
        return {
            "model": model,
            "optimizer": optimizer,
            "sharded": self.sharded,
            "past": self._past,
            "average": self._average,
        }

    def _load_states(self, state: _State) -> None:
        self._past = self.fabric.to_device(state.get("past", []))
        if self._average is not None and state.get("average") is not None:
            self._average = self.fabric.to_device(state["average"])
        if not self.sharded:
            self.model.load_state_dict(state["model"])
            if "optimizer" in state:
                self.optimizer.load_state_dict(state["optimizer"])
            return
        if not state["sharded"]:
            raise LabError("this run was started without fsdp; resume it without fsdp.")
        if "optimizer" not in state:
            return  # it is finished
        state_dict.set_state_dict(
            self.model.module,
            self.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
            options=state_dict.StateDictOptions(full_state_dict=True),
        )
