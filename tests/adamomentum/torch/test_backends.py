"""Every backend, option and dtype against the float64 oracle, weight decay on.

By default all options take few steps, and rows that contain every pair of options take many;
Triton's interpreter, at 40 ms per step, takes only those rows, for few steps. The marker `full`
has the rest: all options for many steps.
"""

import functools
import itertools
import operator
from typing import NamedTuple

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose as close

from adamomentum import AdaMomentum
from adamomentum.torch import _backends, _foreach, _native, _single, _triton
from tests.adamomentum.pairs import all_pairs
from tests.oracle import Oracle

SLOW, FULL = [pytest.mark.slow], [pytest.mark.slow, pytest.mark.full]
STEPS = 40, 500  # few and many; rectification starts at step 6
HALF_STEPS = 20, 60
LR, DECAY = 1e-3, 1e-2
# The whole walk, rtol = atol.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}
# One step, in units in the last place: rounded once, to nearest.
HALF_TOLERANCE = {torch.bfloat16: 0.501, torch.float16: 0.501}


class Selected(NamedTuple):
    """A backend, and the options that select it."""

    module: _backends.Backend
    options: dict[str, bool]


BACKENDS = {
    "triton": Selected(_triton, {}),
    "fused": Selected(_native, {"fused": True}),
    "single": Selected(_single, {"foreach": False}),
    "foreach": Selected(_foreach, {"foreach": True}),
    "single-capturable": Selected(_single, {"foreach": False, "capturable": True}),
    "foreach-capturable": Selected(_foreach, {"foreach": True, "capturable": True}),
}
CHOICES = [
    [{}, {"amsgrad": True}, {"rectify": True}],
    [{}, {"nesterov": True}],
    [{}, {"debias_momentum": True}],
    [{}, {"decoupled_weight_decay": False}],
    [{}, {"maximize": True}],
]
SHAPES = [(4, 3), (), (5,)]
LATE = 3  # the last parameter gets its first gradient this many steps after the others


def starts():
    random = np.random.default_rng(0)
    return [random.normal(size=shape) for shape in SHAPES]


@functools.cache
def gradients():
    """Gradients over eight orders of magnitude, a coordinate that stays zero, and late comers."""
    random = np.random.default_rng(1)
    walks = []
    for index, shape in enumerate(SHAPES):
        scale = 10.0 ** random.uniform(-6, 2, size=shape)
        walk = random.normal(size=(max(STEPS), *shape)) * scale + 0.3 * scale
        if shape == (5,):
            walk[:, 0] = 0
        walks.append([None] * LATE + list(walk[LATE:]) if index == 2 else list(walk))
    return walks


@functools.cache
def expected(options, steps):
    """What the oracle makes of each parameter: (theta, m, v) after the walk."""
    results = []
    for start, walk in zip(starts(), gradients(), strict=True):
        oracle = Oracle(start, lr=LR, weight_decay=DECAY, **dict(options))
        for g in walk[:steps]:
            if g is not None:
                oracle.step(g)
        results.append((oracle.theta, oracle.m, oracle.v))
    return results


def walk_of(params, optimizer, steps):
    for step in range(steps):
        for param, walk in zip(params, gradients(), strict=True):
            g = walk[step]
            param.grad = None if g is None else torch.as_tensor(g).to(param.dtype)
        optimizer.step()
        yield step


def unit_in_the_last_place(x, dtype):
    info = torch.finfo(dtype)
    unit = np.spacing(np.abs(x).astype(np.float32)) * (info.eps / np.finfo(np.float32).eps)
    return np.maximum(unit, info.smallest_normal * info.eps)


def name_of(options):
    return "+".join(sorted(options)) or "plain"


def grid(dtypes, few, many):
    """The cases of a test: options, backend, dtype and the number of steps."""
    pairs = all_pairs(*CHOICES, dtypes)
    cases = []
    for row in itertools.product(*CHOICES, dtypes):
        options, dtype = functools.reduce(operator.or_, row[:-1]), row[-1]
        for backend in BACKENDS:
            if backend == "triton":
                marks = {few: SLOW, many: FULL} if row in pairs else {many: FULL}
            else:
                marks = {few: [], many: SLOW} if row in pairs else {few: SLOW, many: FULL}
            for steps in marks:
                case = (options, backend, dtype, steps)
                name = f"{name_of(options)}-{backend}-{dtype}-{steps}"
                cases.append(pytest.param(*case, marks=marks[steps], id=name))
    return cases


@pytest.fixture
def backend(request, monkeypatch):
    """The row of a backend; Triton's takes CPU tensors in its interpreter."""
    if request.param == "triton":
        use_triton(monkeypatch)
    return BACKENDS[request.param]


