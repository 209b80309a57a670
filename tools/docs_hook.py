"""For mkdocs: the pages that are made while the site is built, and are not in the repository."""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from adamomentum_lab.report.page import load, render_races

ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The report page of all races, if there are any, and the changelog."""
    folder = ROOT / "results"
    if list(folder.glob("races/*/race.json")):
        page = render_races(load(folder), folder)
        files.append(File.generated(config, "results/races.html", content=page))
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "changelog.md", content=changes))
    return files
