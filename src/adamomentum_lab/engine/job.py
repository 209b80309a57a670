"""One run in this process, from its specification to its numbers."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from adamomentum_lab import contenders
from adamomentum_lab.adversarial import Adversarial
from adamomentum_lab.catalog import Reference
from adamomentum_lab.engine.environment import Machine, environment
from adamomentum_lab.engine.events import Stage
from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.engine.store import Run
from adamomentum_lab.errors import LabError, locate
from adamomentum_lab.files import locked
from adamomentum_lab.schedules import Moment
from adamomentum_lab.selection import EpochRecord
from adamomentum_lab.training.adversarial import AdversarialLoop
from adamomentum_lab.training.checkpoints import Checkpoints
from adamomentum_lab.training.loop import Outcome
from adamomentum_lab.training.single_cpu import SingleCpu
from adamomentum_lab.training.supervised import Supervised


@dataclass(frozen=True)
class Job:
    """A run to be done, and where and how. Everything in it can be sent to another process."""

    spec: Spec
    reference: Reference
    folder: Path
    epochs: int | None = None
    """Stop after so many; None is the whole run."""
    device: str = "cpu"
    devices: int = 1
    strategy: str = "auto"
    threads: int = 1
    checkpoint_seconds: float = 15.0
    stage: Stage = "final"


def keep_memory() -> None:
    """Let this process use again the memory that it frees, whatever the size.

    glibc returns blocks of 32 MiB and more to the system at once: those of a softmax over 10,000
    words cost fresh pages at every update, which can take longer than the arithmetic. No number
    depends on it.
    """
    m_trim_threshold, m_mmap_max = -1, -4
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return  # not glibc
    mallopt(m_mmap_max, 0)
    mallopt(m_trim_threshold, 2**31 - 1)


def mark_stopped(job: Job, run: Run) -> Run:
    """A run that came to the end of its job, as it is kept: `stopped` if more of it is left."""
    return replace(run, status="stopped") if job.epochs and run.status == "done" else run


def is_complete(job: Job, run: Run | None) -> bool:
    """Whether what is kept of a run is all that the job asks for."""
    if run is None:
        return False
    enough = job.epochs is not None and len(run.epochs) >= job.epochs
    return enough or run.status in ("done", "diverged")


def execute(
    job: Job,
    on_epoch: Callable[[EpochRecord, float], None] = lambda *_: None,
    on_update: Callable[[Moment], None] = lambda *_: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Run:
    """Do the run, or what is left of it.

    A process does one at a time: two would draw from the same random numbers.
    """
    if not _alone.acquire(blocking=False):
        raise LabError("this process is training another run; a process can train one at a time.")
    try:
        return _execute(job, on_epoch, on_update, stopped)
    finally:
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
    busy = f"another process is at work on the run in {job.folder}."
    with locked(job.folder / "lock", busy) if fabric.is_global_zero else contextlib.nullcontext():
        outcome = _train(job, fabric, on_epoch, on_update, stopped)
    machine: Machine = {
        **environment(str(fabric.device)),
        "seconds": sum(outcome.seconds),
        "updates": outcome.updates,
        "ms_per_update": 1e3 * sum(outcome.seconds) / max(outcome.updates, 1),
        "folder": str(job.folder),
    }
    return Run(job.spec, outcome.status, outcome.epochs, outcome.seconds, machine)


def _train(
    job: Job,
    fabric: Any,
    on_epoch: Callable[[EpochRecord, float], None],
    on_update: Callable[[Moment], None],
    stopped: Callable[[], bool],
) -> Outcome:
    spec = job.spec
    try:
        workload = job.reference.load()(spec.scale, spec.protocol)
        workload.kept = job.folder.parent / "kept"
        contender = contenders.get(spec.optimizer)
        kind = AdversarialLoop if isinstance(workload, Adversarial) else Supervised
        loop = kind(
            workload,
            lambda params: contender.build(params, **dict(spec.settings)),
            spec.seed,
            schedule=workload.schedule_of(spec.optimizer),
            fabric=fabric,
            checkpoints=Checkpoints(job.folder),
            checkpoint_seconds=job.checkpoint_seconds,
            on_epoch=on_epoch,
            on_update=on_update,
            stopped=stopped,
        )
        return loop.run(job.epochs)
    except LabError:
        raise
    except Exception as error:
        raise locate(error, job.reference.file) from error


def _fabric(job: Job) -> Any:
    """What brings networks to devices: Lightning Fabric, whose import takes three seconds, only
    where a device, a strategy or a precision needs it."""
    if (job.device, job.devices, job.strategy, job.spec.precision) == ("cpu", 1, "auto", "32-true"):
        return SingleCpu()
    from lightning_fabric import Fabric

    strategy: Any = job.strategy
    if strategy == "fsdp":  # torch's own FSDP2, which Fabric names by what it is used for
        from lightning_fabric.strategies.model_parallel import ModelParallelStrategy

        # Left to itself it would spread the tensors of a layer over the devices instead.
        strategy = ModelParallelStrategy(
            _shard, data_parallel_size=job.devices, tensor_parallel_size=1
        )
    try:
        fabric = Fabric(
            accelerator=job.device,
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