def use_triton(monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.setattr(_triton, "GPUS", ("cpu",))
    monkeypatch.setattr(_native, "_cpu", None)


every_backend = pytest.mark.parametrize(
    "backend",
    [pytest.param(name, marks=SLOW if name == "triton" else []) for name in BACKENDS],
    indirect=True,
)


def test_every_backend_is_tested():
    assert {selected.module for selected in BACKENDS.values()} == set(_backends.BACKENDS)


@every_backend
def test_is_given_work(backend, monkeypatch):
    """Otherwise the tests below would hold another backend against the oracle."""
    run, changes = backend.module.run, []

    def watch(work, scalars):
        before = [param.detach().clone() for param in params]
        run(work, scalars)
        changes.append(not all(map(torch.equal, before, params)))

    monkeypatch.setattr(backend.module, "run", watch)
    for *row, dtype in itertools.product(*CHOICES, [*TOLERANCE, *HALF_TOLERANCE]):
        params = [torch.nn.Parameter(torch.ones(3, dtype=dtype))]
        options = functools.reduce(operator.or_, row, backend.options)
        optimizer = AdaMomentum(params, lr=0.1, **options)
        params[0].grad = torch.ones(3, dtype=dtype)
        optimizer.step()
        if any(changes):
            return
    pytest.fail(f"{backend.module.__name__} updates nothing, whatever the options and the dtype")


@every_backend
@pytest.mark.parametrize("dtype", [*TOLERANCE, *HALF_TOLERANCE], ids=str)
@pytest.mark.parametrize(
    "options", [{}, {"amsgrad": True}, {"rectify": True}, {"nesterov": True}], ids=name_of
)
def test_without_eps_a_second_moment_of_zero_divides_as_one(options, backend, dtype):
    tiny = torch.finfo(torch.promote_types(dtype, torch.float32)).tiny  # its square is 0
    param = torch.nn.Parameter(torch.ones(3, dtype=dtype))
    optimizer = AdaMomentum([param], lr=0.1, eps=0.0, **options, **backend.options)
    for _ in range(7):  # rectification starts at step 6
        param.grad = torch.tensor([0.0, tiny, 1.0], dtype=dtype)
        optimizer.step()
    assert param[:2].tolist() == [1, 1]
    assert param[2] < 0.9


@every_backend
@pytest.mark.filterwarnings("ignore:.* encountered:RuntimeWarning")  # of Triton's NumPy
def test_rectify_with_overflowing_squares(backend):
    param = torch.nn.Parameter(torch.zeros(2))
    optimizer = AdaMomentum([param], rectify=True, lr=1e-30, **backend.options)
    param.grad = torch.tensor([1e25, 1.0])
    optimizer.step()
    assert param.isfinite().all()


@pytest.mark.parametrize(
    ("options", "backend", "dtype", "steps"), grid(TOLERANCE, *STEPS), indirect=["backend"]
)
def test_agrees_with_the_oracle(options, backend, dtype, steps):
    params = [torch.nn.Parameter(torch.as_tensor(start).to(dtype)) for start in starts()]
    optimizer = AdaMomentum(params, lr=LR, weight_decay=DECAY, **options, **backend.options)
    for _ in walk_of(params, optimizer, steps):
        pass
    tolerance = TOLERANCE[dtype]
    for param, (theta, m, v) in zip(params, expected(tuple(options.items()), steps), strict=True):
        state = optimizer.state[param]
        close(param.detach().numpy(), theta, rtol=tolerance, atol=tolerance)
        close(state["exp_avg"].numpy(), m, rtol=tolerance, atol=tolerance)
        close(state["exp_avg_momentum_sq"].numpy(), v, rtol=tolerance)


@pytest.mark.parametrize(
    ("options", "backend", "dtype", "steps"),
    grid(HALF_TOLERANCE, *HALF_STEPS),
    indirect=["backend"],
)
def test_half_precision_rounds_each_step_once(options, backend, dtype, steps):
    params = [torch.nn.Parameter(torch.as_tensor(start).to(dtype)) for start in starts()]
    optimizer = AdaMomentum(params, lr=LR, weight_decay=DECAY, **options, **backend.options)
    oracles = [Oracle(start, lr=LR, weight_decay=DECAY, **options) for start in starts()]
    before = [param.detach().double().numpy() for param in params]
    for step in walk_of(params, optimizer, steps):
        for i, (param, oracle) in enumerate(zip(params, oracles, strict=True)):
            if param.grad is None:
                assert step < LATE
                continue
            oracle.theta = before[i]
            exact = oracle.step(param.grad.double().numpy())
            after = param.detach()
            assert after.dtype is dtype
            unit = unit_in_the_last_place(exact, dtype)
            error = np.abs(after.double().numpy() - exact) / unit
            assert error.max() <= HALF_TOLERANCE[dtype], (step, i)
            before[i] = after.double().numpy()
    for param, oracle in zip(params, oracles, strict=True):
        state = optimizer.state[param]
        assert state["exp_avg"].dtype is state["exp_avg_momentum_sq"].dtype is torch.float32
        close(state["exp_avg"].numpy(), oracle.m, rtol=1e-5, atol=1e-5)
        close(state["exp_avg_momentum_sq"].numpy(), oracle.v, rtol=1e-5)
