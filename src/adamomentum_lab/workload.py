"""The contract of a workload, which is a problem to train on."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from adamomentum_lab import rules
from adamomentum_lab.errors import LabError
from adamomentum_lab.rules import SCALES, Rules, Scale, Selection
from adamomentum_lab.schedules import Constant, Schedule
from adamomentum_lab.source import Source, count_examples, describe, join, to_device, wrap
from adamomentum_lab.space import Settings, Space, Stated
from adamomentum_lab.training.feed import in_order


@dataclass(frozen=True)
class Data:
    """The three splits: validation is for choosing settings and epochs, test for the final result.

    Each is a tuple of tensors, a map-style Dataset or a Source.
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
    epochs: ClassVar[int | Mapping[str, int]] = {"smoke": 1, "mini": 10, "full": 100}
    """Epochs of a run: one number, or one for each scale."""
    batch: int = 64
    schedule: ClassVar[Schedule] = Constant()
    schedule_settings: ClassVar[Settings] = {}
    """Settings of the schedule, with their defaults. They are stated and searched like those of an
    optimizer, and `schedule_with` uses them."""
    clip: ClassVar[float | None] = None
    """Clip the norm of all gradients together to this value."""
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


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_count_at_each_scale(value: object) -> bool:
    return _is_count(value) or (
        isinstance(value, Mapping) and all(_is_count(value.get(scale)) for scale in SCALES)
    )


def _are_spaces(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(space, Mapping)
        and all(isinstance(values, (tuple, list)) and values for values in space.values())
        for space in value.values()
    )


def _are_settings(value: object) -> bool:
    """Whether a value is protocol -> optimizer -> settings."""
    return isinstance(value, Mapping) and all(
        isinstance(stated, Mapping) and all(isinstance(own, Mapping) for own in stated.values())
        for stated in value.values()
    )


Check = tuple[Callable[[Any], bool], str]
_COUNT: Check = (_is_count, "a whole number from 1 on")
_LENGTH: Check = (
    _is_count_at_each_scale,
    'a whole number from 1 on, or one for each scale, as {"smoke": 1, "mini": 10, "full": 100}',
)
_FLAG: Check = (lambda value: isinstance(value, bool), "True or False")
VALUES: Mapping[str, Check] = {
    "metric": (lambda value: isinstance(value, str), "the name of a score, as 'accuracy'"),
    "larger_is_better": _FLAG,
    "trains_on_validation": _FLAG,
    "target": (lambda value: value is None or _is_number(value), "a number or None"),
    "epochs": _LENGTH,
    "steps": _LENGTH,
    "batch": _COUNT,
    "averaged": _LENGTH,
    "d_updates": _COUNT,
    "schedule": (
        lambda value: not isinstance(value, type) and callable(getattr(value, "lr", None)),
        "a schedule, as Cosine()",
    ),
    "ema": (
        lambda value: value is None or (_is_number(value) and 0 <= value < 1),
        "a number from 0 to below 1, or None for no average",
    ),
    "clip": (
        lambda value: value is None or (_is_number(value) and value > 0),
        "a number above 0, or None for no clipping",
    ),
    "decay": (
        lambda value: _is_number(value) and 0 <= value < 1,
        "a number from 0 to below 1: lr * weight_decay",
    ),
    "margin": (
        lambda value: value is None or (_is_number(value) and value > 0),
        "a number above 0, or None",
    ),
    "settings": (
        _are_settings,
        "settings by protocol and optimizer, as {'fair': {'sgdm': {'lr': 1.0}}}",
    ),
    "grid": (lambda value: value is None or isinstance(value, str), "the name of a grid, or None"),
    "spaces": (_are_spaces, "values by optimizer and setting, as {'*': {'lr': (0.1, 0.01)}}"),
    "reads": (
        lambda value: (
            isinstance(value, (tuple, list)) and all(isinstance(one, (str, Path)) for one in value)
        ),
        'files and folders, as ("houses.csv",)',
    ),
    "rules": (
        lambda value: (
            isinstance(value, Mapping) and all(isinstance(own, Rules) for own in value.values())
        ),
        "Rules by the names of protocols, as {'fair': Rules(select='last')}",
    ),
}
"""attribute of a workload -> check of its value, and what the value must be, in words."""

_SYNONYMS = {
    "batch_size": "batch",
    "num_epochs": "epochs",
    "n_epochs": "epochs",
    "scheduler": "schedule",
    "lr_schedule": "schedule",
    "grad_clip": "clip",
    "max_grad_norm": "clip",
}
"""Names that other libraries use for attributes. Without this check they would be ignored."""

_MOVED = (
    "is not used any more: return a Source from data(), or write source(self, split, training), "
    "which returns one"
)


def check(cls: type[Workload], file: Path) -> None:
    """Raise a LabError if the class has a fault that would otherwise show only after hours."""

    def fault(member: str, words: str) -> LabError:
        return LabError(f"{cls.__name__}{member} in {file} {words}.")

    if missing := sorted(getattr(cls, "__abstractmethods__", ())):
        raise fault("", f"lacks the method {missing[0]}")
    for moved in ("batches", "updates"):
        if hasattr(cls, moved):
            raise fault(f".{moved}", _MOVED)
    for name, meant in _SYNONYMS.items():
        if hasattr(cls, name) and getattr(cls, meant) == getattr(Workload, meant):
            raise fault(f".{name}", f"is not used; the attribute is called {meant}")
    for name, (is_right, right) in VALUES.items():
        value = getattr(cls, name, None)
        computed = isinstance(value, (property, cached_property))
        if hasattr(cls, name) and not computed and not is_right(value):
            shown = value if isinstance(value, Mapping) else describe(value)
            raise fault(f".{name}", f"is {shown}; it must be {right}")


def check_splits(workload: Workload, data: Data) -> None:
    """Raise a LabError if a split cannot be trained on or evaluated."""
    name = type(workload).__name__
    if data.validation is None and workload.selection == "validation":
        what = f"the protocol {workload.protocol!r} chooses by validation examples"
        raise LabError(f"{what}, but data() of {name} returns none.")
    for split, value in vars(data).items():
        training = split == "train"
        if value is None and split == "validation":
            continue
        if not training and type(workload).evaluate is not Workload.evaluate:
            continue  # a custom evaluate() may accept any split
        try:
            source: object = workload.source(value, training)
        except LabError as error:
            raise LabError(f"the {split} split of {name} cannot be used: {error}") from error
        if not isinstance(source, Source):
            gives = f"source() of {name} returns {describe(source)} for the {split} split"
            raise LabError(f"{gives}; it must return a Source, as Tensors(split, batch).")
