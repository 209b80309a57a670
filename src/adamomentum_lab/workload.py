"""What a workload is: the contract of a problem to train on."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor, nn

from adamomentum_lab import rules
from adamomentum_lab.errors import LabError
from adamomentum_lab.rules import SCALES, Rules, Scale, Selection
from adamomentum_lab.schedules import Constant, Schedule
from adamomentum_lab.source import Source, count_examples, describe, join, to_device, wrap
from adamomentum_lab.space import Space, Stated
from adamomentum_lab.training.feed import in_order


@dataclass(frozen=True)
class Data:
    """The three splits. What is chosen is chosen on validation; test is for the final word.

    Each is a tuple of tensors, a map-style Dataset or a Source.
    """

    train: Any
    validation: Any
    test: Any

    def merged(self) -> Data:
        """Training on the validation examples too, as where nothing is chosen by them."""
        if self.validation is None:
            return self
        try:
            train = join(self.train, self.validation)
        except (TypeError, ValueError) as error:
            raise LabError(
                "only splits that are tuples of tensors or Datasets can be merged, as protocols "
                "without validation do; set trains_on_validation = False, or override splits()."
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
    epochs: ClassVar[int | Mapping[str, int]] = {"smoke": 1, "mini": 10, "full": 100}
    """Length of a run: one number, or one for each scale."""
    batch: int = 64
    schedule: ClassVar[Schedule] = Constant()
    clip: ClassVar[float | None] = None
    """Largest norm of all gradients together."""
    averaged: ClassVar[int] = 1
    """What is evaluated is the mean of the weights after the last so many epochs."""
    decay: ClassVar[float] = 0.0
    """Weight decay as lr * weight_decay at the largest lr of a run, the same for every optimizer.
    It is what a bracketing search starts from, and keeps unless it searches weight decay."""
    margin: ClassVar[float | None] = None
    """A difference of the metric below this is of no interest; without one, no two optimizers are
    called equivalent."""
    spaces: ClassVar[Mapping[str, Space]] = {}
    """The values that are searched for each optimizer; under the name "*", for every optimizer that
    has the setting. A single value is held fixed."""
    grid: ClassVar[str | None] = None
    """The search grid of a plugin, for optimizers that `spaces` has no values for. Without one,
    each optimizer has a space of its own."""
    rules: ClassVar[Mapping[str, Rules]] = {}
    """Under each protocol that has others on this workload, its rules."""
    trains_on_validation: ClassVar[bool] = True
    """Whether validation examples are trained on where the rules choose nothing by them."""
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
        """The data as the rules use it: validation examples are kept apart if they choose."""
        data: object = self.data()
        if not isinstance(data, Data):
            returns = f"data() of {type(self).__name__} returns {describe(data)}"
            raise LabError(f"{returns}; it must return Data(train, validation, test).")
        if self.selection == "validation":
            return data
        return data.merged() if self.trains_on_validation else replace(data, validation=None)

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
        return self.rules_of(self.protocol).select

    @classmethod
    def rules_of(cls, protocol: str) -> Rules:
        """The rules of a protocol on this workload."""
        return cls.rules.get(protocol) or rules.get(protocol)

    def source(self, split: Any, training: bool) -> Source:
        """The batches of a split, for training or for an evaluation.

        Tuples of tensors and Datasets are cut into batches of `batch` examples; a Source stays as
        it is. Override it for splits that are fed in another way.
        """
        del training
        return wrap(split, self.batch)

    def evaluate(self, model: nn.Module, split: Any) -> dict[str, float]:
        """The scores of a split."""
        sums: dict[str, float] = {}
        size = 0
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
    """By protocol, optimizer and name."""
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
    "averaged": _COUNT,
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
    "rules": (
        lambda value: (
            isinstance(value, Mapping) and all(isinstance(own, Rules) for own in value.values())
        ),
        "Rules by the names of protocols, as {'fair': Rules(select='last')}",
    ),
}
"""For each attribute of a workload, what its value must be."""

_SYNONYMS = {
    "batch_size": "batch",
    "num_epochs": "epochs",
    "n_epochs": "epochs",
    "scheduler": "schedule",
    "lr_schedule": "schedule",
    "grad_clip": "clip",
    "max_grad_norm": "clip",
}
"""What other libraries call attributes. Left alone, they would be ignored without a word."""

_MOVED = (
    "is not used any more: return a Source from data(), or write source(self, split, training), "
    "which returns one"
)


def check(cls: type[Workload], file: Path) -> None:
    """Refuse a class that would fail only after hours."""

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
    """Refuse splits that cannot be trained on or evaluated."""
    name = type(workload).__name__
    if data.validation is None and workload.selection == "validation":
        what = f"data() of {name} gives no validation examples"
        raise LabError(f"{what}, by which the protocol {workload.protocol!r} chooses.")
    for split, value in vars(data).items():
        training = split == "train"
        if value is None and split == "validation":
            continue
        if not training and type(workload).evaluate is not Workload.evaluate:
            continue  # whatever its own evaluation understands
        try:
            source: object = workload.source(value, training)
        except LabError as error:
            raise LabError(f"the {split} split of {name} cannot be used: {error}") from error
        if not isinstance(source, Source):
            gives = f"source() of {name} returns {describe(source)} for the {split} split"
            raise LabError(f"{gives}; it must return a Source, as Tensors(split, batch).")
