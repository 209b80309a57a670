"""Checkpoints that survive a kill at any instant, and damage."""

from __future__ import annotations

import hashlib
import io
import warnings
from pathlib import Path
from typing import Any

import torch

from adamomentum_lab.files import translate_errors, writing


class Checkpoints:
    """The last checkpoint of a run and the one before it, in a folder of their own.

    A file is the SHA-256 of the rest and what torch.save wrote. It is written beside, flushed to
    the disk and renamed, so that a name never stands for half a file.
    """

    def __init__(self, folder: Path) -> None:
        self.last = folder / "last.ckpt"
        self.previous = folder / "previous.ckpt"

    def save(self, state: object) -> None:
        """Write a checkpoint; the last one becomes the previous."""
        buffer = io.BytesIO()
        torch.save(state, buffer)
        content = buffer.getbuffer()
        kept = "; the ones before it are kept."
        with (
            translate_errors(self.last, "cannot write the checkpoint", kept),
            writing(self.last, self.previous) as file,
        ):
            file.write(hashlib.sha256(content).digest())
            file.write(content)

    def load(self) -> Any:
        """What the newest checkpoint that is whole holds, or None. Nothing in it can run code."""
        for file in (self.last, self.previous):
            try:
                content = file.read_bytes()
            except FileNotFoundError:
                continue
            if hashlib.sha256(content[32:]).digest() == content[:32]:
                buffer = io.BytesIO(content[32:])
                return torch.load(buffer, map_location="cpu", weights_only=True)
            warnings.warn(f"{file} is damaged; an older checkpoint is used", stacklevel=2)
        return None
