"""One run in this process, from its specification to its numbers."""

from __future__ import annotations

import contextlib
import ctypes
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from adamomentum_lab import contenders
from adamomentum_lab.adversarial import Adversarial
from adamomentum_lab.catalog import Reference
from adamomentum_lab.contender import Entry
from adamomentum_lab.engine.environment import Machine, environment
from adamomentum_lab.engine.events import Stage
from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.engine.store import Run
from adamomentum_lab.errors import LabError
from adamomentum_lab.files import dumps, locked, write
from adamomentum_lab.inputs import Prints, changed_inputs, noticing, print_declared
from adamomentum_lab.schedules import Moment
from adamomentum_lab.selection import EpochRecord
from adamomentum_lab.training.adversarial import AdversarialLoop
from adamomentum_lab.training.checkpoints import Checkpoints
from adamomentum_lab.training.groups import groups_of
from adamomentum_lab.training.loop import Loop
from adamomentum_lab.training.outcome import Outcome
from adamomentum_lab.training.single_cpu import SingleCpu
from adamomentum_lab.training.supervised import Supervised
from adamomentum_lab.training.workers import end_workers


@dataclass(frozen=True)
class Job:
    """A run to do, with its folder and its machine settings. It can be sent to another process."""

    spec: Spec
    reference: Reference
    folder: Path
    epochs: int | None = None
    """Stop after this many epochs; None is the whole run."""
    devices: int = 1
    strategy: str = "auto"
    threads: int = 1
    checkpoint_seconds: float | None = None
    """Time between two checkpoints; None is such that they cost little."""
    stage: Stage = "final"
    entry: Entry | None = None
    """Where the contender comes from, unless it is the lab's."""
    anew: bool = False
    """Whether what is kept of the run, which no longer counts, is to be ignored."""


def keep_memory() -> None:
    """Keep freed memory in this process, whatever the size of the block.

    glibc returns blocks of 32 MiB and more to the system at once. A softmax over 10,000 words then
    needs fresh pages at every update, which can take longer than the arithmetic. Results do not
    depend on it.
    """
    m_trim_threshold, m_mmap_max = -1, -4
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return  # not glibc
    mallopt(m_mmap_max, 0)
    mallopt(m_trim_threshold, 2**31 - 1)


def check_device(name: str) -> None:
    """Raise a LabError if this machine has no such device."""
    lacks_cuda = name == "cuda" and not torch.cuda.is_available()
    if lacks_cuda or (name == "mps" and not torch.backends.mps.is_available()):
        raise LabError(f"this machine has no device {name!r} that torch can use; try --device cpu.")


def mark_stopped(job: Job, run: Run) -> Run:
    """Return a run at the end of its job: `stopped` if the job asked for only a part of it."""
    return replace(run, status="stopped") if job.epochs and run.status == "done" else run


def is_complete(job: Job, run: Run | None) -> bool:
    """Whether the stored run has everything that the job asks for."""
    if run is None or run.status == "damaged":
        return False
    if run.status == "running":  # or interrupted before all that belongs to it was noted
        return False
    enough = job.epochs is not None and len(run.epochs) >= job.epochs
    return enough or run.status in ("done", "diverged")


