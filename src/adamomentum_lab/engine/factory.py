"""Make an engine by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from adamomentum_lab.errors import LabError, unknown

if TYPE_CHECKING:
    from adamomentum_lab.engine.devices import Kind
    from adamomentum_lab.engine.driver import Driver
    from adamomentum_lab.engine.store import Store

ENGINES = ("local", "ray")


def make_engine(
    name: str,
    store: Store,
    say: Callable[[str], None],
    *,
    jobs: int | None = None,
    address: str | None = None,
    cpus: float = 1.0,
    gpus: float = 0.0,
    device: Kind = "cpu",
    runs_per_device: int = 1,
) -> Driver:
    """Import and make the engine of this name.

    Args:
        name: one of `ENGINES`.
        store: where runs are stored.
        say: called with each line for the user.
        jobs: parallel runs; None is as many as there is room for.
        address: address of a Ray cluster, such as 10.0.0.1:6379. None uses $RAY_ADDRESS, or else
            starts Ray on this machine.
        cpus: CPUs for each run (Ray only).
        gpus: GPUs for each run (Ray only).
        device: the kind of device of every run.
        runs_per_device: how many runs share a GPU (not Ray).
    """
    if name == "local":
        from adamomentum_lab.engine.devices import slots
        from adamomentum_lab.engine.local import Local

        places = slots(device, jobs, runs_per_device)
        engine = Local(store, len(places), say)
        engine.slots = places
        return engine
    if name == "ray":
        from adamomentum_lab.engine.ray import Ray

        return Ray(store, say, address, cpus, gpus, jobs)
    raise LabError(unknown("engine", name, ENGINES))
