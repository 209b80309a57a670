"""The loop of one network and one optimizer. It knows no workload by name."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypedDict

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint import state_dict
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer
from torch.optim.optimizer import StateDict

from adamomentum_lab.errors import LabError
from adamomentum_lab.training.loop import Loop


class _State(TypedDict):
    """What the loop adds to a checkpoint."""

    model: StateDict
    optimizer: StateDict
    sharded: bool
    past: list[list[Tensor]]


class Supervised(Loop):
    """One run: a loss that one network minimises."""

    def _set_up(self, model: Any, build: Callable[[Iterable[nn.Parameter]], Optimizer]) -> None:
        self.model: Any = self.fabric.setup_module(model)
        # Asked now: after a forward pass FSDP leaves the outermost parameters gathered.
        self.sharded = any(isinstance(param, DTensor) for param in self.model.parameters())
        if self.sharded and self.workload.averaged > 1:
            name = type(self.workload).__name__
            raise LabError(f"{name} averages weights, which fsdp cannot yet.")
        self.optimizer = build(self.model.parameters())
        self._optimizer = self._wrap_optimizer(self.optimizer)
        self._past: list[list[Tensor]] = []  # weights after the last epochs, where averaged

    def _train_mode(self) -> None:
        self.model.train()

    def _step(self, batch: Any) -> Tensor:
        model = self.model
        return self._minimise(lambda: self.workload.loss(model, batch), model, self._optimizer)

    @contextlib.contextmanager
    def _evaluation(self) -> Iterator[Any]:
        """With the mean of the weights after the last epochs in place of the weights."""
        self.model.eval()
        last = self.workload.averaged
        if last == 1:
            yield self.model
            return
        params = [param.data for param in self.model.parameters()]
        now = [param.clone() for param in params]
        self._past = [*self._past, now][-last:]
        torch._foreach_zero_(params)
        for past in self._past:
            torch._foreach_add_(params, past, alpha=1 / len(self._past))
        try:
            yield self.model
        finally:
            torch._foreach_copy_(params, now)

    def _states(self) -> _State:
        """Of the whole model, gathered where it is spread over processes."""
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
        }

    def _load_states(self, state: _State) -> None:
        self._past = self.fabric.to_device(state.get("past", []))
        if not self.sharded:
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            return
        if not state["sharded"]:
            raise LabError("this run was begun without fsdp, and can only be continued without.")
        state_dict.set_state_dict(
            self.model.module,
            self.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
            options=state_dict.StateDictOptions(full_state_dict=True),
        )
