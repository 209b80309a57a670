"""The Triton kernel of _triton.py. Its arithmetic is the same as in _cpu_kernel.c.

Tables on the device hold the addresses and the scalars of each tensor. Each program updates one
block of one tensor.
"""

from __future__ import annotations

import functools

import torch
import triton
import triton.language as tl
from torch import Tensor

from adamomentum.torch._rounding import Stream
from adamomentum.torch._scalars import Scalars, Table
from adamomentum.torch._state import Slot

BLOCK = 1024
_TYPES = {
    torch.float32: tl.float32,
    torch.float64: tl.float64,
    torch.bfloat16: tl.bfloat16,
    torch.float16: tl.float16,
}
_M, _V = tl.constexpr(int(Stream.M)), tl.constexpr(int(Stream.V))
_PARAM, _V_MAX = tl.constexpr(int(Stream.PARAM)), tl.constexpr(int(Stream.V_MAX))
_WIDTH = tl.constexpr(len(Scalars._fields))


def update(slots: list[Slot], scalars: Table) -> None:
    """Take one step. All slots must share a device and dtypes."""
    param, grad, m = slots[0][:3]
    ts = [slot.t for slot in slots]
    torch._foreach_add_(ts, 1)
    programs = _programs(tuple(slot.param.numel() for slot in slots), param.device)
    if not len(programs):
        return
    group = scalars.group
    real = torch.float64 if param.dtype == torch.float64 else torch.float32
    addresses = [
        [0 if x is None else x.data_ptr() for x in slot[:5]] + [slot.param.numel()]
        for slot in slots
    ]
    _kernel[(len(programs),)](
        programs,
        torch.tensor(addresses).to(param.device, non_blocking=True),
        torch.tensor(scalars.of(ts), dtype=real).to(param.device, non_blocking=True),
        PARAM=_TYPES[param.dtype],
        GRAD=_TYPES[grad.dtype],
        STATE=_TYPES[m.dtype],
        REAL=_TYPES[real],
        COUPLED=scalars.coupled != 0,
        AMSGRAD=group["amsgrad"],
        NESTEROV=group["nesterov"],
        RECTIFY=group["rectify"],
        STOCHASTIC=group["stochastic_rounding"],
        BLOCK=BLOCK,
    )


@functools.lru_cache(maxsize=64)
def _programs(sizes: tuple[int, ...], device: torch.device) -> Tensor:
    """Return, for each program, the index of its tensor and of the block in it."""
    pairs = [(i, j) for i, size in enumerate(sizes) for j in range(triton.cdiv(size, BLOCK))]
    return torch.tensor(pairs, dtype=torch.int64).view(-1, 2).to(device)


@triton.jit
def _scramble(x):
    """The hash of _rounding.py, in wrapping 32-bit arithmetic."""
    x = (x ^ (x >> 16)) * tl.full([], 0x7FEB352D, tl.uint32)
    return (x ^ (x >> 15)) * tl.full([], 0x846CA68B, tl.uint32)


@triton.jit
def _narrow(x, position, t, STREAM: tl.constexpr, TO: tl.constexpr, STOCHASTIC: tl.constexpr):
    """Convert x to the type TO.

    bfloat16 is rounded here, because not every conversion rounds: to nearest with ties to even, or
    with the random bits of _rounding.py.
    """
    if TO == tl.bfloat16:
        bits = x.to(tl.uint32, bitcast=True)
        noise = 0x7FFF + ((bits >> 16) & 1)
        if STOCHASTIC:
            step = t.to(tl.int64).to(tl.uint32)
            high = (position >> 32).to(tl.uint32)
            word = tl.full([], STREAM // 2, tl.uint32)
            stride = tl.full([], 0x9E3779B9, tl.uint32)
            key = _scramble(_scramble(step * 2 + word) + high * stride)
            sequence = _scramble(key) + position.to(tl.uint32) * stride
            noise = (_scramble(sequence) >> (16 * (STREAM % 2))) & 0xFFFF
        finite = (bits & 0x7F800000) != 0x7F800000
        rounded = ((bits + noise) & 0xFFFF0000).to(tl.float32, bitcast=True)
        x = tl.where(finite, rounded, x)
    return x.to(TO)


@triton.jit
def _kernel(
    programs,
    addresses,
    scalars,
    PARAM: tl.constexpr,
    GRAD: tl.constexpr,
    STATE: tl.constexpr,
    REAL: tl.constexpr,
    COUPLED: tl.constexpr,
    AMSGRAD: tl.constexpr,
    NESTEROV: tl.constexpr,
    RECTIFY: tl.constexpr,
    STOCHASTIC: tl.constexpr,
    BLOCK: tl.constexpr,
):
    program = tl.program_id(0)
    tensor = tl.load(programs + 2 * program)
    position = tl.load(programs + 2 * program + 1) * BLOCK + tl.arange(0, BLOCK)
    at = addresses + 6 * tensor
    mask = position < tl.load(at + 5)
    param_at = tl.load(at).to(tl.pointer_type(PARAM)) + position
    grad_at = tl.load(at + 1).to(tl.pointer_type(GRAD)) + position
    m_at = tl.load(at + 2).to(tl.pointer_type(STATE)) + position
    v_at = tl.load(at + 3).to(tl.pointer_type(STATE)) + position

    row = scalars + _WIDTH * tensor
    t = tl.load(row)
    factor = tl.load(row + 1)
    coupled = tl.load(row + 2)
    beta1 = tl.load(row + 3)
    weight1 = tl.load(row + 4)
    k = tl.load(row + 5)
    beta2 = tl.load(row + 6)
    weight2 = tl.load(row + 7)
    eps = tl.load(row + 8)
    scale = tl.load(row + 9)
    a = tl.load(row + 10)
    b = tl.load(row + 11)
    lr = tl.load(row + 12)
    kept = tl.load(row + 13)

    param = tl.load(param_at, mask=mask, other=0.0).to(REAL)
    g = tl.load(grad_at, mask=mask, other=0.0).to(REAL) * factor
    if COUPLED:
        g += coupled * param
    m = beta1 * tl.load(m_at, mask=mask, other=0.0).to(REAL) + weight1 * g
    mk = k * m
    v = beta2 * tl.load(v_at, mask=mask, other=0.0).to(REAL) + weight2 * (mk * mk) + eps
    most = v
    if AMSGRAD:
        v_max_at = tl.load(at + 4).to(tl.pointer_type(STATE)) + position
        v_max = tl.load(v_max_at, mask=mask, other=0.0).to(REAL)
        most = tl.where((v_max > v) | (v_max != v_max), v_max, v)  # NaN if either is
        tl.store(v_max_at, _narrow(most, position, t, _V_MAX, STATE, True), mask=mask)
    most = tl.where(most == 0, 1.0, most)  # 0/0 becomes 0, as in rule.py
    # Use IEEE rounding: the plain float32 operations are approximate on some GPUs.
    root = tl.sqrt_rn(most) if REAL == tl.float32 else tl.sqrt(most)
    if RECTIFY:
        root = tl.where(scale > 0, (root + eps) * scale, 1.0)
    else:
        root *= scale
    numerator = a * m
    if NESTEROV:
        numerator += b * g
    step = tl.div_rn(numerator, root) if REAL == tl.float32 else numerator / root
    param = kept * param - lr * step

    tl.store(m_at, _narrow(m, position, t, _M, STATE, True), mask=mask)
    tl.store(v_at, _narrow(v, position, t, _V, STATE, True), mask=mask)
    tl.store(param_at, _narrow(param, position, t, _PARAM, PARAM, STOCHASTIC), mask=mask)
