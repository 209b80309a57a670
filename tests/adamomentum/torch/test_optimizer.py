"""What AdaMomentum does beyond the contract: modes, dtypes, memory, the choice of backend."""

import copy
import inspect

import pytest
import torch

import adamomentum.torch
from adamomentum import AdaMomentum
from adamomentum.torch import _foreach, _native, _single
from adamomentum_lab.bench.step_time import Peak
from adamomentum_lab.contract import feed, gradient, loss_of, network, parameter


def walked(steps=20, dtype=torch.float32, shape=(3, 2), **options):
    """A parameter after some steps, and its optimizer."""
    param = parameter(*shape, dtype=dtype)
    optimizer = AdaMomentum([param], **{"lr": 1e-2, "weight_decay": 0.1, **options})
    feed(optimizer, [param], range(steps))
    return param.detach(), optimizer


def test_is_one_object_under_two_names():
    assert AdaMomentum is adamomentum.torch.AdaMomentum


def test_signature_is_the_designs():
    assert str(inspect.signature(AdaMomentum)).replace("'", "") == (
        "(params: ParamsT, lr: float | Tensor = 0.001, "
        "betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999), eps: float | Tensor = 1e-16, "
        "weight_decay: float | Tensor = 0.0, amsgrad: bool = False, *, "
        "decoupled_weight_decay: bool = True, nesterov: bool = False, rectify: bool = False, "
        "debias_momentum: bool = False, maximize: bool = False, foreach: bool | None = None, "
        "fused: bool | None = None, capturable: bool = False, differentiable: bool = False, "
        "state_dtype: torch.dtype | None = None, stochastic_rounding: bool = False) -> None"
    )


def test_takes_every_positional_argument_of_adamw():
    ours = list(inspect.signature(AdaMomentum).parameters.values())
    theirs = list(inspect.signature(torch.optim.AdamW).parameters.values())
    positional = [p.name for p in theirs if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert [p.name for p in ours if p.kind is p.POSITIONAL_OR_KEYWORD] == positional
    assert {p.name for p in theirs} <= {p.name for p in ours}


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@pytest.mark.parametrize(
    "options", [{}, {"foreach": False}, {"capturable": True, "foreach": True}], ids=str
)
@pytest.mark.parametrize("decoupled", [True, False])
def test_tensor_lr(shape, options, decoupled):
    options = {**options, "decoupled_weight_decay": decoupled}
    number, _ = walked(lr=1e-2, **options)
    tensor, optimizer = walked(lr=torch.full(shape, 1e-2, dtype=torch.float64), **options)
    torch.testing.assert_close(tensor, number)
    assert torch.is_tensor(optimizer.param_groups[0]["lr"])


def test_tensor_lr_is_read_at_every_step():
    lr = torch.tensor(1e-2)
    param = parameter(3)
    optimizer = AdaMomentum([param], lr=lr)
    feed(optimizer, [param], range(1))
    before = param.detach().clone()
    lr.zero_()
    feed(optimizer, [param], range(1, 2))
    assert torch.equal(param, before)


@pytest.mark.parametrize(
    "options", [{}, {"fused": False}, {"capturable": True, "fused": False}, {"nesterov": True}]
)
def test_tensor_betas(options):
    number, _ = walked(betas=(0.8, 0.99), **options)
    betas = (torch.tensor([[0.8]], dtype=torch.float64), torch.tensor(0.99, dtype=torch.float64))
    tensor, _ = walked(betas=betas, **options)
    torch.testing.assert_close(tensor, number)


@pytest.mark.parametrize("foreach", [True, False])
def test_capturable_on_the_cpu(foreach):
    plain, _ = walked(foreach=foreach)
    captured, optimizer = walked(foreach=foreach, capturable=True)
    torch.testing.assert_close(captured, plain)
    assert optimizer.state[optimizer.param_groups[0]["params"][0]]["step"] == 20


def test_capturable_with_a_zero_lr_does_not_move():
    param = parameter(3)
    before = param.detach().clone()
    feed(AdaMomentum([param], lr=0.0, capturable=True), [param], range(3))
    assert torch.equal(param, before)


def test_capturing_a_step_that_is_not_capturable_is_refused(monkeypatch):
    param = torch.nn.Parameter(torch.zeros(2))
    param.grad = torch.ones(2)
    optimizer = AdaMomentum([param], fused=False)  # the CPU kernel sees that this is no GPU
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda _: True))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(RuntimeError, match="capturable=True"):
        optimizer.step()
    assert not optimizer.state


