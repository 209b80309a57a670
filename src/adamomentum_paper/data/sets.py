"""Descriptions of the data sets: layouts, digests and sources."""

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
    """The files of a data set in one form, such as the publisher's archive."""

    folder: str
    files: Mapping[str, str] = field(default_factory=dict)
    """name of a file -> its md5 or sha256."""
    images: Mapping[str, int] = field(default_factory=dict)
    """For a tree of images: subfolder -> number of images below it; 0 is any but none."""
    part: str = ""
    """If this is not the whole set, a description of the part."""


@dataclass(frozen=True)
class Download:
    """A file to download: an archive, a compressed file, or a plain file."""

    url: str
    digest: str
    size: int
    """Size in bytes."""
    into: str = ""
    """For an archive, the folder to unpack to. Otherwise, the path of the file."""


State = Literal["complete", "part", "damaged", "missing"]


@dataclass(frozen=True)
class DataSet:
    """One data set. The module that reads it defines this as DATASET."""

    name: str
    summary: str
    layouts: tuple[Layout, ...]
    """Accepted layouts. `fetch` makes the first."""
    terms: str
    """Terms of use, as the publisher states them."""
    downloads: tuple[Download, ...] = ()
    by_hand: str = ""
    """How to get the data if there is no download."""

    def source(self) -> str:
        """Return a sentence that says where to get the data."""
        if not self.downloads:
            return f"{self.by_hand} (or set ADAMOMENTUM_DATA to the folder that has it)."
        return (
            f"`adamomentum data fetch {self.name}` downloads it from {self.downloads[0].url}; or "
            f"set ADAMOMENTUM_DATA to the folder that has {self.layouts[0].folder}."
        )

    def place(self, folder: Path) -> Path:
        """Return the folder to read from: the first layout that exists, or else the first."""
        places = [folder / layout.folder for layout in self.layouts]
        return next((place for place in places if place.is_dir()), places[0])

    def state(self) -> tuple[State, str]:
        """Return the state of the data, and a description of it."""
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
    """Describe the first fault of a layout. Empty if there is none."""
    for name, digest in layout.files.items():
        file = place / name
        if not file.is_file():
            return f"{name} is missing"
        if digest_of(file, digest) != digest:
            return f"{name} has a wrong digest ({file.stat().st_size:,} bytes)"
    for name, count in layout.images.items():
        found = sum(file.suffix.lower() in IMAGE_SUFFIXES for file in (place / name).rglob("*.*"))
        if (found != count) if count else not found:
            return f"{name} has {found:,} images, not {count:,}"
    return ""


def known() -> dict[str, DataSet]:
    """Return every data set that a module of this package describes."""
    found = [importlib.import_module(module) for module in modules(data.__name__).values()]
    sets: list[DataSet] = [module.DATASET for module in found if hasattr(module, "DATASET")]
    return {dataset.name: dataset for dataset in sorted(sets, key=lambda one: one.name)}


def get(name: str) -> DataSet:
    """Return a data set by its name."""
    sets = known()
    if name not in sets:
        raise LabError(unknown("data set", name, sets))
    return sets[name]
