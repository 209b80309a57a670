"""Each module imports only from its own line of this order, or from lines above it."""

import ast
from pathlib import Path

SRC = Path(__file__).parents[1] / "src"
ORDER = """
adamomentum.rule adamomentum._eps adamomentum._install
adamomentum.torch
adamomentum.optax adamomentum.keras
adamomentum
adamomentum_lab.errors adamomentum_lab.files adamomentum_lab.modules adamomentum_lab.words
adamomentum_lab.plugins adamomentum_lab.rules adamomentum_lab.schedules adamomentum_lab.space
adamomentum_lab.datasets
adamomentum_lab.source
adamomentum_lab.training.workers
adamomentum_lab.training.feed
adamomentum_lab.workload adamomentum_lab.adversarial adamomentum_lab.selection
adamomentum_lab.workload_checks
adamomentum_lab.identity adamomentum_lab.portable adamomentum_lab.inputs adamomentum_lab.catalog
adamomentum_lab.contender
adamomentum_lab.contenders
adamomentum_lab.digits adamomentum_lab.mnist1d adamomentum_lab.problems
adamomentum_lab.contract
adamomentum_lab.training
adamomentum_lab.engine
adamomentum_lab.stats
adamomentum_lab.race
adamomentum_lab.report
adamomentum_lab.api
adamomentum_lab
adamomentum_lab.bench
adamomentum_lab.commands adamomentum_lab.cli
adamomentum_paper.plugin adamomentum_paper.rules adamomentum_paper.grids
adamomentum_paper.published adamomentum_paper.effects
adamomentum_paper.losses adamomentum_paper.adversarial_losses
adamomentum_paper.data
adamomentum_paper.models
adamomentum_paper.workloads adamomentum_paper.shapes
adamomentum_paper.theory
adamomentum_paper.landscape
adamomentum_paper.items
adamomentum_paper.claims
adamomentum_paper.commands
adamomentum_paper
"""
LINES = {name: i for i, line in enumerate(ORDER.split("\n")) for name in line.split()}


def line_of(module):
    """The line that a module stands on: its own, or that of the package it is in."""
    while module not in LINES:
        module = module.rpartition(".")[0]
    return LINES[module]


def imports(file, modules):
    """Every module of ours that a file names in an import, wherever in the file."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file} has a relative import"
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in modules else node.module for name in inside]
        else:
            continue
        yield from (name for name in names if name.startswith("adamomentum"))


def test_imports_go_one_way():
    files = {
        ".".join(file.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__"): file
        for file in SRC.rglob("*.py")
    }
    wrong = [
        f"{module} imports {name}"
        for module, file in files.items()
        for name in imports(file, files)
        if line_of(name) > line_of(module)
    ]
    assert not wrong, "\n".join(sorted(wrong))
