"""What is written for others to read: whole files, and JSON as its standard has it."""

from __future__ import annotations

import errno
import json
import math
import os
from pathlib import Path
from typing import Any

from adamomentum_lab.errors import LabError


def dumps(value: Any, indent: int | None = None) -> str:
    """JSON as its standard has it: what is not a finite number becomes null."""
    try:
        return json.dumps(value, indent=indent, allow_nan=False)
    except ValueError:  # going through all of it first would take half the time of many runs
        return json.dumps(_plain(value), indent=indent, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def make_folder(folder: Path) -> None:
    """Make a folder, before hours are spent on what it shall hold; or say why it cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise LabError(f"cannot write to {folder} ({error.strerror}).") from error


def write(file: Path, content: str | bytes) -> None:
    """Write a file, and its folder: it is there whole, or as it was before."""
    make_folder(file.parent)
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        try:
            beside.write_bytes(content.encode() if isinstance(content, str) else content)
            beside.replace(file)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise LabError(f"cannot write {file} ({error.strerror}).") from error
