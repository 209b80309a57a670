"""A worker of the local engine: `python -m adamomentum_lab.engine.worker DESCRIPTOR`.

The descriptor is one end of a socket. Over it come `sys.path`, `sys.argv` and the folder of the
driver, then jobs, one at a time; epochs and results go back. Standard input is empty, and standard
output is the driver's standard error, so that a user's file cannot disturb the socket.

A worker leads a process group of its own: Ctrl-C reaches the driver alone. On SIGTERM its run stops
at the next update, with a checkpoint. The same happens when the driver is gone, however it ended;
the worker then kills its whole group, after `GRACE` seconds at the latest.
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
"""Seconds that a run has for its last update and checkpoint once the driver is gone."""


class Worker:
    """What the two threads share: one trains, the other listens to the driver."""

    def __init__(self, channel: Connection) -> None:
        self._channel = channel
        self._driver = os.getppid()
        # Pickled, as to load one imports torch; None is the end.
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

        os.dup2(1, 2)  # until here the driver has kept standard error, in case of a bad start
        sys.stdout = sys.stderr  # written line by line
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
        """Take in jobs until the driver is gone, then see to it that nothing is left."""
        try:
            # A process that the driver forked may hold its end of the socket open.
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
    """Begin where the driver is: in its folder, with its modules."""
    channel = Connection(int(sys.argv[1]))
    os.set_inheritable(channel.fileno(), False)
    setting: Setting = channel.recv()
    sys.path[:], sys.argv[:] = setting.path, setting.argv
    os.chdir(setting.folder)
    Worker(channel).work()


if __name__ == "__main__":
    main()
