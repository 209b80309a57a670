"""The runs that are named, the weights they ended with, and the loss they were trained on."""

from __future__ import annotations

import difflib
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from adamomentum_lab.catalog import Reference, find_workload, workload_names
from adamomentum_lab.engine.store import Run, Store
from adamomentum_lab.errors import LabError
from adamomentum_lab.source import Source, Tensors
from adamomentum_lab.training.checkpoints import Checkpoints
from adamomentum_lab.training.feed import in_order
from adamomentum_lab.workload import Workload
from adamomentum_paper.workloads._images import Images, channels_last

_HOW = "`adamomentum landscape` alone lists the runs"


@dataclass(frozen=True)
class Found:
    """A run and its folder of checkpoints."""

    run: Run
    folder: Path

    @property
    def has_weights(self) -> bool:
        """Whether there is a checkpoint, whole or not."""
        checkpoints = Checkpoints(self.folder)
        return checkpoints.last.exists() or checkpoints.previous.exists()


def listed(folder: Path) -> list[Found]:
    """The runs of a folder of results, in the order of what they are."""
    if not (folder / "runs.sqlite").is_file():
        raise LabError(f"there are no results in {folder}; --runs names the folder that has them.")
    runs = Store(folder).all()
    runs.sort(key=lambda run: (run.spec.workload, run.spec.optimizer, run.spec.seed, run.spec.id))
    return [Found(run, folder / run.spec.id) for run in runs]


def find_runs(names: Sequence[str], folder: Path) -> list[Found]:
    """Runs by their ids, the beginnings of these, or their folders; each once."""
    here = listed(folder) if (folder / "runs.sqlite").is_file() else None
    found: dict[str, Found] = {}
    for name in names:
        one = _named(name, folder, here)
        found.setdefault(one.run.spec.id, one)
    return list(found.values())


