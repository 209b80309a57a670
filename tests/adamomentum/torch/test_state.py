"""Codecs: how numbers are kept in the tensors of the state."""

import pytest
import torch

from adamomentum.torch._rounding import Stream
from adamomentum.torch._state import CODECS, PLAIN, STOCHASTIC, param_codec


@pytest.mark.parametrize("dtype", CODECS, ids=str)
def test_what_is_exact_in_a_dtype_comes_back(dtype):
    value = torch.tensor([0.0, 1.0, -2.5, 2.0**-60, float("inf")], dtype=torch.float64)
    stored = torch.zeros(5, dtype=dtype)
    CODECS[dtype].encode(stored, value, torch.tensor(3.0), Stream.V)
    assert torch.equal(CODECS[dtype].decode(stored, torch.float64), value)


def test_bfloat16_is_right_on_average():
    value = torch.full((100_000,), 1 + 2.0**-10)
    stored = torch.zeros(100_000, dtype=torch.bfloat16)
    CODECS[torch.bfloat16].encode(stored, value, torch.tensor(1.0), Stream.M)
    assert stored.unique().numel() == 2
    assert stored.double().mean() == pytest.approx(1 + 2.0**-10, abs=1e-4)


def test_parameters_are_rounded_at_random_on_request_alone():
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        param = torch.zeros(2, dtype=dtype)
        assert param_codec(param, {"stochastic_rounding": False}) is PLAIN
        expected = STOCHASTIC if dtype is torch.bfloat16 else PLAIN
        assert param_codec(param, {"stochastic_rounding": True}) is expected
