"""Plugins: packages that add workloads, rules, search grids or commands to the lab.

A plugin package has an entry point in the group `adamomentum_lab` that names a `Plugin`. The lab
imports the module of that entry point only. References such as "package.module:name" are imported
when they are needed.
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
    """What a package adds. Every field is optional."""

    workloads: str = ""
    """A package with one workload in each module."""
    commands: tuple[str, ...] = ()
    """Modules that add commands to `adamomentum_lab.commands.app`."""
    rules: str = ""
    """Reference to a mapping of protocols to `rules.Rules`."""
    flaws: str = ""
    """Reference to a mapping: name of a flaw in these rules -> sentence."""
    grids: str = ""
    """Reference to a function (contender, grid, settings to tune) -> search space. The grid is None
    if the workload names none; the function then returns values of the settings to tune. The lab
    uses the first plugin that has this field."""
    effects: str = ""
    """Reference to a function (result of a race) -> effects of single changes."""
    published: str = ""
    """Reference to a mapping of workloads to published results."""
    shapes: str = ""
    """Reference to a function () -> parameter shapes of each model, for `bench`."""


@functools.cache
def plugins() -> tuple[Plugin, ...]:
    """Return the installed plugins, sorted by the names of their entry points."""
    found = []
    for point in sorted(metadata.entry_points(group=GROUP), key=lambda point: point.name):
        try:
            plugin = point.load()
        except ModuleNotFoundError as error:
            if error.name == point.module.partition(".")[0]:
                continue  # the package was removed, but its entry point is still there
            raise LabError(f"the plugin {point.value!r} needs {error.name}.") from error
        if not isinstance(plugin, Plugin):
            raise LabError(f"{point.value!r} is not an adamomentum_lab.plugins.Plugin.")
        found.append(plugin)
    return tuple(found)


def resolve(reference: str) -> Any:
    """Import the object that "package.module:name" refers to."""
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


def provided(field_name: str) -> list[Any]:
    """Import the objects that the plugins refer to in a field."""
    references = [getattr(plugin, field_name) for plugin in plugins()]
    return [resolve(reference) for reference in references if reference]
