"""A worker of the local engine: `python -m adamomentum_lab.engine.worker DESCRIPTOR`.

DESCRIPTOR is the file descriptor of a socket to the driver. The driver sends its `sys.path`,
`sys.argv` and working directory, then one job at a time. Standard input is empty. Standard output
goes to the driver's standard error.

Each run has a process of its own: a fork of the worker, which has imported torch and run nothing.
So whatever a run changes, as the default dtype, the environment or a hook, ends with it. A run
leads its own process group, and what is left of the group is killed when the run ends. If a run
dies, its worker ends in the same way, which the driver sees.

A worker leads its own session, so Ctrl-C reaches the driver alone. On SIGTERM the run saves a
checkpoint at its next update, and the worker ends. So it does if the driver dies; then the run is
killed after `GRACE` seconds, whatever it is doing.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import os
import pickle
import resource
import signal
import socket
import sys
import time
from multiprocessing.connection import Connection, wait

from adamomentum_lab.engine.messages import Begun, Message, Ready, Surroundings
from adamomentum_lab.identity import FAMILY

GRACE = 5.0
"""Seconds that a run has for its last update and checkpoint after the driver died."""
LEARNED = ("torch", "triton", "numpy", "scipy", "sklearn", "joblib", *FAMILY)
"""Packages whose modules a worker imports once a run has needed them, so that later runs have them.
Importing them runs nothing."""
_LIMIT = 60_000  # bytes of names of modules, which a pipe takes without a reader


class Worker:
    """Forks a process for each job, and watches it and the driver."""

    def __init__(self, channel: Connection) -> None:
        self._channel = channel
        self._driver = os.getppid()
        self._run: tuple[int, int] | None = None  # its process, and where it says that it is done
        self._jobs: list[bytes] = []  # pickled, since the worker itself imports nothing of users
        self._stopping = False

    def work(self) -> None:
        """Do jobs until told to stop."""
        woken, waker = socket.socketpair()
        woken.setblocking(False)
        waker.setblocking(False)
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        self._send(Ready())
        while self._run or not self._stopping:
            wait([self._channel, woken], 1.0)
            with contextlib.suppress(BlockingIOError):
                woken.recv(4096)
            # A child that the driver forked may keep the socket open, so check the parent too.
            if os.getppid() != self._driver or not self._receive():
                self._leave()
            self._reap()
            if self._jobs and not self._run and not self._stopping:
                self._start(self._jobs.pop())

    def _receive(self) -> bool:
        """Take what the driver has sent; whether it is still there."""
        try:
            while self._channel.poll():
                self._jobs.append(self._channel.recv_bytes())
        except (EOFError, OSError):
            return False
        return True

    def _stop(self, *_: object) -> None:
        self._stopping = True
        if self._run:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._run[0], signal.SIGTERM)

    def _send(self, message: Message | Ready) -> None:
        try:
            self._channel.send(message)
        except OSError:  # the driver is gone
            self._stopping = True

    def _start(self, job: bytes) -> None:
        done, theirs = os.pipe()
        worker = os.getpid()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.setpgid(0, 0)
                _die_with_parent()
                if os.getppid() == worker:
                    self._train(job, theirs)
                    status = 0
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:
                os._exit(status)
        os.close(theirs)
        os.set_blocking(done, False)
        with contextlib.suppress(OSError):  # whoever is first
            os.setpgid(pid, pid)
        self._run = pid, done
        if self._stopping:  # the signal may have come before there was a run
            self._stop()

    def _train(self, job: bytes, done: int) -> None:
        """In the process of a run."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        from adamomentum_lab.engine.driver import run_job

        before = set(sys.modules)
        self._send(Begun(os.getpid()))
        run_job(pickle.loads(job), self._send, lambda: self._stopping)
        new = [name for name in sys.modules if name not in before and _is_learned(name)]
        os.write(done, f" {' '.join(new)}".encode()[:_LIMIT])
        with contextlib.suppress(Exception):
            atexit._run_exitfuncs()
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()

    def _reap(self) -> None:
        """If the run has ended, end what it left, and end as it did if it died."""
        if self._run is None:
            return
        pid, done = self._run
        ended, status = os.waitpid(pid, os.WNOHANG)
        if not ended:
            return
        self._run = None
        _kill_group(pid)
        words = b""
        with contextlib.suppress(BlockingIOError):
            words = os.read(done, _LIMIT)
        os.close(done)
        if not words:
            _end_like(status)
        for name in words.decode().split(" "):
            if _is_learned(name):
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
        gc.freeze()

    def _leave(self) -> None:
        """End after the driver's death, with everything that was started."""
        self._stop()
        end = time.monotonic() + GRACE
        while self._run and time.monotonic() < end:
            ended, _ = os.waitpid(self._run[0], os.WNOHANG)
            if ended:
                break
            time.sleep(0.02)
        if self._run:
            _kill_group(self._run[0])
        os.killpg(os.getpid(), signal.SIGKILL)


def _is_learned(module: str) -> bool:
    return module.startswith(LEARNED)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


def _end_like(status: int) -> None:
    """End this process as another one did."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError, ValueError):  # no handler of SIGKILL
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _die_with_parent() -> None:
    """Have Linux kill this process if its parent dies."""
    pr_set_pdeathsig = 1
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def main() -> None:
    """Take over the driver's working directory and module path, then work."""
    channel = Connection(int(sys.argv[1]))
    os.set_inheritable(channel.fileno(), False)
    given: Surroundings = channel.recv()
    sys.path[:], sys.argv[:] = given.path, given.argv
    os.chdir(given.folder)
    # Both import torch, which takes seconds. Every optimizer of torch imports the second.
    importlib.import_module("adamomentum_lab.engine.driver")
    importlib.import_module("torch._dynamo")
    from adamomentum_lab.engine.environment import look_around

    look_around()
    os.dup2(1, 2)  # until now, standard error went to a file, in case the start fails
    sys.stdout = sys.stderr  # line buffered
    gc.collect()
    gc.freeze()
    Worker(channel).work()


if __name__ == "__main__":
    main()
