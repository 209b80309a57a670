"""What may differ between two identical runs: the machine, its software, its threads."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
from pathlib import Path
from typing import TypedDict

import adamomentum


class Machine(TypedDict, total=False):
    """What a run tells of where it was done. Old runs tell less."""

    adamomentum: str
    commit: str | None
    torch: str
    python: str
    platform: str
    processor: str | None
    processors: int | None
    threads: int
    device: str
    engine: str
    """Where it was not the local one."""
    node: str
    """Of a cluster."""
    folder: str
    """Of the checkpoints."""
    seconds: float
    """Of training, all epochs together."""
    updates: int
    ms_per_update: float


def environment(device: str) -> Machine:
    """Versions, the commit of the sources, processor and threads."""
    import torch  # here, as reading old runs needs none

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


@functools.cache
def _processor() -> str | None:
    """Its name, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor()) or None


@functools.cache
def _commit() -> str | None:
    """Of the repository this file belongs to, if to one; changed files are marked by a plus."""
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
