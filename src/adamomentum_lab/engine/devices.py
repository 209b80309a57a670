"""Which device each worker of this machine has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

from adamomentum_lab.errors import LabError, unknown

Kind = Literal["cpu", "cuda", "mps"]
DEVICES = ("auto", "cpu", "cuda", "mps")
PRECISIONS = ("32-true", "bf16-mixed", "16-mixed", "bf16-true", "16-true", "64-true")
VISIBLE = "CUDA_VISIBLE_DEVICES"


def choose(device: str) -> Kind:
    """Return the kind of device that a name stands for: `auto` is a GPU if there is one."""
    if device not in DEVICES:
        raise LabError(unknown("device", device, DEVICES))
    if device == "cpu":
        return "cpu"
    import torch

    here: dict[Kind, bool] = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if device == "auto":
        return next(kind for kind in here if here[kind])
    found: Kind = "cuda" if device == "cuda" else "mps"
    if not here[found]:
        there = next(kind for kind in here if here[kind])
        raise LabError(f"torch finds no {found} device here; use --device {there}.")
    return found


def slots(kind: Kind, jobs: int | None = None, runs_per_device: int = 1) -> list[dict[str, str]]:
    """Return, for each worker, the variables to set before it imports torch.

    A worker sees one GPU, so that it cannot take another. Workers are spread over the GPUs first.
    """
    if kind == "cpu":
        return [{} for _ in range(jobs or os.cpu_count() or 1)]
    places: list[dict[str, str]] = [{}]
    if kind == "cuda":
        places = [{VISIBLE: name} for name in _visible(os.environ)]
    found = [place for _ in range(runs_per_device) for place in places]
    return found[:jobs]


def _visible(environment: Mapping[str, str]) -> list[str]:
    """The names of the GPUs that this process may use."""
    import torch

    count = torch.cuda.device_count()
    given = environment.get(VISIBLE)
    names = [name.strip() for name in given.split(",")] if given else [str(i) for i in range(count)]
    return names[:count]