def execute(
    job: Job,
    on_epoch: Callable[[EpochRecord, float], None] = lambda *_: None,
    on_update: Callable[[Moment], None] = lambda *_: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Run:
    """Train a run, or the rest of it.

    A process trains one run at a time: two would share one random number generator.
    """
    if not _alone.acquire(blocking=False):
        raise LabError("this process is training another run; it can train only one at a time.")
    try:
        return _execute(job, on_epoch, on_update, stopped)
    finally:
        end_workers()
        _alone.release()


_alone = threading.Lock()


def _execute(
    job: Job,
    on_epoch: Callable[[EpochRecord, float], None],
    on_update: Callable[[Moment], None],
    stopped: Callable[[], bool],
) -> Run:
    torch.set_num_threads(job.threads)
    keep_memory()
    fabric = _fabric(job)
    busy = f"another process is training the run in {job.folder}."
    with locked(job.folder / "lock", busy) if fabric.is_global_zero else contextlib.nullcontext():
        outcome, inputs = _train(job, fabric, on_epoch, on_update, stopped)
    machine: Machine = {
        **environment(str(fabric.device)),
        "seconds": sum(outcome.seconds),
        "updates": outcome.updates,
        "resolution": outcome.resolution,
        "ms_per_update": 1e3 * sum(outcome.seconds) / max(outcome.updates, 1),
        "folder": str(job.folder),
    }
    run = Run(job.spec, outcome.status, outcome.epochs, outcome.seconds, machine)
    return replace(run, inputs=inputs)


def make_loop(job: Job, **options: Any) -> Loop:
    """Return the training loop of a job, with these options of `Loop` besides."""
    spec = job.spec
    cls = job.reference.load()
    contender = contenders.load(spec.optimizer, job.entry)
    contender = contender.with_schedule(cls.schedule_settings)
    workload = cls(spec.scale, spec.protocol)
    workload.kept = job.folder.parent / "kept"
    workload.epochs = spec.epochs or workload.epochs
    settings = dict(spec.settings)
    kind = AdversarialLoop if isinstance(workload, Adversarial) else Supervised
    return kind(
        workload,
        lambda network: contender.build_for(network, groups_of(workload, network), **settings),
        spec.seed,
        schedule=contender.schedule(workload.schedule_with(spec.optimizer, settings)),
        closure="closure" in contender.needs,
        compiled=spec.compile,
        **options,
    )


def _train(
    job: Job,
    fabric: Any,
    on_epoch: Callable[[EpochRecord, float], None],
    on_update: Callable[[Moment], None],
    stopped: Callable[[], bool],
) -> tuple[Outcome, Prints]:
    """How the run ended, and what it read."""
    reference = job.reference
    checkpoints = Checkpoints(job.folder, job.spec.id)
    try:
        with noticing(reference.inputs, ignored=job.folder.parent):
            loop = make_loop(
                job,
                fabric=fabric,
                checkpoints=checkpoints,
                checkpoint_seconds=job.checkpoint_seconds,
                on_epoch=on_epoch,
                on_update=on_update,
                stopped=stopped,
            )
        base = reference.file.parent
        inputs = {**reference.inputs.prints, **print_declared(loop.workload.reads, base)}
        if fabric.is_global_zero:
            _check_inputs(job, checkpoints, inputs)
        fabric.barrier()
        return loop.run(job.epochs), inputs
    except LabError:
        raise
    except (Exception, SystemExit) as error:
        raise reference.locate(error) from error


def _check_inputs(job: Job, checkpoints: Checkpoints, inputs: Prints) -> None:
    """Discard checkpoints of a run that read other files than these, and note these."""
    noted = job.folder / "inputs.json"
    before: Prints = {}
    with contextlib.suppress(OSError, ValueError):
        before = json.loads(noted.read_text(encoding="utf-8"))
    if job.anew or changed_inputs(before, job.reference.file.parent):
        checkpoints.discard()
    if before != inputs:
        write(noted, dumps(inputs))


def _fabric(job: Job) -> Any:
    """Return what moves networks to devices.

    Lightning Fabric takes three seconds to import, so it is used only if a device, a strategy or a
    precision needs it.
    """
    spec = job.spec
    if (spec.device, job.devices, job.strategy, spec.precision) == ("", 1, "auto", "32-true"):
        return SingleCpu()
    from lightning_fabric import Fabric

    strategy: Any = job.strategy
    if strategy == "fsdp":  # Fabric's name for FSDP2 is ModelParallelStrategy
        from lightning_fabric.strategies.model_parallel import ModelParallelStrategy

        # By default it would use tensor parallelism instead.
        strategy = ModelParallelStrategy(
            _shard, data_parallel_size=job.devices, tensor_parallel_size=1
        )
    try:
        fabric = Fabric(
            accelerator=spec.device or "cpu",
            devices=job.devices,
            strategy=strategy,
            precision=job.spec.precision,  # type: ignore[arg-type]
        )
    except (ValueError, RuntimeError, TypeError) as error:
        raise LabError(str(error).splitlines()[0]) from error
    fabric.launch()
    return fabric


def _shard(model: Any, mesh: Any) -> Any:
    from torch.distributed.fsdp import fully_shard

    return fully_shard(model, mesh=mesh["data_parallel"])
