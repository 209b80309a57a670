"""Checkpoints that survive a kill at any instant, and damage."""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from pathlib import Path
from typing import Any

import torch

from adamomentum_lab.errors import LabError


class Checkpoints:
    """The last checkpoint of a run and the one before it, in a folder of their own.

    A file is the SHA-256 of the rest and what torch.save wrote. It is written beside, flushed to
    the disk and renamed, so that a name never stands for half a file.
    """

    def __init__(self, folder: Path) -> None:
        self.last = folder / "last.ckpt"
        self.previous = folder / "previous.ckpt"

    def save(self, state: dict[str, Any]) -> None:
        """Write a checkpoint; the last one becomes the previous."""
        buffer = io.BytesIO()
        torch.save(state, buffer)
        content = buffer.getbuffer()
        beside = self.last.with_suffix(".tmp")
        try:
            with beside.open("wb") as file:
                file.write(hashlib.sha256(content).digest())
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if self.last.exists():
                self.last.replace(self.previous)
            beside.replace(self.last)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise LabError(
                f"cannot write the checkpoint {self.last} ({error.strerror}); "
                "the ones before it are kept."
            ) from error

    def load(self) -> dict[str, Any] | None:
        """The newest checkpoint that is whole, or None. Nothing in it can run code."""
        for file in (self.last, self.previous):
            try:
                content = file.read_bytes()
            except FileNotFoundError:
                continue
            if hashlib.sha256(content[32:]).digest() == content[:32]:
                loaded: dict[str, Any] = torch.load(
                    io.BytesIO(content[32:]), map_location="cpu", weights_only=True
                )
                return loaded
            warnings.warn(f"{file} is damaged; an older checkpoint is used", stacklevel=2)
        return None
