"""The engine of a Ray cluster: each run is a Ray task.

A task streams its messages to the driver, and only the driver writes the store. The user's file is
sent along with each task, unless the node has it under the same path.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import math
import os
import platform
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from adamomentum_lab.catalog import Reference, find_workload
from adamomentum_lab.contender import Entry
from adamomentum_lab.engine.driver import Driver, stream_job
from adamomentum_lab.engine.events import RunEnded
from adamomentum_lab.engine.job import Job
from adamomentum_lab.engine.messages import Begun, Died, Failed, Message, Progress, Ready
from adamomentum_lab.engine.store import Store
from adamomentum_lab.errors import LabError
from adamomentum_lab.files import translate_errors, write
from adamomentum_lab.identity import digest
from adamomentum_lab.training.feed import CORES

# Set before Ray is imported. The first turns usage reports off. The last leaves
# CUDA_VISIBLE_DEVICES as it is if a run needs no GPU, which silences a warning of Ray's.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("PYTHONHASHSEED", "0")  # as in local workers
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
try:
    import ray
    from ray import exceptions
except ModuleNotFoundError as missing:
    raise LabError("--engine ray needs Ray: pip install 'adamomentum[ray]'") from missing

STORE_BYTES = 100 * 2**20  # Ray's memory for objects; messages need almost none
PATIENCE = 120.0  # seconds without a started run until the user gets a hint
_LOOK = 5.0  # seconds between two looks at the nodes of the cluster


@dataclass(frozen=True)
class _Parcel:
    """A job, and what it needs from the driver's machine."""

    job: Job
    content: bytes | None
    """The content of the user's file; None if the workload is installed."""
    entry_content: bytes | None
    """The content of the user's file with the optimizer; None if there is none."""
    environment: dict[str, str]
    """The driver's variables ADAMOMENTUM_*. Those of a node take precedence."""