DIFFERENTIABLE = [
    {},
    {"amsgrad": True},
    {"nesterov": True},
    {"rectify": True, "betas": (0.9, 0.7)},
    {"debias_momentum": True},
    {"decoupled_weight_decay": False, "maximize": True},
]


@pytest.mark.parametrize("options", DIFFERENTIABLE, ids=str)
def test_autograd_runs_through_several_steps(options):
    def last(start, grads, lr, beta1):
        param = start.clone()
        betas = options.get("betas", (0.9, 0.99))
        optimizer = AdaMomentum(
            [param],
            **{**options, "betas": (beta1, torch.tensor(betas[1], dtype=torch.float64))},
            lr=lr,
            eps=1e-3,
            weight_decay=0.1,
            differentiable=True,
        )
        for grad in grads:
            param.grad = grad
            optimizer.step()
        return param

    def double(*values):
        return torch.tensor(values, dtype=torch.float64, requires_grad=True).squeeze()

    start = double(1.0, -2.0, 0.5)
    grads = torch.randn(8, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    inputs = (start, grads.requires_grad_(), double(1e-2), double(0.9))
    assert torch.autograd.gradcheck(last, inputs)


def test_derivative_is_finite_where_nothing_moved():
    lr = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
    param = torch.ones(2, dtype=torch.float64, requires_grad=True).clone()
    optimizer = AdaMomentum([param], lr=lr, eps=0.0, differentiable=True)
    param.grad = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    optimizer.step()
    (slope,) = torch.autograd.grad(param.sum(), lr)
    assert slope == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("state_dtype", [None, torch.float32, torch.float64, torch.bfloat16])
def test_dtype_of_the_moments(dtype, state_dtype):
    _, optimizer = walked(dtype=dtype, state_dtype=state_dtype, amsgrad=True)
    (state,) = optimizer.state.values()
    wanted = state_dtype or (torch.float64 if dtype is torch.float64 else torch.float32)
    moments = [value for key, value in state.items() if key != "step"]
    assert len(moments) == 3
    assert {moment.dtype for moment in moments} == {wanted}
    # Stochastic rounding goes by the step number, which float32 counts up to 2^24 only.
    counter = torch.float64 if wanted is torch.bfloat16 else torch.float32
    assert state["step"].dtype is counter


def test_state_keys():
    _, optimizer = walked()
    (state,) = optimizer.state.values()
    assert set(state) == {"step", "exp_avg", "exp_avg_momentum_sq"}
    _, optimizer = walked(amsgrad=True)
    (state,) = optimizer.state.values()
    assert set(state) == {"step", "exp_avg", "exp_avg_momentum_sq", "max_exp_avg_momentum_sq"}


def test_amsgrad_can_be_switched_on_later():
    param = parameter(3)
    optimizer = AdaMomentum([param])
    feed(optimizer, [param], range(3))
    optimizer.param_groups[0]["amsgrad"] = True
    feed(optimizer, [param], range(3, 6))
    assert "max_exp_avg_momentum_sq" in optimizer.state[param]


@pytest.mark.parametrize("foreach", [True, False])
def test_weight_decay_is_not_lost_in_bfloat16(foreach):
    # 1 - lr wd = 1 - 1e-5 is 1 in bfloat16: rounding the decay by itself would drop it. Added to
    # a step that alone just fails to cross the middle between two numbers, it decides.
    param = torch.nn.Parameter(torch.full((4,), 1.0, dtype=torch.bfloat16))
    halfway = 2**-8 / 2  # below 1, bfloat16 has a spacing of 2^-8
    options = {"lr": 0.1 * (halfway - 5e-6), "foreach": foreach, "eps": 1e-30}
    for decay, moved in ((0.0, False), (1e-5 / options["lr"], True)):
        with torch.no_grad():
            param.fill_(1.0)
        optimizer = AdaMomentum([param], weight_decay=decay, **options)
        param.grad = torch.ones_like(param)  # the first step is 10 lr
        optimizer.step()
        assert (param < 1).all() == moved


def test_gradients_of_another_dtype_that_the_parameter_asked_for():
    param = parameter(4, dtype=torch.bfloat16)
    if not hasattr(param, "grad_dtype"):
        pytest.skip("this torch has no grad_dtype")
    param.grad_dtype = torch.float32
    param.grad = gradient(torch.zeros(4), 0)
    optimizer = AdaMomentum([param])
    optimizer.step()
    torch.testing.assert_close(optimizer.state[param]["exp_avg"], 0.1 * param.grad)


def test_conjugate_gradients():
    params = [torch.nn.Parameter(torch.ones(2, dtype=torch.complex64)) for _ in range(2)]
    grad = torch.tensor([1 + 2j, 3 - 1j])
    params[0].grad = grad.conj()
    params[1].grad = grad.conj().resolve_conj()
    assert params[0].grad.is_conj()
    AdaMomentum(params, lr=0.1).step()
    assert torch.equal(*params)


class Calls:
    """Which backend is given how many slots."""

    def __init__(self, monkeypatch):
        self.counts = {"fused": 0, "foreach": 0, "single": 0}
        for name, module in (("fused", _native), ("foreach", _foreach), ("single", _single)):
            monkeypatch.setattr(module, "run", self.counting(name, module.run))

    def counting(self, name, run):
        def counted(work, scalars):
            size = len(work.params if name == "fused" else work.slots)
            assert size, "a backend without work is not run"
            self.counts[name] += size
            run(work, scalars)

        return counted


@pytest.mark.parametrize(
    ("options", "backend"),
    [
        ({}, "fused"),
        ({"fused": True}, "fused"),
        ({"fused": False}, "foreach"),
        ({"foreach": True}, "foreach"),
        ({"foreach": False}, "single"),
        ({"lr": torch.tensor(0.1)}, "fused"),
        ({"lr": torch.tensor(0.1), "fused": False}, "single"),
        ({"lr": torch.tensor(0.1), "capturable": True, "foreach": True}, "foreach"),
        ({"betas": (torch.tensor(0.9), torch.tensor(0.99))}, "fused"),
        ({"state_dtype": torch.bfloat16}, "fused"),
        ({"state_dtype": torch.float64}, "foreach"),
        ({"state_dtype": torch.bfloat16, "fused": False}, "single"),
        ({"nesterov": True}, "fused"),
        ({"nesterov": True, "capturable": True, "fused": False}, "single"),
    ],
    ids=str,
)
def test_choice_of_backend(options, backend, monkeypatch):
    calls = Calls(monkeypatch)
    walked(steps=2, **options)
    assert {name: count for name, count in calls.counts.items() if count} == {backend: 2}


class Subclass(torch.Tensor):
    pass


def test_backends_share_a_step(monkeypatch):
    """What one backend cannot take goes to the next, in the same step, to the same result."""
    calls = Calls(monkeypatch)

    def run(**options):
        params = [
            parameter(3, 2),
            parameter(4, dtype=torch.bfloat16),
            torch.nn.Parameter(parameter(5).detach().as_subclass(Subclass)),
            parameter(6, dtype=torch.float64),
            torch.nn.Parameter(torch.complex(parameter(2).detach(), parameter(2).detach())),
            torch.nn.Parameter(parameter(6, 6).detach()[::2, ::2]),
            parameter(0, 3),
        ]
        optimizer = AdaMomentum(params, lr=1e-2, weight_decay=0.1, **options)
        feed(optimizer, params, range(300))
        return [param.detach().clone() for param in params]

    mixed = run()
    assert calls.counts == {"fused": 5 * 300, "foreach": 300, "single": 300}
    for a, b in zip(mixed, run(foreach=False), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"maximize": True, "decoupled_weight_decay": False},
        {"amsgrad": True, "debias_momentum": True},
        {"rectify": True, "capturable": True},
        {"nesterov": True, "maximize": True, "decoupled_weight_decay": False},
    ],
    ids=str,
)
def test_foreach_needs_one_list_of_intermediates(options, dtype):
    params = [parameter(1000, dtype=dtype, seed=i) for i in range(20)]
    optimizer = AdaMomentum(params, foreach=True, weight_decay=0.1, **options)
    feed(optimizer, params, range(2))
    with Peak() as memory:
        optimizer.step()
    one_list = 20 * 1000 * 4  # the moments are float32 in both cases
    assert 0 < memory.peak < 1.2 * one_list


