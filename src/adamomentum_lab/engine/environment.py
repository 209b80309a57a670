"""What may differ between two runs of one specification: machine, software and threads."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
from pathlib import Path
from typing import TypedDict

import adamomentum


class Machine(TypedDict, total=False):
    """Where a run was done. Old runs have fewer keys."""

    adamomentum: str
    commit: str | None
    torch: str
    python: str
    platform: str
    processor: str | None
    processors: int | None
    threads: int
    device: str
    resolution: float
    """The smallest difference of test scores that means anything."""
    engine: str
    """The name of the engine, unless it was the local one."""
    node: str
    """The name of the node of a cluster."""
    folder: str
    """The folder of the checkpoints."""
    seconds: float
    """Training time of all epochs."""
    updates: int
    ms_per_update: float


def environment(device: str) -> Machine:
    """Return versions, the commit of the sources, the processor and threads."""
    import torch  # not at the top: reading stored runs must not import torch

    return {
        "adamomentum": adamomentum.__version__,
        "commit": _commit(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": _processor(),
        "processors": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": device,
    }


def look_around() -> None:
    """Learn once what all runs of a process and its forks have in common."""
    _processor()
    _commit()


@functools.cache
def _processor() -> str | None:
    """Return the name of the processor, if the system knows it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor()) or None


@functools.cache
def _commit() -> str | None:
    """Return the commit of this file's git repository, with a plus if files have changed."""
    file = Path(__file__)

    def git(*words: str) -> str:
        command = ["git", *words]
        return subprocess.check_output(
            command, cwd=file.parent, stderr=subprocess.DEVNULL, text=True, timeout=10
        )

    try:
        git("ls-files", "--error-unmatch", file.name)
        return git("describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*").strip()
    except (OSError, subprocess.SubprocessError):
        return None