class _Flag:
    """A Ray actor that tells workers when the driver wants them to stop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    async def set(self) -> None:
        """Tell the workers to stop."""
        self._event.set()

    async def wait(self) -> bool:
        """Return True once workers should stop, or False after five seconds.

        It does not wait longer, since the task that asks may have ended.
        """
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._event.wait(), timeout=5)
        return self._event.is_set()


def _work(parcel: _Parcel, flag: Any) -> Iterator[Message | Ready]:
    """The Ray task of one run. It trains in another thread, so that it can send messages."""
    yield Ready()
    try:
        job = _unpack_job(parcel)
    except (LabError, OSError) as error:
        yield Failed(LabError(str(error)))
        return
    stopping = threading.Event()
    answer = flag.wait.remote()
    for message in stream_job(job, stopping.is_set):
        match message:
            case RunEnded(run=run):
                run.machine |= {"engine": "ray", "node": platform.node()}
            case Failed(fault):  # name the user's file, not its copy on this node
                here = _workload_file(parcel.job.reference)
                why = str(fault).replace(str(here), str(parcel.job.reference.file))
                message = Failed(LabError(why))
        if message is not None:
            yield message
        if not stopping.is_set() and ray.wait([answer], timeout=0)[0]:
            stop = True
            with contextlib.suppress(exceptions.RayError):  # the driver is dead, and its flag too
                stop = ray.get(answer)
            if stop:
                stopping.set()
            else:
                answer = flag.wait.remote()


def _unpack_job(parcel: _Parcel) -> Job:
    """Return the job with the files and folders of this node."""
    job = parcel.job
    for name, value in parcel.environment.items():
        os.environ.setdefault(name, value)
    folder = job.folder
    if not folder.is_dir():  # no shared file system: use the disk of this node
        short = hashlib.sha256(str(folder.parent).encode()).hexdigest()[:8]
        folder = _cache() / "runs" / short / folder.name
        with translate_errors(folder, "cannot write to", f" on {platform.node()}."):
            folder.mkdir(parents=True, exist_ok=True)
    reference = _unpack(job.reference, parcel.content)
    entry = _unpack_entry(job.entry, parcel.entry_content)
    return replace(job, reference=reference, entry=entry, folder=folder)


def _unpack(reference: Reference, content: bytes | None) -> Reference:
    """Return the same workload on this node; a LabError if its code differs here."""
    file = reference.file
    if content is not None and not (file.is_file() and file.read_bytes() == content):
        file = _workload_file(reference)
        write(file, content)
    here = find_workload(reference.name if content is None else str(file))
    if here.code != reference.code:
        raise LabError(
            f"the code of {reference.name} on the node {platform.node()} differs from the code "
            "that started the race. Install the same version of adamomentum on every node."
        )
    return here


def _unpack_entry(entry: Entry | None, content: bytes | None) -> Entry | None:
    """The same optimizer on this node, by the same code or not at all."""
    if entry is None or entry.file is None or content is None:
        return entry
    file = entry.file
    if not (file.is_file() and file.read_bytes() == content):
        file = _cache() / "optimizers" / entry.code / file.name
        write(file, content)
    if digest(file) != entry.code:
        raise LabError(
            f"{entry.label} imports modules that {platform.node()} does not have so; install the "
            "same on every node."
        )
    return replace(entry, target=entry.target.replace(entry.file.as_posix(), file.as_posix(), 1))


def _workload_file(reference: Reference) -> Path:
    return _cache() / "workloads" / reference.code / reference.file.name


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "adamomentum"


class Ray(Driver):
    """The engine of a Ray cluster.

    Args:
        store: where runs are stored.
        say: called with each line for the user.
        address: address of the cluster, as `ray start` shows it. None uses $RAY_ADDRESS, or else
            starts Ray on this machine.
        cpus: CPUs, and threads, for each run. May be a fraction; a run has at least one thread.
        gpus: GPUs for each run, from 0 to 1. With 0, runs use the CPU.
        jobs: parallel runs; None is as many as there is room for.
    """

    here = False

    def __init__(
        self,
        store: Store,
        say: Callable[[str], None],
        address: str | None = None,
        cpus: float = 1.0,
        gpus: float = 0.0,
        jobs: int | None = None,
    ) -> None:
        super().__init__(store, say)
        self._address = address or os.environ.get("RAY_ADDRESS") or "local"
        self._cpus, self._gpus, self._jobs = cpus, gpus, jobs
        self._running: dict[Any, Job] = {}  # by the generator of a task's messages
        self._slots = 0
        self._looked = self._heard = -math.inf
        self._begun = False

    def __enter__(self) -> Ray:
        before = signal.getsignal(signal.SIGTERM)
        _init(self._address, self._cpus, self._jobs)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)  # Ray has installed its own handler
        try:
            self._look()
        except BaseException:
            ray.shutdown()
            raise
        needs = {"num_cpus": self._cpus, "num_gpus": self._gpus}
        # A run begins in a new process, whatever the one before did to its own.
        self._task = ray.remote(**needs, max_retries=0, max_calls=1, num_returns="streaming")(_work)
        # Every run may ask it at the same time.
        self._flag = ray.remote(num_cpus=0, max_concurrency=10_000)(_Flag).remote()
        return self

    def _look(self) -> None:
        """Count how many runs the nodes have room for. A LabError if no node can do a run."""
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        wanted = {"CPU": self._cpus, "GPU": self._gpus}

        def room(node: dict[str, float]) -> int:
            # The small number corrects rounding errors, as in 0.3 / 0.1.
            return min(int(node.get(key, 0) / x + 1e-6) for key, x in wanted.items() if x)

        self._slots = sum(map(room, nodes))
        self._looked = time.monotonic()
        if not self._slots and not self._running:
            asked = " and ".join(f"{x:g} {key}" for key, x in wanted.items() if x)
            have = [", ".join(f"{node.get(key, 0):g} {key}" for key in wanted) for node in nodes]
            raise LabError(
                f"no node of the Ray cluster has {asked}, which each run needs (the nodes have "
                f"{'; '.join(have) or 'nothing'}); lower --cpus-per-run or --gpus-per-run."
            )

    def _room(self, waiting: int) -> int:
        if self._jobs is None and time.monotonic() - self._looked > _LOOK:
            self._look()  # nodes may have joined or left
        return min(waiting, (self._jobs or self._slots) - len(self._running))

    def _give(self, job: Job) -> None:
        if not self._running:
            self._heard = time.monotonic()
        content = None if job.reference.module else job.reference.file.read_bytes()
        file = job.entry.file if job.entry else None
        entry_content = file.read_bytes() if file else None
        given = {key: value for key, value in os.environ.items() if key.startswith("ADAMOMENTUM_")}
        folder, threads = job.folder.resolve(), max(1, int(self._cpus))
        given.setdefault(CORES, str(threads))
        job = replace(job, folder=folder, threads=threads)
        self._running[
            self._task.remote(_Parcel(job, content, entry_content, given), self._flag)
        ] = job

    def _hear(self) -> Iterator[tuple[Job, Message]]:
        if not self._running:
            return
        ready, _ = ray.wait(list(self._running), timeout=1.0)
        if not ready and not self._begun and time.monotonic() - self._heard > PATIENCE:
            self.say("No run has started yet; `ray status` shows what the cluster is doing.")
            self._begun = True
        for task in ready:
            message = _next(task)
            job = self._running[task]
            if isinstance(message, Ready):
                self._begun = True
                message = Begun(0)
            if not isinstance(message, Progress):
                del self._running[task]
            yield job, message

    def _end(self, job: Job) -> None:
        [task] = [one for one, own in self._running.items() if own is job]
        del self._running[task]
        ray.cancel(task, force=True)

    def close(self) -> None:
        """Ask the workers to stop at their next update, with a checkpoint."""
        try:
            if self._running:
                self._flag.set.remote()
            end = time.monotonic() + 20
            while self._running and time.monotonic() < end:
                for task in ray.wait(list(self._running), timeout=0.5)[0]:
                    if not isinstance(_next(task), Ready | Progress):
                        del self._running[task]
        finally:
            ray.shutdown()


def _next(task: Any) -> Message | Ready:
    """Return the next message of a task, or one that says how the task died."""
    try:
        message: Message | Ready = ray.get(next(task))
    except (StopIteration, exceptions.WorkerCrashedError):
        return Died("its process ended")
    except exceptions.OutOfMemoryError:
        return Died("Ray killed its process because the node was out of memory")
    except exceptions.NodeDiedError:
        return Died("its node was lost")
    except exceptions.RayTaskError as error:  # it could not start: the package may be missing
        return Failed(LabError(str(error).strip().splitlines()[-1]))
    except exceptions.RayError as error:
        return Died(f"{type(error).__name__}: {str(error).splitlines()[0]}")
    return message


def _init(address: str, cpus: float, jobs: int | None) -> None:
    """Join a cluster, or start Ray on this machine."""
    own: dict[str, int] = {}
    if address == "local":
        jobs = jobs or max(1, int((os.cpu_count() or 1) / cpus))
        own = {"include_dashboard": False, "object_store_memory": STORE_BYTES}
        own["num_cpus"] = math.ceil(jobs * cpus)
    elif address != "auto":
        _check(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", **own)
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        why = lines[0].rstrip(".") if lines else type(error).__name__
        if address == "local":
            raise LabError(f"cannot start Ray on this machine ({why}).") from error
        raise LabError(
            f"cannot join the Ray cluster at {address} ({why}). `ray start --head` on one machine "
            "starts a cluster and shows its address, such as 10.0.0.1:6379. Run this command on "
            "one of its nodes."
        ) from error


def _check(address: str) -> None:
    """Raise a LabError if the address is wrong or does not answer.

    Ray itself would wait a long time, and then end the process.
    """
    host, _, port = address.rpartition(":")
    if "/" in address or not host or not port.isdigit():
        raise LabError(
            f"{address!r} is not the address of a Ray cluster. Use one such as 10.0.0.1:6379, or "
            "auto, and run the command on one of the cluster's nodes."
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        start = "`ray start --head` on one machine starts one and shows its address"
        raise LabError(f"no Ray cluster answers at {address} ({error}). {start}.") from error
