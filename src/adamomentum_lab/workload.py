"""What a workload is: the contract of a problem to train on."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from adamomentum_lab import protocols
from adamomentum_lab.errors import LabError
from adamomentum_lab.protocols import SCALES, Scale, Selection
from adamomentum_lab.schedules import Constant, Schedule
from adamomentum_lab.space import Stated

Split = tuple[Tensor, ...]  # examples along the first dimension of each tensor


@dataclass(frozen=True)
class Data:
    """The three splits. What is chosen is chosen on validation; test is for the final word."""

    train: Any
    validation: Any
    test: Any

    def merged(self) -> Data:
        """Training on the validation examples too, as where nothing is chosen by them."""
        if self.validation is None:
            return self
        try:
            both = zip(self.train, self.validation, strict=True)
            train = tuple(torch.cat(pair) for pair in both)
        except (TypeError, ValueError) as error:
            raise LabError(
                "only splits that are tuples of tensors can be merged, as protocols without "
                "validation do; override splits()."
            ) from error
        return replace(self, train=train, validation=None)


class Workload(ABC):
    """A problem to train on. Three methods and a few lines that differ make one.

    The class's docstring is what `adamomentum list` shows of it. All randomness must be torch's:
    the loop seeds it before every update, also of a run that is continued.
    """

    metric: str = "loss"
    """The score that decides, one of those `scores` gives."""
    larger_is_better: ClassVar[bool] = False
    target: float | None = None
    """Epochs are counted until the metric first reaches this; say in a comment why this."""
    epochs: ClassVar[Mapping[str, int]] = {"smoke": 1, "mini": 10, "full": 100}
    """Length of a run at each scale."""
    batch: int = 64
    schedule: ClassVar[Schedule] = Constant()
    clip: ClassVar[float | None] = None
    """Largest norm of all gradients together."""
    averaged: ClassVar[int] = 1
    """What is evaluated is the mean of the weights after the last so many epochs."""
    grid: ClassVar[str | None] = None
    """Which search grid of a plugin applies; None takes the plugin's own choice."""
    settings: ClassVar[Mapping[str, Stated]] = {}
    """Under each protocol, the settings of each optimizer that differ from its defaults; under the
    name "*", those of every optimizer that has them."""

    def __init__(self, scale: Scale = "mini", protocol: str = "fair") -> None:
        self.scale = scale
        self.protocol = protocol
        self.state: Any = None
        """Tensors that `loss` carries from update to update. They are saved with a run, and None
        when an epoch begins."""
        self.kept: Path | None = None
        """Folder for what runs may share and is dear to make again; None keeps nothing."""

    @abstractmethod
    def data(self) -> Data:
        """The splits, the same for every seed."""

    @abstractmethod
    def model(self) -> nn.Module:
        """A fresh network, initialised by torch's random numbers."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """What is minimised: the mean over the examples of a batch."""

    def scores(self, model: nn.Module, batch: Any) -> dict[str, Tensor]:
        """Values of each example, or their mean; the mean over a split is reported."""
        return {"loss": self.loss(model, batch)}

    def lr_factor(self, batch: Any) -> float:
        """What the lr of the schedule is multiplied by for one batch."""
        del batch
        return 1.0

    def show(self, model: nn.Module, data: Data, folder: Path) -> str:
        """What people would look at, of the epoch that is reported so far.

        Files go into the folder; what is returned is printed at the end of a run.
        """
        del model, data, folder
        return ""

    def splits(self) -> Data:
        """The data as the protocol uses it: only `fair` keeps validation examples apart."""
        data = self.data()
        return data if self.selection == "validation" else data.merged()

    def schedule_of(self, optimizer: str) -> Schedule:
        """The schedule of a contender, where they differ in it."""
        del optimizer
        return self.schedule

    @property
    def caveats(self) -> tuple[str, ...]:
        """What must be said wherever a result is shown."""
        if self.selection != "test":
            return ()
        return ("the epoch was chosen ON TEST, as the authors did: too good by that",)

    @property
    def selection(self) -> Selection:
        """The epoch that is reported: the best on validation; the last; the best on test."""
        return protocols.get(self.protocol).select

    def batches(
        self,
        split: Any,
        order: torch.Generator | None = None,
        rank: int = 0,
        world: int = 1,
        skip: int = 0,
    ) -> Iterator[Any]:
        """A pass over a split, shuffled by `order` where there is one.

        Of several processes, each gets its part of every batch. A pass that is continued leaves out
        the batches that it had.
        """
        size = len(split[0])
        indices = torch.arange(size) if order is None else torch.randperm(size, generator=order)
        for start in range(skip * self.batch, size, self.batch):
            chosen = indices[start : start + self.batch]
            if len(chosen) >= world:  # a smaller one goes to all: nobody may have none
                chosen = chosen[rank::world]
            yield tuple(tensor[chosen] for tensor in split)

    def updates(self, split: Any) -> int:
        """The number of batches in a pass over a split."""
        return -(-len(split[0]) // self.batch)

    def evaluate(self, model: nn.Module, split: Any) -> dict[str, float]:
        """The scores of a split."""
        sums: dict[str, float] = {}
        size = 0
        device = next(model.parameters()).device
        for batch in self.batches(split):
            batch = tuple(tensor.to(device) for tensor in batch)
            count = len(batch[0])
            size += count
            for name, value in self.scores(model, batch).items():
                value = value.cpu().double()
                if value.shape not in ((), (count,)):
                    gives = f"gives {name} the shape {tuple(value.shape)}"
                    right = f"it must be a mean, or one value for each of {count} examples"
                    raise LabError(f"scores() of {type(self).__name__} {gives}; {right}.")
                total = value.sum() if value.ndim else value * count
                sums[name] = sums.get(name, 0.0) + float(total)
        return {name: total / size for name, total in sums.items()}

    def better(self, score: float, than: float) -> bool:
        """Whether a score of the metric beats another; one that is not a number never does."""
        return score > than if self.larger_is_better else score < than


class Classification(Workload):
    """Examples (x, y) with y the number of the class: cross entropy, and accuracy in per cent."""

    metric = "accuracy"
    larger_is_better = True

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Cross entropy."""
        x, y = batch
        return nn.functional.cross_entropy(model(x), y)

    def scores(self, model: nn.Module, batch: Any) -> dict[str, Tensor]:
        """Cross entropy and accuracy."""
        x, y = batch
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, y, reduction="none")
        return {"loss": loss, "accuracy": 100.0 * (logits.argmax(-1) == y)}


def check(cls: type[Workload], file: Path) -> None:
    """Refuse a class that would fail only after hours."""

    def fault(member: str, words: str) -> LabError:
        return LabError(f"{cls.__name__}{member} in {file} {words}")

    if missing := sorted(getattr(cls, "__abstractmethods__", ())):
        raise fault("", f"lacks the method {missing[0]}.")
    if "skip" not in inspect.signature(cls.batches).parameters:
        why = "how many batches a continued epoch leaves out"
        raise fault(".batches", f"lacks the parameter skip=0: {why}.")
    if isinstance(cls.schedule, type):
        raise fault(".schedule", f"is a class; write {cls.schedule.__name__}().")
    if not isinstance(cls.epochs, Mapping):
        example = '{"smoke": 1, "mini": 10, "full": 100}'
        raise fault(".epochs", f"must say how many at each scale, as {example}.")
    for scale in SCALES:
        epochs = cls.epochs.get(scale)
        if not isinstance(epochs, int) or epochs < 1:
            there = f"gives {epochs!r} at the scale {scale!r}"
            raise fault(".epochs", f"{there}; it must be a whole number from 1 on.")
