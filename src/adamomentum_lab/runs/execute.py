"""One run in this process, from its specification to its numbers."""

from __future__ import annotations

import ctypes
import fcntl
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies.model_parallel import ModelParallelStrategy
from torch.distributed.fsdp import fully_shard

from adamomentum_lab import contenders
from adamomentum_lab.errors import LabError
from adamomentum_lab.runs.environment import environment
from adamomentum_lab.runs.spec import Spec
from adamomentum_lab.runs.store import Run
from adamomentum_lab.training.adversarial import AdversarialLoop
from adamomentum_lab.training.checkpoints import Checkpoints
from adamomentum_lab.training.loop import Record
from adamomentum_lab.training.schedules import Moment
from adamomentum_lab.training.supervised import Supervised
from adamomentum_lab.workloads import Origin
from adamomentum_lab.workloads._adversarial import Adversarial


class BusyError(LabError):
    """Another process is at work on the same run."""


@dataclass(frozen=True)
class Job:
    """A run to be done, and where and how. Everything in it can be sent to another process."""

    spec: Spec
    origin: Origin
    folder: Path
    epochs: int | None = None
    """Stop after so many; None is the whole run."""
    device: str = "cpu"
    devices: int = 1
    strategy: str = "auto"
    threads: int = 1
    checkpoint_seconds: float = 15.0


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


def as_kept(job: Job, run: Run) -> Run:
    """A run that came to the end of its job, as it is kept: `stopped` if more of it is left."""
    return replace(run, status="stopped") if job.epochs and run.status == "done" else run


def ended(job: Job, run: Run | None) -> bool:
    """Whether what is kept of a run is all that the job asks for."""
    if run is None:
        return False
    return run.status in ("done", "diverged") or (
        job.epochs is not None and len(run.epochs) >= job.epochs
    )


def execute(
    job: Job,
    on_epoch: Callable[[Record, float], None] = lambda *_: None,
    on_update: Callable[[Moment], None] = lambda *_: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Run:
    """Do the run, or what is left of it."""
    spec = job.spec
    torch.set_num_threads(job.threads)
    keep_memory()
    fabric = _fabric(job)
    lock = _lock(job.folder) if fabric.is_global_zero else None
    try:
        workload = job.origin.load()(spec.scale, spec.protocol)
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
        outcome = loop.run(job.epochs)
    except LabError:
        raise
    except Exception as error:
        line = line_of(job.origin.file, error)
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{job.origin.file}:{line}" if line else f"{last.filename}:{last.lineno}"
        raise LabError(f"{where}: {type(error).__name__}: {error}") from error
    finally:
        if lock is not None:
            lock.close()
    machine: dict[str, Any] = {
        **environment(str(fabric.device)),
        "seconds": sum(outcome.seconds),
        "updates": outcome.updates,
        "ms_per_update": 1e3 * sum(outcome.seconds) / max(outcome.updates, 1),
        "folder": str(job.folder),
    }
    return Run(spec, outcome.status, outcome.epochs, outcome.seconds, machine)


def _fabric(job: Job) -> Fabric:
    strategy: Any = job.strategy
    if strategy == "fsdp":  # torch's own FSDP2, which Fabric names by what it is used for
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
    return fully_shard(model, mesh=mesh["data_parallel"])


def _lock(folder: Path) -> Any:
    """Held until it is closed, or the process ends however it may."""
    try:
        file = (folder / "lock").open("w")
    except OSError as error:
        raise LabError(f"cannot write to {folder} ({error.strerror}).") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise BusyError(f"another process is at work on the run in {folder}.") from error
    except OSError as error:  # as on network disks that have no locks
        file.close()
        raise LabError(f"cannot lock {folder / 'lock'} ({error.strerror}).") from error
    return file


def line_of(file: Path, error: BaseException) -> int | None:
    """The line of the user's file in which an error arose, if it did in that file."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == str(file)
    ]
    return lines[-1] if lines else None