@pytest.mark.parametrize(
    "options",
    [
        {},
        *(
            pytest.param(options, marks=pytest.mark.slow)
            for options in (
                {"lr": torch.tensor(1e-2)},
                {"amsgrad": True, "decoupled_weight_decay": False},
                {"nesterov": True},
                {"rectify": True, "maximize": True},
                {"foreach": False},
            )
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(False, marks=pytest.mark.slow, id="constant lr"),
        pytest.param(True, id="lr changes"),
    ],
)
def test_a_compiled_step(options, changes):
    from torch._dynamo.testing import CompileCounter
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    options = {"lr": 1e-2, "weight_decay": 0.1, **options}
    models = [network(), network()]
    optimizers = [AdaMomentum(m.parameters(), **copy.deepcopy(options)) for m in models]
    compiler = CompileCounter()
    steps = [optimizers[0].step, torch.compile(optimizers[1].step, backend=compiler)]
    for seed in range(6):
        for model, optimizer, step in zip(models, optimizers, steps, strict=True):
            optimizer.zero_grad()
            loss_of(model, seed).backward()
            step()
            if changes:
                optimizer.param_groups[0]["lr"] *= 0.9
    for a, b in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(a, b)
    assert not counters["graph_break"]
    # A float lr becomes a variable of the graph when it changes for the first time.
    assert compiler.frame_count == (2 if changes and isinstance(options["lr"], float) else 1)


@pytest.mark.slow
def test_a_step_compiled_to_machine_code():
    models = [network(), network()]
    optimizers = [AdaMomentum(m.parameters(), weight_decay=0.1) for m in models]
    steps = [optimizers[0].step, torch.compile(optimizers[1].step, fullgraph=True)]
    for seed in range(4):
        for model, optimizer, step in zip(models, optimizers, steps, strict=True):
            optimizer.zero_grad()
            loss_of(model, seed).backward()
            step()
    for a, b in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"foreach": False}], ids=str)
