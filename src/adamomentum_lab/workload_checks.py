"""Checks of workloads before anything is trained: of the class, and of the splits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any

from torch import Tensor

from adamomentum_lab.errors import LabError
from adamomentum_lab.rules import SCALES, Rules
from adamomentum_lab.source import Source, describe
from adamomentum_lab.workload import Data, Workload


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
    "follows_test": _FLAG,
    "target": (lambda value: value is None or _is_number(value), "a number or None"),
    "epochs": _LENGTH,
    "steps": _LENGTH,
    "batch": _COUNT,
    "averaged": _LENGTH,
    "accumulate": _COUNT,
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


def check_loss(workload: Workload, loss: object) -> None:
    """Raise a LabError, with the line of `loss`, if what it returns trains no network."""
    code = type(workload).loss.__code__
    what = f"{code.co_filename}:{code.co_firstlineno}: loss() of {type(workload).__name__} returns"
    wanted = "it must return a tensor with one element, computed from the parameters of the model."
    if not isinstance(loss, Tensor):
        raise LabError(f"{what} {describe(loss)}; {wanted}")
    if loss.numel() != 1:
        raise LabError(f"{what} a tensor of {loss.numel()} elements; {wanted}")
    if not loss.requires_grad:
        raise LabError(f"{what} a tensor that does not depend on any parameter; {wanted}")


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
