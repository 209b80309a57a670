"""Many runs on the machines of a Ray cluster: tasks of Ray's, each one run.

A task streams its messages to the driver, which alone writes the store. What it needs of the
driver's files comes along with it, or is found under the same path.
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
from adamomentum_lab.engine.driver import Driver, stream_job
from adamomentum_lab.engine.events import RunEnded
from adamomentum_lab.engine.job import Job
from adamomentum_lab.engine.messages import Died, Failed, Message, Progress, Ready
from adamomentum_lab.engine.store import Store
from adamomentum_lab.errors import LabError
from adamomentum_lab.files import translate_errors, write

# Before Ray is imported. Nothing is reported to its makers; and where a run asks for no GPU, Ray
# leaves CUDA_VISIBLE_DEVICES as it is, which spares a warning that it will do so one day.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
try:
    import ray
    from ray import exceptions
except ModuleNotFoundError as missing:
    raise LabError("--engine ray needs Ray: pip install 'adamomentum[ray]'") from missing

STORE_BYTES = 100 * 2**20  # Ray's memory for objects, of which messages need next to nothing
PATIENCE = 120.0  # seconds until it is said that nothing begins
_LOOK = 5.0  # seconds between two looks at what nodes there are


@dataclass(frozen=True)
class _Parcel:
    """A job, and what it needs of the driver's machine."""

    job: Job
    content: bytes | None
    """Of the user's file; None if the workload is the lab's own."""
    environment: dict[str, str]
    """The driver's ADAMOMENTUM_*, for nodes that have none of their own."""


class _Flag:
    """An actor: whether the driver wants its workers to stop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    async def set(self) -> None:
        """They shall."""
        self._event.set()

    async def wait(self) -> bool:
        """Whether they shall, as soon as they shall; after some seconds that they shall not, as
        who asks may have ended since."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._event.wait(), timeout=5)
        return self._event.is_set()


def _work(parcel: _Parcel, flag: Any) -> Iterator[Message | Ready]:
    """A task: one run. It trains in a thread of its own, so that its epochs can be told."""
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
            case Failed(fault):  # by the name that the user knows
                here = _workload_file(parcel.job.reference)
                why = str(fault).replace(str(here), str(parcel.job.reference.file))
                message = Failed(LabError(why))
        if message is not None:
            yield message
        if not stopping.is_set() and ray.wait([answer], timeout=0)[0]:
            stop = True
            with contextlib.suppress(exceptions.RayError):  # the driver is gone, and its flag too
                stop = ray.get(answer)
            if stop:
                stopping.set()
            else:
                answer = flag.wait.remote()


def _unpack_job(parcel: _Parcel) -> Job:
    """The job with this node's own files and folder."""
    job = parcel.job
    for name, value in parcel.environment.items():
        os.environ.setdefault(name, value)
    folder = job.folder
    if not folder.is_dir():  # no file system is shared: this node's own disk
        short = hashlib.sha256(str(folder.parent).encode()).hexdigest()[:8]
        folder = _cache() / "runs" / short / folder.name
        with translate_errors(folder, "cannot write to", f" on {platform.node()}."):
            folder.mkdir(parents=True, exist_ok=True)
    return replace(job, reference=_unpack(job.reference, parcel.content), folder=folder)


def _unpack(reference: Reference, content: bytes | None) -> Reference:
    """The same workload on this node, by the same code or not at all."""
    file = reference.file
    if content is not None and not (file.is_file() and file.read_bytes() == content):
        file = _workload_file(reference)
        write(file, content)
    here = find_workload(reference.name if content is None else str(file))
    if here.code != reference.code:
        raise LabError(
            f"adamomentum on {platform.node()} is not the one that started the race: its code for "
            f"{reference.name} differs. Install the same on every node."
        )
    return here


def _workload_file(reference: Reference) -> Path:
    return _cache() / "workloads" / reference.code / reference.file.name


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "adamomentum"


