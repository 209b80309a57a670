"""The contract of a workload, which is a problem to train on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from adamomentum_lab import rules
from adamomentum_lab.errors import LabError
from adamomentum_lab.rules import Rules, Scale, Selection
from adamomentum_lab.schedules import Constant, Schedule
from adamomentum_lab.source import (
    Source,
    count_examples,
    describe,
    join,
    make_split,
    to_device,
    wrap,
)
from adamomentum_lab.space import Settings, Space, Stated
from adamomentum_lab.training.feed import in_order


@dataclass(frozen=True)
class Data:
    """The three splits: validation is for choosing settings and epochs, test for the final result.

    Each is a tuple of tensors, a Dataset, a DataLoader, a function that returns one of these, or a
    Source.
    """

    train: Any
    validation: Any
    test: Any

    def merged(self) -> Data:
        """Add the validation examples to the training split."""
        if self.validation is None:
            return self
        try:
            train = join(self.train, self.validation)
        except (TypeError, ValueError) as error:
            raise LabError(
                "protocols without validation merge the training and validation splits, which "
                "works only for tuples of tensors and Datasets; set trains_on_validation = False, "
                "or override splits()."
            ) from error
        return replace(self, train=train, validation=None)


class Workload(ABC):
    """A problem to train on. A subclass needs `data`, `model` and `loss`.

    `adamomentum list` shows the docstring of the class. All random numbers must come from torch:
    the loop seeds it before every update, so that a resumed run repeats them.
    """

    metric: str = "loss"
    """The name of the score that optimizers are compared by, one of those that `scores` returns."""
    larger_is_better: ClassVar[bool] = False
    target: float | None = None
    """The race counts the epochs until the metric reaches this value. None counts nothing."""
    epochs: int | Mapping[str, int] = {"smoke": 1, "mini": 10, "full": 100}
    """Epochs of a run: one number, or one for each scale."""
    batch: int = 64
    schedule: ClassVar[Schedule] = Constant()
    schedule_settings: ClassVar[Settings] = {}
    """Settings of the schedule, with their defaults. They are stated and searched like those of an
    optimizer, and `schedule_with` uses them."""
    clip: ClassVar[float | None] = None
    """Clip the norm of all gradients together to this value."""
    accumulate: int = 1
    """Parts that each batch is cut into, whose gradients are summed before the step. This saves
    memory; the update is the same within rounding where `loss` is a mean over examples."""
    ema: float | None = None
    """Evaluate a moving average of the weights: after each update it keeps this part of itself,
    such as 0.999. Batch norm's statistics are measured anew for it."""
    averaged: ClassVar[int | Mapping[str, int]] = 1
    """Evaluate the mean of the weights after this many last epochs; 1 is the weights themselves.
    One number, or one for each scale."""
    decay: ClassVar[float] = 0.0
    """Weight decay, as lr * weight_decay at the largest lr of a run. It is the same for every
    optimizer. A bracketing search starts from it, and keeps it unless it searches weight decay."""
    margin: ClassVar[float | None] = None
    """A smaller difference of the metric does not matter. Two optimizers are equivalent if the
    interval of their difference lies within it. Without a margin, none are called equivalent."""
    spaces: ClassVar[Mapping[str, Space]] = {}
    """optimizer -> setting -> values to search. "*" is every optimizer that has the setting. A
    single value is held fixed."""
    grid: ClassVar[str | None] = None
    """The name of a plugin's search grid, for optimizers that are not in `spaces`. None uses the
    space of each optimizer."""
    rules: ClassVar[Mapping[str, Rules]] = {}
    """protocol -> rules, for protocols whose rules differ on this workload."""
    trains_on_validation: ClassVar[bool] = True
    """Whether to train on the validation examples too, if the rules choose nothing by them."""
    follows_test: ClassVar[bool] = True
    """Whether to evaluate test after every epoch if the rules report the last one."""
    reads: ClassVar[Sequence[str | Path]] = ()
    """Files and folders that the numbers depend on, relative to the workload's own file. The lab
    notices what `data` and `model` open; name what is opened later, or not by Python."""
    settings: ClassVar[Mapping[str, Stated]] = {}
    """protocol -> optimizer -> settings that differ from the optimizer's defaults. "*" is every
    optimizer that has the setting."""

    def __init__(self, scale: Scale = "mini", protocol: str = "fair") -> None:
        self.scale = scale
        self.protocol = protocol
        self.state: Any = None
        """Tensors that `loss` carries from update to update. Checkpoints save them. They are reset
        to None when an epoch begins."""
        self.measured: dict[str, Tensor] = {}
        """What `loss` measures besides: a value for each example, or one for the batch. The means
        over an epoch are recorded under `train`, those of booleans in per cent."""
        self.kept: Path | None = None
        """Folder for shared results that are expensive to recompute; None keeps nothing."""
        self.by_example: Tensor | None = None
        """The metric on each example of the split that was evaluated last; None if `scores` gives
        means."""

    @abstractmethod
    def data(self) -> Data:
        """Return the splits. They must be the same for every seed."""

    @abstractmethod
    def model(self) -> nn.Module:
        """Return a new network, initialised with torch's random numbers."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Return the loss to minimise, the mean over the examples of a batch."""

    def parameter_groups(self, model: nn.Module) -> Sequence[Mapping[str, Any]]:
        """Return groups of parameters, for every optimizer.

        A group has `params`, and may have `lr_factor` and `weight_decay_factor`, which multiply the
        optimizer's settings. Examples are an `lr_factor` of 0.1 for a pretrained body, and a
        `weight_decay_factor` of 0.0 for norms and biases. An adversarial workload is called once
        for each network.
        """
        return [{"params": model.parameters()}]

    def scores(self, model: nn.Module, batch: Any) -> dict[str, Tensor]:
        """Return the scores of a batch: a value for each example, or their mean.

        Records hold the mean over a split.
        """
        return {"loss": self.loss(model, batch)}

    def lr_factor(self, batch: Any) -> float:
        """Return a factor that multiplies the lr for one batch."""
        del batch
        return 1.0

    def show(self, model: nn.Module, data: Data, folder: Path) -> str:
        """Show examples of what the model does. Called at the best epoch so far.

        Write files to the folder. `adamomentum train` prints the returned text.
        """
        del model, data, folder
        return ""

    def splits(self) -> Data:
        """Return the splits as the rules use them.

        If validation does not choose the epoch, its examples are trained on, or dropped.
        """
        data: object = self.data()
        if not isinstance(data, Data):
            returns = f"data() of {type(self).__name__} returns {describe(data)}"
            raise LabError(f"{returns}; it must return Data(train, validation, test).")
        data = Data(*map(make_split, (data.train, data.validation, data.test)))
        if self.selection == "validation":
            return data
        return data.merged() if self.trains_on_validation else replace(data, validation=None)

    def schedule_with(self, optimizer: str, settings: Settings) -> Schedule:
        """Return the schedule of a contender with these values of `schedule_settings`."""
        del settings
        return self.schedule_of(optimizer)

    def schedule_of(self, optimizer: str) -> Schedule:
        """Return the schedule of an optimizer. Override it if optimizers need different ones."""
        del optimizer
        return self.schedule

    @property
    def caveats(self) -> tuple[str, ...]:
        """Warnings that must be shown with every result."""
        if self.selection != "test":
            return ()
        return ("the epoch was chosen ON TEST, as the authors did: too good by that",)

    @property
    def selection(self) -> Selection:
        """Which epoch is reported: the best on validation, the last, or the best on test."""
        return self.rules_of(self.protocol).select

    @classmethod
    def rules_of(cls, protocol: str) -> Rules:
        """Return the rules of a protocol on this workload."""
        return cls.rules.get(protocol) or rules.get(protocol)

    def source(self, split: Any, training: bool) -> Source:
        """Return the batches of a split, for training or for an evaluation.

        Tuples of tensors and Datasets are cut into batches of `batch` examples. A Source is
        returned as it is. Override this method for other kinds of splits.
        """
        del training
        return wrap(split, self.batch)

    def evaluate(self, model: nn.Module, split: Any) -> dict[str, float]:
        """Return the scores of a split: the mean over its examples."""
        sums: dict[str, float] = {}
        size = 0
        examples: list[Tensor] = []
        device = next(model.parameters()).device
        for batch in in_order(self.source(split, training=False)):
            batch = to_device(batch, device)
            count = count_examples(batch)
            size += count
            for name, value in self.scores(model, batch).items():
                value = value.cpu().double()
                if value.shape not in ((), (count,)):
                    gives = f"gives {name} the shape {tuple(value.shape)}"
                    right = f"it must be a mean, or one value for each of {count} examples"
                    raise LabError(f"scores() of {type(self).__name__} {gives}; {right}.")
                total = value.sum() if value.ndim else value * count
                if name == self.metric and value.ndim:
                    examples.append(value)
                sums[name] = sums.get(name, 0.0) + float(total)
        whole = sum(map(len, examples)) == size
        self.by_example = torch.cat(examples) if examples and whole else None
        return {name: total / size for name, total in sums.items()}

    def better(self, score: float, than: float) -> bool:
        """Whether a score of the metric is better than another. NaN is never better."""
        return score > than if self.larger_is_better else score < than


class Classification(Workload):
    """Classification of examples (x, y), where y is the class number. Accuracy is in percent."""

    metric = "accuracy"
    larger_is_better = True

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Return the cross entropy."""
        x, y = batch
        return nn.functional.cross_entropy(self.measure(model(x), y), y)

    def measure(self, logits: Tensor, y: Tensor) -> Tensor:
        """Note the accuracy of a training batch, and return its logits unchanged."""
        if logits.ndim == 2 and y.ndim == 1:
            self.measured["accuracy"] = logits.argmax(-1) == y
        return logits

    def scores(self, model: nn.Module, batch: Any) -> dict[str, Tensor]:
        """Return cross entropy and accuracy."""
        x, y = batch
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, y, reduction="none")
        return {"loss": loss, "accuracy": 100.0 * (logits.argmax(-1) == y)}
