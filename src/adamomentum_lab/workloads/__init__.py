"""What a workload is, and the ones there are: one file each in this folder, or a user's own."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import pkgutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from adamomentum_lab.errors import LabError, unknown
from adamomentum_lab.training.schedules import Constant, Schedule

Scale = Literal["smoke", "mini", "full"]
Protocol = Literal["fair", "paper", "as-run"]
Selection = Literal["validation", "last", "test"]
SCALES: tuple[Scale, ...] = get_args(Scale)
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
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
                "only splits that are tuples of tensors can be merged, as the protocols paper and "
                "as-run do; override splits()."
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
    grid: ClassVar[str] = "cnn"
    """Which of the paper's search grids applies: cnn, lstm, transformer or gan."""
    settings: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {}
    """Under each protocol, the settings of each optimizer that differ from its defaults."""

    def __init__(self, scale: Scale = "mini", protocol: Protocol = "fair") -> None:
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
        choices: dict[str, Selection] = {"fair": "validation", "paper": "last", "as-run": "test"}
        return choices[self.protocol]

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
            size += len(batch[0])
            for name, value in self.scores(model, batch).items():
                value = value.cpu().double()
                if value.shape not in ((), (len(batch[0]),)):
                    raise LabError(
                        f"scores() of {type(self).__name__} gives {name} the shape "
                        f"{tuple(value.shape)}; it must be a mean, or one value for each of "
                        f"{len(batch[0])} examples."
                    )
                total = value.sum() if value.ndim else value * len(batch[0])
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


@dataclass(frozen=True)
class Origin:
    """Where a workload comes from, in a form that a worker process can load again."""

    name: str
    file: Path
    code: str
    """Digest of the file and what it uses of the lab: each version has its own runs."""

    def load(self) -> type[Workload]:
        """The class. Errors in a user's file are left as they are."""
        inside = self.file.parent == Path(__file__).parent
        name = f"{__name__}.{self.name}" if inside else f"_workload_{self.name}"
        module = sys.modules.get(name)
        if module is None or getattr(module, "__file__", None) != str(self.file):
            if _digest(self.file) != self.code:
                raise LabError(f"{self.file} has changed since the start; start again.")
            if not inside and str(self.file.parent) not in sys.path:
                sys.path.append(str(self.file.parent))  # where a script finds its neighbours
            module = _import(name, self.file)
        found = [
            value
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, Workload) and value.__module__ == name
        ]
        if len(found) != 1:
            raise LabError(
                f"{self.file} defines {len(found)} workloads; it must define one subclass of "
                "adamomentum_lab.Workload."
            )
        _check(found[0], self.file)
        return found[0]


def _import(name: str, file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise LabError(f"{file} is not a Python file; its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _check(cls: type[Workload], file: Path) -> None:
    """What would otherwise show only after hours."""
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    if missing:
        raise LabError(f"{cls.__name__} in {file} lacks the method {missing[0]}.")
    if "skip" not in inspect.signature(cls.batches).parameters:
        raise LabError(
            f"{cls.__name__}.batches in {file} lacks the parameter skip=0: how many batches a "
            "continued epoch leaves out."
        )
    if isinstance(cls.schedule, type):
        name = cls.schedule.__name__
        raise LabError(f"{cls.__name__}.schedule in {file} is a class; write {name}().")
    if not isinstance(cls.epochs, Mapping):
        raise LabError(
            f"{cls.__name__}.epochs in {file} must say how many at each scale, as "
            '{"smoke": 1, "mini": 10, "full": 100}.'
        )
    for scale in SCALES:
        epochs = cls.epochs.get(scale)
        if not isinstance(epochs, int) or epochs < 1:
            raise LabError(
                f"{cls.__name__}.epochs in {file} gives {epochs!r} at the scale {scale!r}; it must "
                "be a whole number from 1 on."
            )


def names() -> list[str]:
    """The workloads of this folder, digits first."""
    found = [module.name for module in pkgutil.iter_modules(__path__) if module.name[0] != "_"]
    return sorted(found, key=lambda name: (not name.startswith("digits"), name))


def find(name_or_file: str) -> Origin:
    """A workload by its name, or a user's by its file."""
    if name_or_file in names():
        file = Path(__file__).parent / f"{name_or_file}.py"
    else:
        file = Path(name_or_file)
        if file.suffix != ".py":
            raise LabError(unknown("workload", name_or_file, names()))
        if not file.is_file():
            raise LabError(f"there is no file {name_or_file!r}.")
    return Origin(file.stem, file.resolve(), _digest(file))


def _digest(file: Path) -> str:
    """Of a workload's file, and of all of the lab's that decides about its numbers: networks,
    data as it is read and augmented, losses, schedules, shared bases."""
    lab = Path(__file__).parents[1]
    seen, left = set[str](), [file]
    digest = hashlib.sha256()
    while left:
        content = left.pop(0).read_bytes()
        digest.update(content)
        parts = sorted(part for part in _imported(content) if _matters(part) and part not in seen)
        seen.update(parts)
        left += [path for part in parts if (path := lab / f"{part.replace('.', '/')}.py").is_file()]
    return digest.hexdigest()[:12]


def _imported(content: bytes) -> set[str]:
    """The modules of the lab that a file names, as models.vgg."""
    try:
        nodes = list(ast.walk(ast.parse(content)))
    except (SyntaxError, ValueError):
        return set()  # told when it is loaded
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    named = {f"{node.module}.{alias.name}" for node in froms for alias in node.names}
    named |= {node.module or "" for node in froms}
    prefix = "adamomentum_lab."
    return {name.removeprefix(prefix) for name in named if name.startswith(prefix)}


def _matters(part: str) -> bool:
    folder, _, module = part.partition(".")
    if folder == "data":
        return module not in ("files", "sets", "fetch")  # how data gets here
    if folder == "training":
        return module in ("losses", "schedules", "adversarial_losses")
    return folder == "models" or part.startswith("workloads._")
