"""Stochastic rounding to bfloat16 with a stateless generator.

Rounded to nearest, a bfloat16 average of squares with b2 = 0.999 would never decay: a thousandth
is less than half a unit in its last place. Stochastic rounding is right on average: it rounds up
with a probability equal to the part cut off. The random bits are a hash of the step, the position
in the tensor, and the stream (which tensor of the slot). A resumed run, or another order of
parameters, therefore gets the same bits.
"""

from __future__ import annotations

from enum import IntEnum

import torch
from torch import Tensor

_WORD = 0xFFFFFFFF
# 2^32 over the golden ratio: positions are spread evenly, then hashed. A full hash of the position
# is no more random (test_rounding.py) and costs the native kernel 50% more time.
_STRIDE = 0x9E3779B9


class Stream(IntEnum):
    """Which tensor of a parameter is rounded. Each has its own bits: half a word."""

    M = 0
    V = 1
    PARAM = 2
    V_MAX = 3


def round_to_bfloat16(value: Tensor, t: Tensor, stream: Stream) -> Tensor:
    """Round `value` to one of its two bfloat16 neighbours; the nearer one is more likely."""
    value = value.float()
    position = torch.arange(value.numel(), device=value.device).view(value.shape)
    word, half = divmod(stream, 2)
    key = _scramble((_scramble(2 * t.long() + word) + _STRIDE * (position >> 32)) & _WORD)
    sequence = (_scramble(key) + _STRIDE * (position & _WORD)) & _WORD
    noise = (_scramble(sequence) >> 16 * half) & 0xFFFF
    bits = value.view(torch.int32)
    rounded = ((bits + noise.int()) & ~0xFFFF).view(torch.float32)
    # Adding noise to a NaN could carry into its sign.
    return torch.where(value.isfinite(), rounded, value).bfloat16()


def _scramble(x: Tensor) -> Tensor:
    """Hash 32 bits (constants of Wellons' lowbias32). int64, because torch lacks uint32 here."""
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & _WORD
    return ((x ^ (x >> 15)) * 0x846CA68B) & _WORD
