"""What other packages add to the lab: workloads, rules, search grids, commands.

A package has an entry point in the group `adamomentum_lab` that names a `Plugin`. Nothing is
imported for it but the module of that entry point: its fields are data, or references such as
"package.module:name" that are imported when they are needed.
"""

from __future__ import annotations

import functools
import importlib
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from adamomentum_lab.errors import LabError

GROUP = "adamomentum_lab"


@dataclass(frozen=True)
class Plugin:
    """What a package adds. Every field may be left out."""

    workloads: str = ""
    """A package with one workload in each module."""
    commands: tuple[str, ...] = ()
    """Modules that add commands to `adamomentum_lab.commands.app`."""
    rules: str = ""
    """Reference to a mapping of protocols to `rules.Rules`."""
    flaws: str = ""
    """Reference to a mapping of the flaws that these rules name to sentences."""
    grids: str = ""
    """Reference to a function (contender, grid, settings to tune) -> search space. Where a workload
    names no grid, it is None: then only values of the settings to tune are asked for. Of several
    plugins, the first that has such a function is asked."""
    effects: str = ""
    """Reference to a function (rows, workload, tuned) -> what single changes did."""
    published: str = ""
    """Reference to a mapping of workloads to published results."""
    shapes: str = ""
    """Reference to a function () -> shapes of the parameters of each model, for `bench`."""


@functools.cache
def plugins() -> tuple[Plugin, ...]:
    """Those installed, by the names of their entry points."""
    found = []
    for point in sorted(metadata.entry_points(group=GROUP), key=lambda point: point.name):
        try:
            plugin = point.load()
        except ModuleNotFoundError as error:
            if error.name == point.module.partition(".")[0]:
                continue  # the entry point outlived its package
            raise LabError(f"the plugin {point.value!r} needs {error.name}.") from error
        if not isinstance(plugin, Plugin):
            raise LabError(f"{point.value!r} is no adamomentum_lab.plugins.Plugin.")
        found.append(plugin)
    return tuple(found)


def resolve(reference: str) -> Any:
    """The object that "package.module:name" refers to."""
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


def provided(field_name: str) -> list[Any]:
    """What each plugin has under a field that holds a reference."""
    references = [getattr(plugin, field_name) for plugin in plugins()]
    return [resolve(reference) for reference in references if reference]
