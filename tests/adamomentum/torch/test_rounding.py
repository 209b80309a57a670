"""Stochastic rounding: right on average, repeatable, and only between neighbours."""

import math

import numpy as np
import pytest
import torch

from adamomentum import AdaMomentum
from adamomentum.torch._rounding import Stream, round_to_bfloat16
from adamomentum_lab.contract import feed, parameter
from tests.adamomentum.torch.test_backends import use_triton


def rounded(value, t=1, stream=Stream.PARAM):
    return round_to_bfloat16(value, torch.tensor(float(t)), stream)


@pytest.mark.parametrize("fraction", [0.0, 0.01, 0.25, 0.5, 0.9])
@pytest.mark.parametrize(
    "base", [1.0, -1.0, *(pytest.param(x, marks=pytest.mark.slow) for x in (3e-30, 7e20))]
)
def test_unbiased(base, fraction):
    low = torch.tensor(base, dtype=torch.bfloat16)
    high = torch.nextafter(low, low * 2)
    exact = (low.float() + fraction * (high.float() - low.float())).item()
    n = 1 << 18
    ups = 0
    for t in (1, 2, 3, 1000):
        result = rounded(torch.full((n,), exact), t)
        assert set(result.unique().tolist()) <= {low.item(), high.item()}
        ups += (result == high).sum().item()
    # Five standard deviations of the binomial distribution; 2^-16 is the generator's resolution.
    deviation = math.sqrt(fraction * (1 - fraction) / (4 * n))
    assert ups / (4 * n) == pytest.approx(fraction, abs=5 * deviation + 2**-16)


def test_streams_steps_and_positions_are_independent():
    n = 1 << 16
    value = torch.full((n,), 1 + 2**-8)  # halfway between two neighbours
    draws = [
        (rounded(value, t, stream) > 1).double()
        for t in (1, 2, 3)
        for stream in (Stream.PARAM, Stream.M, Stream.V, Stream.V_MAX)
    ]
    matrix = np.corrcoef(torch.stack(draws).numpy())
    assert np.abs(matrix - np.eye(len(draws))).max() < 5 / math.sqrt(n)
    for lag in (1, 2, 64, 1024):
        pair = np.corrcoef(draws[0][:-lag].numpy(), draws[0][lag:].numpy())
        assert abs(pair[0, 1]) < 5 / math.sqrt(n)


