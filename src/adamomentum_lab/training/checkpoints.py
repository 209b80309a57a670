"""Checkpoints that survive damage, and a kill at any time."""

from __future__ import annotations

import hashlib
import io
import os
import time
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from adamomentum_lab.files import read, translate_errors, writing


class Checkpoints:
    """The last two checkpoints of a run, in its folder.

    A file holds a SHA-256 digest, then what torch.save wrote. It is written under a temporary name,
    flushed to the disk and renamed, so no checkpoint is ever half written.

    Args:
        folder: the folder of the run.
        run: its id, which its checkpoints carry. Those of another run are not used.
    """

    def __init__(self, folder: Path, run: str = "") -> None:
        self.run = run
        self.last = folder / "last.ckpt"
        self.previous = folder / "previous.ckpt"
        self.seconds = 0.0
        """What the disk took for the last one."""
        self._thread = ThreadPoolExecutor(1)
        self._writing: Future[None] | None = None

    def save(
        self, state: Mapping[str, object], *, wait: bool = True, finished: bool = False
    ) -> None:
        """Write a checkpoint. The last one becomes the previous one.

        Args:
            state: what to save. It is copied before this returns.
            wait: whether to wait for the disk. Otherwise a thread writes, and an error of it is
                raised by the next call.
            finished: whether it is the last of its run. Then the previous one is removed.
        """
        self.wait()
        buffer = io.BytesIO()
        torch.save({**state, "run": self.run} if self.run else state, buffer)
        if not wait:
            self._writing = self._thread.submit(self._write, buffer.getbuffer())
            return
        self._write(buffer.getbuffer())
        if finished:
            self.previous.unlink(missing_ok=True)

    def wait(self) -> None:
        """Wait until the last checkpoint is on the disk."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _write(self, content: memoryview) -> None:
        started = time.monotonic()
        kept = "; earlier checkpoints are kept."
        with (
            translate_errors(self.last, "cannot write the checkpoint", kept),
            writing(self.last, self.previous) as file,
        ):
            file.write(hashlib.sha256(content).digest())
            file.write(content)
        self.seconds = time.monotonic() - started

    def discard(self) -> None:
        """Remove all of them."""
        self.wait()
        for file in (self.last, self.previous):
            file.unlink(missing_ok=True)

    def load(self, fits: Callable[[Mapping[str, Any]], bool] = lambda _: True) -> Any:
        """Return the newest undamaged checkpoint that fits, or None. Loading it cannot run code."""
        self.wait()
        for file in (self.last, self.previous):
            if not os.path.lexists(file):
                continue
            state, fault = self._read(file, fits)
            if state is not None:
                return state
            warnings.warn(f"{file} {fault}; an older checkpoint is used", stacklevel=2)
        return None

    def faults(self) -> dict[Path, str]:
        """What is wrong with those that cannot be used."""
        files = [file for file in (self.last, self.previous) if os.path.lexists(file)]
        found = {file: self._read(file, has_parts) for file in files}
        return {file: fault for file, (state, fault) in found.items() if state is None}

    def _read(
        self, file: Path, fits: Callable[[Mapping[str, Any]], bool]
    ) -> tuple[dict[str, Any] | None, str]:
        """A checkpoint, or why it cannot be used."""
        try:
            content = read(file)
        except OSError as error:
            return None, f"cannot be read ({error.strerror or error})"
        if hashlib.sha256(content[32:]).digest() != content[:32]:
            return None, "is damaged"
        try:
            buffer = io.BytesIO(content[32:])
            state = torch.load(buffer, map_location="cpu", weights_only=True)
        except Exception as error:  # pickles fail in any way
            return None, f"is no checkpoint ({type(error).__name__})"
        run = state.get("run", self.run) if isinstance(state, dict) else None
        if run is None or not fits(state):
            return None, "does not fit the run"
        if self.run and run != self.run:
            return None, "belongs to another run"
        return state, ""


def has_parts(state: Mapping[str, Any]) -> bool:
    """Return whether a checkpoint has the parts of the loop, each of the right type."""
    kinds: dict[str, type | tuple[type, ...]] = {
        "epoch": int, "update": int, "clock": (int, float), "loss": Tensor,
        "status": str, "epochs": list, "seconds": list, "updates": int,
    }  # fmt: skip
    return all(isinstance(state.get(key), kind) for key, kind in kinds.items())


OPTIMIZERS = ("optimizer", "optimizers")
"""Parts of a checkpoint that a finished run does not keep: neither reports nor landscapes need
them, and they are two thirds of it."""
_VARYING = ("state", "past", "start", "average")
"""Parts of a checkpoint that an older one of the same run may not have."""


def is_like(found: Any, own: Any) -> bool:
    """Return whether a part of a checkpoint has the names, lengths and shapes of our own."""
    if isinstance(own, Mapping):
        names = [name for name in own if name not in _VARYING]
        return isinstance(found, Mapping) and all(
            name in found and is_like(found[name], own[name]) for name in names
        )
    if isinstance(own, (list, tuple)):
        return (
            isinstance(found, (list, tuple))
            and len(found) == len(own)
            and all(map(is_like, found, own))
        )
    return not isinstance(own, Tensor) or (isinstance(found, Tensor) and found.shape == own.shape)
