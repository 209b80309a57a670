"""A worker of the local engine: `python -m adamomentum_lab.engine.worker DESCRIPTOR`.

DESCRIPTOR is the file descriptor of a socket to the driver. The driver sends its `sys.path`,
`sys.argv` and working directory, then one job at a time. The worker sends back messages. Standard
input is empty. Standard output goes to the driver's standard error.

A worker leads its own process group, so Ctrl-C reaches the driver alone. On SIGTERM it saves a
checkpoint at the next update and ends. It does the same if the driver dies, and then kills its
whole process group, after `GRACE` seconds at the latest.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import sys
import threading
from multiprocessing.connection import Connection

from adamomentum_lab.engine.messages import Message, Ready, Setting

GRACE = 5.0
"""Seconds that a run has for its last update and checkpoint after the driver died."""


class Worker:
    """The state that two threads share: one trains, the other listens to the driver."""

    def __init__(self, channel: Connection) -> None:
        self._channel = channel
        self._driver = os.getppid()
        # Jobs stay pickled here, since unpickling imports torch. None is the end.
        self._jobs: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._stopping = False
        self._alone = False  # the driver is gone
        self._finished = threading.Event()

    def work(self) -> None:
        """Do jobs until told to stop."""
        signal.signal(signal.SIGTERM, lambda *_: self._stop())
        listener = threading.Thread(target=self._listen, daemon=True)
        listener.start()
        from adamomentum_lab.engine.driver import run_job  # imports torch, which takes seconds

        os.dup2(1, 2)  # until now, standard error went to a file, in case the start fails
        sys.stdout = sys.stderr  # line buffered
        self._send(Ready())
        try:
            while (job := self._jobs.get()) is not None and not self._stopping:
                run_job(pickle.loads(job), self._send, lambda: self._stopping)
        finally:
            self._finished.set()
            if self._alone:
                listener.join()

    def _stop(self) -> None:
        self._stopping = True
        self._jobs.put(None)

    def _send(self, message: Message | Ready) -> None:
        try:
            self._channel.send(message)
        except OSError:
            self._alone = True
            self._stop()

    def _listen(self) -> None:
        """Receive jobs until the driver dies, then kill the process group."""
        try:
            # A child that the driver forked may keep the socket open, so check the parent too.
            while os.getppid() == self._driver:
                if self._channel.poll(1.0):
                    self._jobs.put(self._channel.recv_bytes())
        except (EOFError, OSError):
            pass
        self._alone = True
        self._stop()
        self._finished.wait(GRACE)
        os.killpg(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Take over the driver's working directory and module path, then work."""
    channel = Connection(int(sys.argv[1]))
    os.set_inheritable(channel.fileno(), False)
    setting: Setting = channel.recv()
    sys.path[:], sys.argv[:] = setting.path, setting.argv
    os.chdir(setting.folder)
    Worker(channel).work()


if __name__ == "__main__":
    main()