@pytest.mark.parametrize("compiled", [False, True])
def test_a_parameter_listed_twice_is_updated_twice(options, compiled):
    param = parameter(3)
    with pytest.warns(UserWarning, match="duplicate"):
        optimizer = AdaMomentum([param, param], **options)
    once = parameter(3)
    other = AdaMomentum([once], foreach=False)
    step = optimizer.step
    if compiled:
        torch._dynamo.reset()
        step = torch.compile(step, backend="eager", fullgraph=True)
    for seed in range(3):
        param.grad = gradient(param, seed)
        once.grad = gradient(once, seed)
        step()
        other.step()
        other.step()
    assert optimizer.state[param]["step"] == 6
    torch.testing.assert_close(param, once)


@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"foreach": False}], ids=str)
def test_fake_tensors(options):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        model = torch.nn.Linear(3, 2)
        optimizer = AdaMomentum(model.parameters(), **options)
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        optimizer.step()


def test_autograd_notices_the_change():
    param = parameter(3)
    optimizer = AdaMomentum([param])
    feed(optimizer, [param], range(1))
    loss = param.square().sum()
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_repr_names_every_option():
    text = repr(AdaMomentum([parameter(1)]))
    for name in list(inspect.signature(AdaMomentum).parameters)[1:]:
        assert f"    {name}: " in text
