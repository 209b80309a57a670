"""Find runs, load the weights they ended with, and evaluate the loss they minimised."""

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
from adamomentum_lab.files import is_locked
from adamomentum_lab.rules import at_scale
from adamomentum_lab.source import Source, Tensors
from adamomentum_lab.training.checkpoints import Checkpoints
from adamomentum_lab.training.feed import in_order
from adamomentum_lab.workload import Workload
from adamomentum_paper.workloads._images import Images, channels_last

_HOW = "`adamomentum landscape --runs FOLDER` lists the runs"


@dataclass(frozen=True)
class FoundRun:
    """A run and its folder of checkpoints."""

    run: Run
    folder: Path

    @property
    def has_weights(self) -> bool:
        """Whether a checkpoint exists, even a damaged one."""
        checkpoints = Checkpoints(self.folder)
        return checkpoints.last.exists() or checkpoints.previous.exists()

    @property
    def status(self) -> str:
        """The run's, but `interrupted` if it is noted as running and its process is gone."""
        dead = self.run.status == "running" and not is_locked(self.folder / "lock")
        return "interrupted" if dead else self.run.status


def list_runs(folder: Path) -> list[FoundRun]:
    """List the runs in a folder of results, sorted by workload, optimizer and seed."""
    if not (folder / "runs.sqlite").is_file():
        raise LabError(f"there are no results in {folder}; set --runs to the folder that has them.")
    runs = Store(folder).all()
    runs.sort(key=lambda run: (run.spec.workload, run.spec.optimizer, run.spec.seed, run.spec.id))
    return [FoundRun(run, folder / run.spec.id) for run in runs]


def find_runs(names: Sequence[str], folder: Path) -> list[FoundRun]:
    """Find runs by their ids, prefixes of ids, or folders. Each run is returned once."""
    here = list_runs(folder) if (folder / "runs.sqlite").is_file() else None
    found: dict[str, FoundRun] = {}
    for name in names:
        one = _find_run(name, folder, here)
        found.setdefault(one.run.spec.id, one)
    return list(found.values())


def _find_run(name: str, folder: Path, here: list[FoundRun] | None) -> FoundRun:
    path = Path(name)
    if path.is_dir() and (path.resolve().parent / "runs.sqlite").is_file():
        key, among = path.resolve().name, list_runs(path.resolve().parent)
    else:
        key, among = name, here if here is not None else list_runs(folder)
    matching = [one for one in among if key and one.run.spec.id.startswith(key)]
    if len(matching) == 1:
        return matching[0]
    ids = [one.run.spec.id for one in (matching or among)]
    if matching:
        raise LabError(f"{name!r} matches several runs: {', '.join(ids)}.")
    near = difflib.get_close_matches(key, ids, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise LabError(f"there is no run {name!r} in {folder}{hint}. {_HOW}.")


def check_comparable(found: Sequence[FoundRun]) -> None:
    """Raise a LabError if the runs minimised different losses, or have no solution."""
    specs = [one.run.spec for one in found]
    for what in ("workload", "scale", "protocol"):
        values = list(dict.fromkeys(getattr(spec, what) for spec in specs))
        if len(values) > 1:
            raise LabError(
                f"these runs have a different {what} ({', '.join(values)}), so their losses cannot "
                "be compared."
            )
    if len({spec.code for spec in specs}) > 1:
        raise LabError(
            f"these runs are of different versions of {specs[0].workload}, so their losses cannot "
            "be compared."
        )
    for one in found:
        if one.run.status == "diverged":
            raise LabError(f"the run {one.run.spec.id} diverged, so it has no solution.")
        if not one.has_weights:
            raise LabError(
                f"the run {one.run.spec.id} ({one.run.status}) has no checkpoint in {one.folder}."
            )


def reference_of(run: Run, file: Path | None) -> Reference:
    """Find the workload of a run. A user's file must be given, or be in the working directory."""
    name = run.spec.workload
    if file is not None:
        return find_workload(str(file))
    if name in workload_names():
        return find_workload(name)
    beside = Path(f"{name}.py")
    if beside.is_file() and (origin := find_workload(str(beside))).code == run.spec.code:
        return origin
    raise LabError(
        f"the run {run.spec.id} is of {name}, which is not an installed workload; set --workload "
        f"to its file ({name}.py)."
    )


@dataclass(frozen=True)
class Solution:
    """A network with the weights of a checkpoint."""

    model: nn.Module
    epochs: float
    """Number of epochs trained, as a fraction."""
    averaged: int
    """Number of epochs whose weights were averaged."""

    @property
    def weights(self) -> list[Tensor]:
        """The parameters that were trained."""
        return [param for param in self.model.parameters() if param.requires_grad]


def solution(found: FoundRun, problem: Problem) -> Solution:
    """Load the last checkpoint. If the workload averages weights, load their mean."""
    state = _checkpoint(found)
    workload = problem.workload
    model = workload.model()
    past = state["past"] if at_scale(workload.averaged, workload.scale) > 1 else []
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
            f"the weights of the run {found.run.spec.id} do not fit the present network of "
            f"{found.run.spec.workload}."
        ) from error
    if not all(bool(param.isfinite().all()) for param in params):
        raise LabError(f"the weights of the run {found.run.spec.id} are not finite.")
    part = state["update"] / problem.per_epoch
    return Solution(model.eval(), state["epoch"] + part, max(len(past), 1))


def _checkpoint(found: FoundRun) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            state = Checkpoints(found.folder, found.run.spec.id).load()
    except (UserWarning, OSError) as error:
        raise LabError(
            f"the checkpoint of the run {found.run.spec.id} in {found.folder} is damaged; train it "
            "again into another folder (--runs)."
        ) from error
    if state is None or not {"model", "past", "epoch", "update"} <= set(state):
        raise LabError(
            f"the run {found.run.spec.id} did not minimise one loss of one network, so it has no "
            "landscape."
        )
    return state


class Problem:
    """The minimised loss, without randomness, on a fixed part of the training examples.

    Networks are in eval mode: there is no dropout, and batch norm uses its running statistics.
    Images are not augmented. No state is carried from batch to batch.
    """

    def __init__(self, workload: Workload, examples: int) -> None:
        self.workload = workload
        if isinstance(workload, Images):
            workload.augmented = lambda x: channels_last(  # type: ignore[method-assign]
                workload.normalised(x)
            )
        torch.manual_seed(0)  # for random data, as in the training loop
        train = workload.splits().train
        source = workload.source(train, training=True)
        self.per_epoch = max(len(source), 1)
        self._batches = list(_part(workload, train, source, examples))
        sizes = [_size(batch, workload) for batch in self._batches]
        self.examples = sum(sizes)
        self._weights = [size / self.examples for size in sizes]
        self.carries = False

    def losses(self, model: nn.Module) -> Iterator[tuple[float, Tensor]]:
        """Yield the loss of each batch with its weight. It can be differentiated twice."""
        for weight, batch in zip(self._weights, self._batches, strict=True):
            self.workload.state = None
            with sdpa_kernel(SDPBackend.MATH):  # the fused kernel is differentiable only once
                loss = self.workload.loss(model, batch)
            self.carries |= self.workload.state is not None
            yield weight, loss

    def loss(self, model: nn.Module) -> float:
        """Return the mean loss over all examples."""
        with torch.no_grad():
            return sum(weight * float(loss) for weight, loss in self.losses(model))

    def check(self, model: nn.Module) -> None:
        """Raise a LabError if the loss is random or not finite."""
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
