"""IDX, the format of MNIST and of sets made like it."""

from __future__ import annotations

import gzip
import math
import zlib

import numpy as np
import torch
from torch import Tensor

from adamomentum_lab.errors import LabError

_TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


def read_idx(content: bytes, name: str = "the file") -> Tensor:
    """The array in an IDX file, compressed by gzip or not.

    Two zero bytes, the type of the numbers, how many dimensions there are, the size of each, and
    the numbers, all with the high byte first.
    """
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise LabError(f"{name} cannot be unpacked ({error}).") from error
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _TYPES:
        raise LabError(f"{name} is not in the IDX format: it begins with {content[:4].hex()!r}.")
    kind, dimensions = np.dtype(_TYPES[content[2]]), content[3]
    start = 4 + 4 * dimensions
    shape = np.frombuffer(content[4:start].ljust(4 * dimensions, b"\0"), ">u4").tolist()
    expected = start + math.prod(shape) * kind.itemsize
    if len(content) != expected:
        raise LabError(
            f"{name} has {len(content):,} bytes; an array of {'x'.join(map(str, shape))} takes "
            f"{expected:,}."
        )
    array = np.frombuffer(content, kind, offset=start).reshape(shape)
    return torch.from_numpy(array.astype(kind.newbyteorder("=")))