def _named(name: str, folder: Path, here: list[Found] | None) -> Found:
    path = Path(name)
    if path.is_dir() and (path.resolve().parent / "runs.sqlite").is_file():
        key, among = path.resolve().name, listed(path.resolve().parent)
    else:
        key, among = name, here if here is not None else listed(folder)
    matching = [one for one in among if key and one.run.spec.id.startswith(key)]
    if len(matching) == 1:
        return matching[0]
    ids = [one.run.spec.id for one in (matching or among)]
    if matching:
        raise LabError(f"{name!r} is the beginning of several runs: {', '.join(ids)}.")
    near = difflib.get_close_matches(key, ids, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise LabError(f"there is no run {name!r}{hint} among the {len(ids)} in {folder}; {_HOW}.")


def comparable(found: Sequence[Found]) -> None:
    """Refuse runs whose losses are not the same function."""
    specs = [one.run.spec for one in found]
    for what in ("workload", "scale", "protocol"):
        values = list(dict.fromkeys(getattr(spec, what) for spec in specs))
        if len(values) > 1:
            raise LabError(
                f"these runs differ in their {what} ({', '.join(values)}): their losses cannot be "
                "compared."
            )
    if len({spec.code for spec in specs}) > 1:
        raise LabError(
            f"these runs are of several versions of {specs[0].workload}: their losses cannot be "
            "compared."
        )
    for one in found:
        if one.run.status == "diverged":
            raise LabError(f"the run {one.run.spec.id} diverged: it has no solution.")
        if not one.has_weights:
            raise LabError(
                f"the run {one.run.spec.id} ({one.run.status}) has no checkpoint in {one.folder}."
            )


def reference_of(run: Run, file: Path | None) -> Reference:
    """Where the workload of a run comes from. A user's is found by its file, if it is the same."""
    name = run.spec.workload
    if file is not None:
        return find_workload(str(file))
    if name in workload_names():
        return find_workload(name)
    beside = Path(f"{name}.py")
    if beside.is_file() and (origin := find_workload(str(beside))).code == run.spec.code:
        return origin
    raise LabError(
        f"the run {run.spec.id} is of {name}, which is not one of the lab's: --workload must name "
        f"its file ({name}.py)."
    )


@dataclass(frozen=True)
class Solution:
    """A network with the weights of a checkpoint."""

    model: nn.Module
    epochs: float
    """After so many."""
    averaged: int
    """The mean of the weights after so many epochs."""

    @property
    def weights(self) -> list[Tensor]:
        """Those that were trained."""
        return [param for param in self.model.parameters() if param.requires_grad]


def solution(found: Found, problem: Problem) -> Solution:
    """The weights of the last checkpoint, or where a workload averages them, the mean."""
    state = _checkpoint(found)
    workload = problem.workload
    model = workload.model()
    past = state["past"] if workload.averaged > 1 else []
    params: list[Tensor] = list(model.parameters())
    try:
        model.load_state_dict(state["model"])
        if past:
            with torch.no_grad():
                torch._foreach_zero_(params)
                for weights in past:
                    torch._foreach_add_(params, weights, alpha=1 / len(past))
    except (RuntimeError, TypeError) as error:
        raise LabError(
            f"the weights of the run {found.run.spec.id} do not fit the network of "
            f"{found.run.spec.workload} as it is now."
        ) from error
    if not all(bool(param.isfinite().all()) for param in params):
        raise LabError(f"the weights of the run {found.run.spec.id} are not finite.")
    part = state["update"] / problem.per_epoch
    return Solution(model.eval(), state["epoch"] + part, max(len(past), 1))


def _checkpoint(found: Found) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            state = Checkpoints(found.folder).load()
    except (UserWarning, OSError) as error:
        raise LabError(
            f"the checkpoint of the run {found.run.spec.id} in {found.folder} is damaged; train it "
            "again into another folder (--runs)."
        ) from error
    if state is None or not {"model", "past", "epoch", "update"} <= set(state):
        raise LabError(
            f"the run {found.run.spec.id} did not minimise one loss of one network: it has no such "
            "landscape."
        )
    return state


class Problem:
    """What was minimised, on a fixed part of the training examples, without chance in it.

    Networks are in eval mode: no dropout, batch norm by its running statistics. Images are not
    augmented. Texts that are read on from batch to batch begin anew with each.
    """

    def __init__(self, workload: Workload, examples: int) -> None:
        self.workload = workload
        if isinstance(workload, Images):
            workload.augmented = lambda x: channels_last(  # type: ignore[method-assign]
                workload.normalised(x)
            )
        torch.manual_seed(0)  # as the loop does: data that is drawn
        train = workload.splits().train
        source = workload.source(train, training=True)
        self.per_epoch = max(len(source), 1)
        self._batches = list(_part(workload, train, source, examples))
        sizes = [_size(batch, workload) for batch in self._batches]
        self.examples = sum(sizes)
        self._weights = [size / self.examples for size in sizes]
        self.carries = False

    def losses(self, model: nn.Module) -> Iterator[tuple[float, Tensor]]:
        """The loss of each batch, and its part of the whole. Can be differentiated twice."""
        for weight, batch in zip(self._weights, self._batches, strict=True):
            self.workload.state = None
            with sdpa_kernel(SDPBackend.MATH):  # the fused one is differentiable once
                loss = self.workload.loss(model, batch)
            self.carries |= self.workload.state is not None
            yield weight, loss

    def loss(self, model: nn.Module) -> float:
        """The mean over all."""
        with torch.no_grad():
            return sum(weight * float(loss) for weight, loss in self.losses(model))

    def check(self, model: nn.Module) -> None:
        """Refuse a loss that is random, or that is no number."""
        torch.manual_seed(1)
        one = self.loss(model)
        if not math.isfinite(one):
            raise LabError(f"the loss of {type(self.workload).__name__} is {one} at the solution.")
        torch.manual_seed(2)
        if one != self.loss(model):
            raise LabError(
                f"the loss of {type(self.workload).__name__} is random although the network is in "
                "eval mode; draw random numbers only where model.training."
            )


def _part(workload: Workload, train: Any, source: Source, examples: int) -> Iterator[Any]:
    order = torch.Generator().manual_seed(0)
    if isinstance(workload, Images) or isinstance(source, Tensors):
        chosen = torch.randperm(len(train[0]), generator=order)[:examples].sort().values
        split = tuple(tensor[chosen] for tensor in train)
        yield from in_order(workload.source(split, training=False))
        return
    taken = 0
    for batch in map(source.load, source.plan(order)):
        yield batch
        taken += _size(batch, workload)
        if taken >= examples:
            return


def _size(batch: Any, workload: Workload) -> int:
    first = batch[0] if isinstance(batch, (tuple, list)) and batch else None
    return len(first) if isinstance(first, Tensor) and first.ndim else workload.batch
