"""What is known of every data set: its layouts, its digests, where it comes from."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from adamomentum_lab.catalog import modules
from adamomentum_lab.errors import LabError, unknown
from adamomentum_paper import data
from adamomentum_paper.data.files import digest_of, root

IMAGE_SUFFIXES = (".jpeg", ".jpg", ".png")


@dataclass(frozen=True)
class Layout:
    """A folder as the publisher's archive unpacks to."""

    folder: str
    files: Mapping[str, str] = field(default_factory=dict)
    """Name of each file, and its md5 or sha256."""
    images: Mapping[str, int] = field(default_factory=dict)
    """Of a tree of images: subfolders, and how many images are below each."""
    part: str = ""
    """What of the set this is, where it is not the whole."""


@dataclass(frozen=True)
class Download:
    """A file to be had: an archive, a compressed file, or just the file."""

    url: str
    digest: str
    size: int
    """In bytes; more is not taken."""
    into: str = ""
    """Folder, for what is in an archive; the file's own place, for all else."""


State = Literal["complete", "part", "damaged", "missing"]


@dataclass(frozen=True)
class DataSet:
    """One data set. The module that reads it says this of it, under the name DATASET."""

    name: str
    summary: str
    layouts: tuple[Layout, ...]
    """Any of them will do; the first is what `fetch` makes."""
    terms: str
    """Under which it may be used, as far as its publisher states them."""
    downloads: tuple[Download, ...] = ()
    by_hand: str = ""
    """How to get it where it cannot just be downloaded."""

    def source(self) -> str:
        """What to say where it is missing."""
        if not self.downloads:
            return f"{self.by_hand} (or set ADAMOMENTUM_DATA to the folder that has it)."
        return (
            f"`adamomentum data fetch {self.name}` gets it, or set ADAMOMENTUM_DATA to the folder "
            f"that has {self.layouts[0].folder}; it comes from {self.downloads[0].url}."
        )

    def place(self, folder: Path) -> Path:
        """Where it is read from: the first of its layouts that is there, else the first."""
        places = [folder / layout.folder for layout in self.layouts]
        return next((place for place in places if place.is_dir()), places[0])

    def state(self) -> tuple[State, str]:
        """How much of it is there, and what to say about that."""
        try:
            return self._state(root())
        except OSError as error:
            return "damaged", f"{error.filename} cannot be read ({error.strerror})"

    def _state(self, folder: Path) -> tuple[State, str]:
        place = self.place(folder)
        if not place.is_dir():
            if not self.downloads:
                return "missing", self.by_hand
            size = sum(download.size for download in self.downloads)
            return "missing", f"adamomentum data fetch {self.name} ({size / 1e6:,.0f} MB)"
        faults = []
        for layout in self.layouts:
            if folder / layout.folder == place:
                faults.append(_fault(layout, place))
                if not faults[-1]:
                    words = f"{place}: {layout.part}" if layout.part else str(place)
                    return "part" if layout.part else "complete", words
        return "damaged", f"{place}: {faults[0]}"


def _fault(layout: Layout, place: Path) -> str:
    """The first thing that is not as it should be."""
    for name, digest in layout.files.items():
        file = place / name
        if not file.is_file():
            return f"{name} is missing"
        if digest_of(file, digest) != digest:
            return f"{name} is not what it should be ({file.stat().st_size:,} bytes)"
    for name, count in layout.images.items():
        found = sum(file.suffix.lower() in IMAGE_SUFFIXES for file in (place / name).rglob("*.*"))
        if found != count:
            return f"{name} has {found:,} images, not {count:,}"
    return ""


def known() -> dict[str, DataSet]:
    """Every data set that a module of this folder describes."""
    found = [importlib.import_module(module) for module in modules(data.__name__).values()]
    sets: list[DataSet] = [module.DATASET for module in found if hasattr(module, "DATASET")]
    return {dataset.name: dataset for dataset in sorted(sets, key=lambda one: one.name)}


def get(name: str) -> DataSet:
    """One by its name."""
    sets = known()
    if name not in sets:
        raise LabError(unknown("data set", name, sets))
    return sets[name]
