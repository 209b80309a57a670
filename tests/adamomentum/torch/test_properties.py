"""Backends agree for any shape, strides, dtype and options; invalid numbers raise an error."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from adamomentum import AdaMomentum

pytestmark = pytest.mark.filterwarnings("ignore:eps=1e-0")

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64]
# A step has size lr; backends may differ by a rounding of the dtype at the parameter's size.
TOLERANCE = {
    torch.float16: 2e-3,
    torch.bfloat16: 1.6e-2,
    torch.float32: 1e-5,
    torch.float64: 1e-12,
    torch.complex64: 1e-5,
}


@st.composite
def tensors(draw):
    """A tensor of any shape up to 3 dimensions, any order of strides, with or without gaps."""
    shape = draw(st.lists(st.integers(0, 5), max_size=3))
    order = draw(st.permutations(range(len(shape))))
    gap = draw(st.integers(1, 2))
    dtype = draw(st.sampled_from(DTYPES))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    sizes = [shape[i] * gap for i in order]
    base = torch.randn(sizes, dtype=torch.complex64, generator=generator)
    base = base.to(dtype) if dtype.is_complex else base.real.to(dtype)
    base = base.clone(memory_format=torch.contiguous_format)
    view = base[tuple(slice(None, None, gap) for _ in sizes)]
    return view.permute([order.index(i) for i in range(len(order))])


@st.composite
def options(draw):
    chosen = {
        "lr": draw(st.sampled_from([0.0, 1e-4, 1e-2])),
        "betas": (draw(st.sampled_from([0.0, 0.5, 0.9])), draw(st.sampled_from([0.0, 0.6, 0.999]))),
        "eps": draw(st.sampled_from([0.0, 1e-16, 1e-8])),
        "weight_decay": draw(st.sampled_from([0.0, 0.1])),
    }
    for name in ("nesterov", "debias_momentum", "maximize", "decoupled_weight_decay", "capturable"):
        chosen[name] = draw(st.booleans())
    variant = draw(st.sampled_from(["amsgrad", "rectify", None]))
    if variant:
        chosen[variant] = True
    return chosen


@given(st.lists(tensors(), min_size=1, max_size=4), options(), st.integers(0, 100))
def test_backends_agree(starts, options, seed):
    results = []
    for backend in ({"foreach": False}, {"foreach": True}, {}):
        params = [torch.nn.Parameter(t.clone(memory_format=torch.preserve_format)) for t in starts]
        optimizer = AdaMomentum(params, **backend, **options)
        generator = torch.Generator().manual_seed(seed)
        for step in range(4):
            for i, param in enumerate(params):
                if (i + step) % 3 == 0 and step < 2:
                    param.grad = None
                    continue
                grad = torch.randn(param.shape, dtype=torch.complex64, generator=generator)
                param.grad = (grad if param.is_complex() else grad.real).to(param.dtype)
            before = [p.grad.clone() for p in params if p.grad is not None]
            optimizer.step()
            for p, grad in zip((p for p in params if p.grad is not None), before, strict=True):
                assert torch.equal(p.grad, grad)
        results.append((params, optimizer))
    singles, one = results[0]
    for (a, b), other in (
        (pair, other) for others, other in results[1:] for pair in zip(singles, others, strict=True)
    ):
        tolerance = TOLERANCE[a.dtype]
        assert a.isfinite().all()
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance * 1e-2)
        for key, value in one.state[a].items():
            # Gradients of size 1 may cancel in m, but the error of each stays.
            atol = 16 * torch.finfo(value.dtype).eps
            torch.testing.assert_close(
                value, other.state[b][key], rtol=min(tolerance, 1e-5), atol=atol
            )


NUMBERS = st.floats(allow_nan=True, allow_infinity=True)


@pytest.mark.parametrize("name", ["lr", "eps", "weight_decay"])
@given(value=NUMBERS)
def test_a_number_is_taken_or_refused(name, value):
    fine = 0 <= value < math.inf
    if fine:
        optimizer = AdaMomentum([torch.nn.Parameter(torch.zeros(1))], **{name: value})
        assert optimizer.param_groups[0][name] == value
    else:
        with pytest.raises(ValueError, match=name if name != "lr" else "learning rate"):
            AdaMomentum([torch.nn.Parameter(torch.zeros(1))], **{name: value})


@given(NUMBERS, NUMBERS)
def test_betas_are_taken_or_refused(beta1, beta2):
    params = [torch.nn.Parameter(torch.zeros(1))]
    if 0 <= beta1 < 1 and 0 <= beta2 < 1:
        assert AdaMomentum(params, betas=(beta1, beta2)).defaults["betas"] == (beta1, beta2)
    else:
        with pytest.raises(ValueError, match=r"Invalid beta parameter at index [01]"):
            AdaMomentum(params, betas=(beta1, beta2))


@given(
    st.sampled_from(["lr", "eps", "weight_decay", "betas", "amsgrad", "foreach", "state_dtype"]),
    st.one_of(st.text(), st.binary(), st.dictionaries(st.text(), st.integers()), st.just(object())),
)
def test_nonsense_is_a_type_error(name, value):
    with pytest.raises(TypeError, match=name):
        AdaMomentum([torch.nn.Parameter(torch.zeros(1))], **{name: value})
