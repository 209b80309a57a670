"""The plugin: what this package adds to the lab."""

from __future__ import annotations

from adamomentum_lab.plugins import Plugin

PLUGIN = Plugin(
    workloads="adamomentum_paper.workloads",
    commands=(
        "adamomentum_paper.commands.data",
        "adamomentum_paper.commands.theory",
        "adamomentum_paper.commands.landscape",
        "adamomentum_paper.commands.paper",
    ),
    rules="adamomentum_paper.rules:PROTOCOLS",
    flaws="adamomentum_paper.rules:FLAWS",
    grids="adamomentum_paper.grids:space",
    effects="adamomentum_paper.effects:effects",
    published="adamomentum_paper.published:PAPER",
    shapes="adamomentum_paper.shapes:models",
)