class Ray(Driver):
    """The engine of a Ray cluster.

    Args:
        store: as in every engine.
        say: where to tell the user.
        address: of a cluster, as `ray start` shows it; None takes $RAY_ADDRESS, or starts a Ray of
            its own on this machine.
        cpus: for each run, which has as many threads; may be less than 1.
        gpus: for each run, 1 at most; may be less than 1. Where it is 0, runs are the CPU's.
        jobs: runs at a time; None stands for as many as there is room for.
    """

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
            signal.signal(signal.SIGTERM, before)  # Ray has set its own
        try:
            self._look()
        except BaseException:
            ray.shutdown()
            raise
        needs = {"num_cpus": self._cpus, "num_gpus": self._gpus}
        self._task = ray.remote(**needs, max_retries=0, num_returns="streaming")(_work)
        # As many may ask it at once as there are runs.
        self._flag = ray.remote(num_cpus=0, max_concurrency=10_000)(_Flag).remote()
        return self

    def _look(self) -> None:
        """Count how many runs the nodes have room for; there must be a node that has."""
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        wanted = {"CPU": self._cpus, "GPU": self._gpus}

        def room(node: dict[str, float]) -> int:
            # Sums of tenths are not exact.
            return min(int(node.get(key, 0) / x + 1e-6) for key, x in wanted.items() if x)

        self._slots = sum(map(room, nodes))
        self._looked = time.monotonic()
        if not self._slots and not self._running:
            asked = " and ".join(f"{x:g} {key}" for key, x in wanted.items() if x)
            have = [", ".join(f"{node.get(key, 0):g} {key}" for key in wanted) for node in nodes]
            raise LabError(
                f"no node of the Ray cluster has {asked}, which each run shall have (the nodes "
                f"have {'; '.join(have) or 'nothing'}): fewer with --cpus-per-run or "
                "--gpus-per-run would do."
            )

    def _room(self, waiting: int) -> int:
        if self._jobs is None and time.monotonic() - self._looked > _LOOK:
            self._look()  # nodes come and go
        return min(waiting, (self._jobs or self._slots) - len(self._running))

    def _give(self, job: Job) -> None:
        if not self._running:
            self._heard = time.monotonic()
        content = None if job.reference.module else job.reference.file.read_bytes()
        given = {key: value for key, value in os.environ.items() if key.startswith("ADAMOMENTUM_")}
        folder, threads = job.folder.resolve(), max(1, int(self._cpus))
        device = "cuda" if self._gpus else "cpu"
        job = replace(job, folder=folder, threads=threads, device=device)
        self._running[self._task.remote(_Parcel(job, content, given), self._flag)] = job

    def _hear(self) -> Iterator[tuple[Job, Message]]:
        if not self._running:
            return
        ready, _ = ray.wait(list(self._running), timeout=1.0)
        if not ready and not self._begun and time.monotonic() - self._heard > PATIENCE:
            self.say("No run has begun yet; `ray status` shows what the cluster is busy with.")
            self._begun = True
        for task in ready:
            message = _next(task)
            if isinstance(message, Ready):
                self._begun = True
                continue
            job = self._running[task]
            if not isinstance(message, Progress):
                del self._running[task]
            yield job, message

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
    """The next message of a task, or how it ended without a last one."""
    try:
        message: Message | Ready = ray.get(next(task))
    except (StopIteration, exceptions.WorkerCrashedError):
        return Died("its process ended")
    except exceptions.OutOfMemoryError:
        return Died("Ray ended its process, as the node was out of memory")
    except exceptions.NodeDiedError:
        return Died("its node was lost")
    except exceptions.RayTaskError as error:  # it could not even begin, as without the package
        return Failed(LabError(str(error).strip().splitlines()[-1]))
    except exceptions.RayError as error:
        return Died(f"{type(error).__name__}: {str(error).splitlines()[0]}")
    return message


def _init(address: str, cpus: float, jobs: int | None) -> None:
    """Join a cluster, or start Ray here."""
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
            raise LabError(f"Ray does not start here ({why}).") from error
        raise LabError(
            f"cannot join the Ray cluster at {address} ({why}); `ray start --head` on one machine "
            "starts a cluster and shows the address, as 10.0.0.1:6379, and this command runs on "
            "one of its nodes."
        ) from error


def _check(address: str) -> None:
    """Ray itself waits long for an answer, and then ends the process."""
    host, _, port = address.rpartition(":")
    if "/" in address or not host or not port.isdigit():
        right = "it is one as 10.0.0.1:6379, or auto, and the command runs on one of the cluster's"
        raise LabError(f"{address!r} is no address of a Ray cluster; {right} nodes.")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        start = "`ray start --head` on one machine starts one and shows its address"
        raise LabError(f"no Ray cluster answers at {address} ({error}); {start}.") from error