@pytest.mark.slow
def test_no_distance_between_positions_is_special():
    n = 1 << 20
    for stream in (Stream.M, Stream.V):
        # How many of seven thresholds a position's bits exceed: their three leading digits.
        value = torch.full((n,), 1.0)
        bits = [rounded(value + k * 2**-11, 7, stream) > 1 for k in (1, 2, 3, 4, 5, 6, 7)]
        halves = torch.stack(bits).double().sum(0) - 3.5
        halves -= halves.mean()
        spectrum = torch.fft.rfft(halves)
        correlation = torch.fft.irfft(spectrum.abs() ** 2)[1 : n // 2] / halves.square().sum()
        # Half a million lags of independent numbers: the largest is about 5 standard deviations.
        assert correlation.abs().max().item() < 7 / math.sqrt(n)


def test_depends_on_the_position_and_not_on_the_layout():
    value = torch.randn(8, 6, generator=torch.Generator().manual_seed(0))
    across = value.t().contiguous().t()
    assert not across.is_contiguous()
    assert torch.equal(rounded(value), rounded(across))
    assert torch.equal(rounded(value), rounded(value.reshape(-1)).view(8, 6))


def test_keeps_what_is_exact_infinite_or_nan():
    nan_all_ones = torch.tensor([0x7FFFFFFF], dtype=torch.int32).view(torch.float32)
    value = torch.tensor([0.0, -0.0, 1.5, -2.0, math.inf, -math.inf])
    for t in range(20):
        assert torch.equal(rounded(value, t).float(), value)
        assert rounded(nan_all_ones, t).isnan().all()


@pytest.mark.parametrize("bits", [0x7FFFFFFF, -1, 0x7FC00000, 0x7F800001])
def test_a_nan_of_any_bits_stays_one(bits):
    param = torch.nn.Parameter(torch.zeros(2000))
    optimizer = AdaMomentum([param], state_dtype=torch.bfloat16)
    nan = torch.tensor(bits, dtype=torch.int32).view(torch.float32)
    for _ in range(20):
        param.grad = torch.ones(2000)
        param.grad[1500] = nan
        optimizer.step()
        state = optimizer.state[param]
        for tensor in (param, state["exp_avg"], state["exp_avg_momentum_sq"]):
            assert tensor.isnan().nonzero().flatten().tolist() == [1500]


def test_small_updates_are_kept_on_average():
    # A step of 2^-12 is a sixteenth of the spacing of bfloat16 above 1, and lost to nearest.
    lr, steps = 2.0**-12, 64
    for stochastic in (False, True):
        param = torch.nn.Parameter(torch.full((4096,), 1.5, dtype=torch.bfloat16))
        optimizer = AdaMomentum(
            [param], lr=lr, debias_momentum=True, stochastic_rounding=stochastic
        )
        for _ in range(steps):
            param.grad = torch.ones_like(param)
            optimizer.step()
        moved = 1.5 - param.detach().float().mean().item()
        assert moved == pytest.approx(lr * steps, rel=0.05) if stochastic else moved == 0


def test_small_state_decays():
    # To nearest, b2 = 0.999 would leave v where it is for ever.
    param = torch.nn.Parameter(torch.zeros(4096))
    optimizer = AdaMomentum([param], state_dtype=torch.bfloat16, betas=(0.0, 0.999))
    param.grad = torch.ones_like(param)
    optimizer.step()
    for _ in range(1000):
        param.grad = torch.zeros_like(param)
        optimizer.step()
    v = optimizer.state[param]["exp_avg_momentum_sq"].double().mean().item()
    assert v == pytest.approx(1e-3 * 0.999**1000, rel=0.02)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_order_of_parameters_does_not_matter(dtype):
    def run(order):
        params = [parameter(3, 2, dtype=dtype), parameter(5, dtype=dtype, seed=1)]
        optimizer = AdaMomentum(
            [params[i] for i in order], state_dtype=torch.bfloat16, stochastic_rounding=True
        )
        feed(optimizer, params, range(10))
        return params

    for a, b in zip(run((0, 1)), run((1, 0)), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("backend", ["fused", "foreach", "triton"])
@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize(
    ("dtype", "state_dtype"),
    [
        (torch.bfloat16, None),
        (torch.bfloat16, torch.bfloat16),
        (torch.float32, torch.bfloat16),
    ],
    ids=str,
)
def test_all_backends_draw_the_same_bits(backend, amsgrad, dtype, state_dtype, monkeypatch):
    def run(**options):
        param = parameter(3000, dtype=dtype)
        optimizer = AdaMomentum(
            [param],
            lr=1e-2,
            amsgrad=amsgrad,
            stochastic_rounding=True,
            state_dtype=state_dtype,
            **options,
        )
        feed(optimizer, [param], range(3))
        return param.detach(), *list(optimizer.state[param].values())[1:]

    expected = run(foreach=False)
    if backend == "triton":
        use_triton(monkeypatch)
    for a, b in zip(expected, run(**{backend: True} if backend != "triton" else {}), strict=True):
        # The bits are added to numbers that may differ in the last place of float32; other bits
        # would make a half of the bfloat16 differ.
        same = torch.isclose(a, b, rtol=1e-6) if a.dtype is torch.float32 else a == b
        assert same.double().mean() > 0.99


def test_only_bfloat16_parameters_are_concerned():
    for dtype in (torch.float16, torch.float32):
        runs = []
        for stochastic in (False, True):
            param = parameter(16, dtype=dtype)
            feed(AdaMomentum([param], stochastic_rounding=stochastic), [param], range(5))
            runs.append(param)
        assert torch.equal(*runs)
