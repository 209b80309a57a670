"""Standard output and error that end no race: where they are gone, what is written is dropped."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Any


class Steady(io.TextIOBase):
    """A text stream that drops what cannot be written, and remembers why."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.fault: str | None = None
        """Why something was lost; None if nothing was."""

    def write(self, text: str) -> int:
        """Write, if that is possible."""
        if self.fault is None:
            with self._noting():
                self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush, if that is possible."""
        if self.fault is None:
            with self._noting():
                self._stream.flush()

    @contextlib.contextmanager
    def _noting(self) -> Any:
        try:
            yield
        except (OSError, ValueError) as error:  # a ValueError if it is closed
            self.fault = getattr(error, "strerror", None) or str(error)

    def fileno(self) -> int:
        """The descriptor."""
        return int(self._stream.fileno())

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        with contextlib.suppress(OSError, ValueError):
            return bool(self._stream.isatty())
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def steady_output() -> tuple[Steady, Steady]:
    """Make standard output and error steady, for the rest of this process.

    What is closed becomes /dev/null: a file that is opened later must not take its descriptor, and
    get what is printed.
    """
    closed = []
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest that is free, which is this one
            closed.append(number)
    made = []
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None:
            stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        if isinstance(stream, io.TextIOWrapper):  # names and messages of users may be any text
            stream.reconfigure(errors="backslashreplace")
        steady = Steady(stream)
        if number in closed:
            steady.fault = "it is closed"
        setattr(sys, name, steady)
        made.append(steady)
    return made[0], made[1]


def leave_quietly(*streams: Steady) -> None:
    """Flush, so that Python has nothing left to complain of when it ends."""
    for stream in streams:
        stream.flush()
        if stream.fault is not None:
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
