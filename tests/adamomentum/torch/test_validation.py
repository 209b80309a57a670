"""A step is taken as a whole or not at all, and nothing is checked harder than Adam checks it."""

import collections
import copy
import math

import numpy as np
import pytest
import torch

from adamomentum import AdaMomentum
from adamomentum_lab.contract import feed, gradient, parameter

INF, NAN = float("inf"), float("nan")
BACKENDS = {"default": {}, "foreach": {"foreach": True}, "single": {"foreach": False}}
each_backend = pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)


def two_groups(**options):
    first, second = parameter(3), parameter(2)
    optimizer = AdaMomentum([{"params": [first]}, {"params": [second]}], lr=0.1, **options)
    feed(optimizer, [first, second], range(2))
    return optimizer, first, second


def refused(optimizer, *words, kind=(TypeError, ValueError, RuntimeError)):
    """Assert that a step is refused in one sentence and changes nothing."""
    params = [param for group in optimizer.param_groups for param in group["params"]]
    values = [param.detach().clone() for param in params]
    state = copy.deepcopy(dict(optimizer.state))
    with pytest.raises(kind) as error:
        optimizer.step()
    text = str(error.value)
    assert all(word in text for word in words), text
    assert text.endswith(".")
    assert "\n" not in text
    for param, value in zip(params, values, strict=True):
        assert torch.equal(param, value)
    for entries, before in zip(optimizer.state.values(), state.values(), strict=True):
        assert str(entries) == str(before)


@each_backend
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("eps", None),
        ("eps", NAN),
        ("eps", "x"),
        ("eps", torch.ones(2)),
        ("weight_decay", "x"),
        ("weight_decay", [0.1]),
        ("weight_decay", NAN),
        ("differentiable", None),
        ("maximize", "yes"),
        ("amsgrad", 2),
        ("capturable", 0.5),
        ("nesterov", None),
        ("fused", "x"),
        ("foreach", 3),
        ("state_dtype", "bf16"),
        ("betas", (0.9, None)),
        ("betas", (1.0, 0.9)),
        ("betas", (0.9, NAN)),
    ],
    ids=str,
)
def test_nonsense_in_a_later_group_changes_nothing(name, value, backend):
    optimizer, _, _ = two_groups(**backend)
    optimizer.param_groups[1][name] = value
    refused(optimizer, "beta" if name == "betas" and value[1] else name.split("_")[0][:3])


@each_backend
@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("step", 1),
        ("step", None),
        ("step", torch.ones(2)),
        ("step", torch.tensor(-1.0)),
        ("step", torch.tensor(NAN)),
        ("step", torch.tensor(INF)),
        ("exp_avg", None),
        ("exp_avg", 0.5),
        ("exp_avg", torch.zeros(2, dtype=torch.int64)),
        ("exp_avg", torch.zeros(2, dtype=torch.float16)),
        ("exp_avg", torch.zeros(2, dtype=torch.complex64)),
        ("exp_avg", torch.zeros(3)),
        ("exp_avg_momentum_sq", None),
        ("exp_avg_momentum_sq", torch.zeros(2, device="meta")),
        ("exp_avg_momentum_sq", torch.zeros(2).to_sparse()),
        ("exp_avg_momentum_sq", torch.zeros(1).expand(2)),
        ("exp_avg_momentum_sq", torch.tensor([1j, 2j]).conj().imag),
    ],
    ids=str,
)
def test_nonsense_in_the_state_changes_nothing(key, value, amsgrad, backend):
    optimizer, _, second = two_groups(amsgrad=amsgrad, **backend)
    optimizer.state[second][key] = value
    refused(optimizer, f"'{key}'")


@each_backend
@pytest.mark.parametrize("key", ["step", "exp_avg_momentum_sq"])
def test_a_state_that_lacks_an_entry(key, backend):
    optimizer, _, second = two_groups(amsgrad=True, **backend)
    del optimizer.state[second][key]
    refused(optimizer, f"'{key}'")


def test_nonsense_in_the_state_of_a_complex_parameter():
    param = torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))
    optimizer = AdaMomentum([param])
    param.grad = torch.ones_like(param)
    optimizer.step()
    optimizer.state[param]["exp_avg"] = None
    refused(optimizer, "'exp_avg' of parameter 0 of group 0", "None")
    optimizer.state[param]["exp_avg"] = torch.zeros(2)
    refused(optimizer, "'exp_avg' of parameter 0 of group 0", "torch.float32")


@pytest.mark.parametrize("backend", [{"foreach": True}, {"foreach": False}], ids=str)
def test_a_parameter_that_became_a_negated_view(backend):
    """The kernel's own test is in test_fused.py."""
    optimizer, _, second = two_groups(**backend)
    second.data = torch.tensor([1j, 2j]).conj().imag
    refused(optimizer, "parameter 0 of group 1, a lazily negated view")


@each_backend
def test_a_negated_gradient(backend):
    results = []
    for resolved in (False, True):
        optimizer, _, second = two_groups(**backend)
        second.grad = torch.tensor([1 + 1j, 2 - 3j]).conj().imag
        assert second.grad.is_neg()
        if resolved:
            second.grad = second.grad.resolve_neg()
        optimizer.step()
        results.append(second.detach().clone())
    assert torch.equal(*results)


@pytest.mark.parametrize(
    "step", [-1, -1.0, NAN, INF, torch.tensor(-2.0), torch.tensor(NAN)], ids=str
)
def test_a_restored_step_that_cannot_be(step):
    optimizer, _, _ = two_groups()
    saved = copy.deepcopy(optimizer.state_dict())
    saved["state"][1]["step"] = step
    with pytest.raises(ValueError, match="'step' of parameter 1 must be finite and at least 0"):
        optimizer.load_state_dict(saved)


@pytest.mark.parametrize("step", [-0.0, torch.tensor(-0.0), torch.tensor([-0.0])], ids=str)
def test_a_restored_step_of_minus_zero_is_zero(step):
    optimizer, _, second = two_groups()
    saved = copy.deepcopy(optimizer.state_dict())
    saved["state"][1]["step"] = step
    optimizer.load_state_dict(saved)
    restored = optimizer.state[second]["step"]
    assert restored.shape == ()
    assert math.copysign(1, restored.item()) == 1


@pytest.mark.parametrize("kind", [torch.int64, torch.float8_e4m3fn, torch.sparse_coo], ids=str)
def test_restored_moments_of_other_kinds_are_refused(kind):
    optimizer, _, _ = two_groups()
    saved = copy.deepcopy(optimizer.state_dict())
    moment = saved["state"][0]["exp_avg"]
    damaged = moment.to_sparse() if kind is torch.sparse_coo else moment.to(kind)
    saved["state"][0]["exp_avg"] = damaged
    before = str(optimizer.state_dict())
    with pytest.raises(ValueError, match="'exp_avg' of parameter 0 must be a floating-point"):
        optimizer.load_state_dict(saved)
    assert str(optimizer.state_dict()) == before


@pytest.mark.parametrize("state", [None, [1], {0: [1], 1: [2]}], ids=str)
def test_a_restored_state_that_is_no_dictionary(state):
    optimizer, _, _ = two_groups()
    with pytest.raises(ValueError, match="must be a dictionary"):
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def test_the_state_may_be_any_mapping():
    optimizer, first, _ = two_groups()
    again, first_again, _ = two_groups()
    again.state = collections.ChainMap(again.state)
    for each in (optimizer, again):
        feed(each, [p for group in each.param_groups for p in group["params"]], range(2, 4))
    assert torch.equal(first, first_again)


def walk(**options):
    param = parameter(4)
    optimizer = AdaMomentum([param], **{"lr": 0.1, **options})
    feed(optimizer, [param], range(5))
    return param.detach()


@pytest.mark.parametrize(
    "mode", [*BACKENDS.values(), {"capturable": True, "fused": False}], ids=str
)
@pytest.mark.parametrize("shape", [(), (1, 1)])
@pytest.mark.parametrize(
    "options",
    [
        {"weight_decay": 0.3},
        {"weight_decay": 0.3, "decoupled_weight_decay": False},
        {"eps": 1e-3},
        {"eps": 1e-3, "rectify": True, "betas": (0.9, 0.7)},
    ],
    ids=str,
)
def test_weight_decay_and_eps_as_tensors(options, shape, mode):
    tensors = {
        name: torch.full(shape, value, dtype=torch.float64) if isinstance(value, float) else value
        for name, value in options.items()
        if value is not False
    } | {name: value for name, value in options.items() if value is False}
    torch.testing.assert_close(walk(**tensors, **mode), walk(**options, **mode))


@pytest.mark.parametrize("decoupled", [True, False])
def test_autograd_follows_weight_decay_and_eps(decoupled):
    def last(weight_decay, eps):
        param = torch.tensor([1.0, -2.0], dtype=torch.float64, requires_grad=True).clone()
        optimizer = AdaMomentum(
            [param],
            weight_decay=weight_decay,
            eps=eps,
            decoupled_weight_decay=decoupled,
            differentiable=True,
        )
        for seed in range(3):
            param.grad = gradient(param, seed)
            optimizer.step()
        return param

    inputs = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (0.1, 1e-2)]
    assert torch.autograd.gradcheck(last, inputs)


def test_a_differentiable_step_number_is_refused():
    param = parameter(2).detach().requires_grad_().clone()
    optimizer = AdaMomentum([param], differentiable=True)
    param.grad = torch.ones(2)
    optimizer.step()
    optimizer.state[param]["step"] = torch.tensor(1.0, requires_grad=True)
    with pytest.raises(RuntimeError, match="`requires_grad` is not supported for `step`"):
        optimizer.step()


def test_flags_may_be_integers():
    optimizer = AdaMomentum([parameter(2)], amsgrad=1, maximize=0, foreach=1)
    group = optimizer.param_groups[0]
    assert group["amsgrad"] is True
    assert group["maximize"] is False
    assert group["foreach"] is True


def test_integer_parameters_without_a_gradient():
    counter, weight = torch.nn.Parameter(torch.zeros(2).long(), False), parameter(3)
    optimizer = AdaMomentum([weight, counter])
    feed(optimizer, [weight], range(2))
    assert counter not in optimizer.state
    counter.grad = torch.ones(2).long()
    refused(optimizer, "parameter 1 of group 0", "torch.int64", kind=TypeError)


def test_fused_parameters_may_start_on_meta(monkeypatch):
    # So that a module which moves keeps its parameters, and the optimizer with it.
    monkeypatch.setattr("torch.__future__._swap_module_params_on_conversion", True)
    with torch.device("meta"):
        model = torch.nn.Linear(2, 3)
    optimizer = AdaMomentum(model.parameters(), fused=True)
    for param in model.parameters():
        param.grad = torch.zeros_like(param)
    words = "`fused=True` requires all the params to be floating point Tensors"
    with pytest.raises(RuntimeError, match=words):
        optimizer.step()
    assert not optimizer.state
    optimizer.zero_grad()
    model.to_empty(device="cpu")
    for param in model.parameters():
        torch.nn.init.ones_(param)
        param.grad = torch.ones_like(param)
    optimizer.step()
    assert (model.weight < 1).all()


@pytest.mark.parametrize("options", [{}, {"fused": True}, {"foreach": False}], ids=str)
def test_parameters_of_lazy_modules_may_be_uninitialized(options):
    model = torch.nn.LazyLinear(2)
    optimizer = AdaMomentum(model.parameters(), **options)
    optimizer.step()
    model(torch.ones(1, 3)).sum().backward()
    before = model.weight.detach().clone()
    for _ in range(2):
        optimizer.step()
    assert (model.weight < before).all()


@pytest.mark.parametrize(
    ("default", "options", "expected"),
    [
        (torch.float64, {}, torch.float64),
        (torch.float64, {"foreach": True}, torch.float64),
        (torch.float64, {"fused": True}, torch.float32),
        (torch.float16, {}, torch.float32),
        (torch.float32, {}, torch.float32),
    ],
)
def test_dtype_of_the_step_number_is_adams(default, options, expected):
    param = parameter(3, dtype=torch.float32)
    optimizers = [cls([param], **options) for cls in (AdaMomentum, torch.optim.Adam)]
    before = torch.get_default_dtype()
    torch.set_default_dtype(default)
    try:
        for optimizer in optimizers:
            param.grad = torch.ones(3, dtype=torch.float32)
            optimizer.step()
    finally:
        torch.set_default_dtype(before)
    assert {optimizer.state[param]["step"].dtype for optimizer in optimizers} == {expected}
    again = AdaMomentum([param], **options)
    again.load_state_dict(optimizers[0].state_dict())
    assert again.state[param]["step"].dtype is expected
    again.step()
    assert again.state[param]["step"] == 2


@pytest.mark.parametrize("options", [{"fused": True}, {}, {"foreach": False}], ids=str)
def test_a_scale_of_zero_divides_as_tensors_do(options):
    param = torch.nn.Parameter(torch.ones(3))
    optimizer = AdaMomentum([param], **options)
    param.grad = torch.tensor([1.0, -1.0, 0.0])
    optimizer.grad_scale = torch.tensor(0.0)
    optimizer.step()
    torch.testing.assert_close(
        optimizer.state[param]["exp_avg"], torch.tensor([INF, -INF, NAN]), equal_nan=True
    )


def mixed(**options):
    """An optimizer whose first moment is float32 and whose second is bfloat16."""
    param = parameter(64)
    optimizer = AdaMomentum([param], lr=0.1, **options)
    feed(optimizer, [param], range(1))
    state = optimizer.state[param]
    state["exp_avg_momentum_sq"] = state["exp_avg_momentum_sq"].bfloat16()
    return optimizer, param


def test_moments_of_different_dtypes_are_no_reason_to_forget_the_scale():
    optimizer, param = mixed(fused=True)
    optimizer.grad_scale = torch.tensor(1024.0)
    refused(optimizer, "moments of torch.float32 and torch.bfloat16", kind=RuntimeError)
    results = []
    for scale in (1.0, 1024.0):
        optimizer, param = mixed()
        param.grad = scale * gradient(param, 5)
        optimizer.grad_scale = torch.tensor(scale)
        optimizer.step()
        results.append(param.detach().clone())
    torch.testing.assert_close(*results)


@each_backend
def test_each_moment_is_rounded_by_its_own_dtype(backend):
    """To nearest, a bfloat16 second moment would not decay at all."""
    optimizer, param = mixed(**backend)
    start = optimizer.state[param]["exp_avg_momentum_sq"].float().clone()
    optimizer.state[param]["exp_avg"].zero_()
    for _ in range(500):
        param.grad = torch.zeros_like(param)
        optimizer.step()
    ratio = (optimizer.state[param]["exp_avg_momentum_sq"].float() / start).mean().item()
    assert ratio == pytest.approx(0.999**500, rel=0.1)


SCHEDULERS = {
    "CyclicLR": lambda o: torch.optim.lr_scheduler.CyclicLR(o, 1e-3, 1e-1, step_size_up=2),
    "OneCycleLR": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=12),
    "beta1 through 0": lambda o: torch.optim.lr_scheduler.CyclicLR(
        o, 1e-3, 1e-1, step_size_up=2, base_momentum=0.0, max_momentum=0.9, scale_fn=lambda _: 1.1
    ),
}


@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULERS.values(), ids=SCHEDULERS)
@pytest.mark.parametrize("backend", [{}, {"fused": False}, {"foreach": False}], ids=str)
def test_cyclic_schedulers_set_betas_as_they_do_with_adam(backend, schedule, tensors):
    betas = (0.9, 0.99)
    betas = tuple(map(torch.tensor, betas)) if tensors else betas
    traces = []
    for cls in (AdaMomentum, torch.optim.Adam):
        param = parameter(3)
        optimizer = cls([param], betas=betas, **({} if cls is torch.optim.Adam else backend))
        scheduler = schedule(optimizer)
        trace = []
        for seed in range(10):
            feed(optimizer, [param], range(seed, seed + 1))
            scheduler.step()
            trace.append([float(beta) for beta in optimizer.param_groups[0]["betas"]])
        assert param.isfinite().all()
        traces.append(trace)
    assert traces[0] == traces[1]


@pytest.mark.parametrize("kind", [list, np.array, lambda x: torch.tensor(x, dtype=torch.float64)])
def test_betas_may_become_another_pair(kind):
    tuples, others = parameter(3), parameter(3)
    for param, betas in ((tuples, (0.8, 0.99)), (others, kind((0.8, 0.99)))):
        optimizer = AdaMomentum([param])
        optimizer.param_groups[0]["betas"] = betas
        feed(optimizer, [param], range(3))
    assert torch.equal(tuples, others)


@each_backend
def test_the_parameters_of_a_group_may_become_a_tuple(backend):
    optimizer, first, second = two_groups(**backend)
    again, first_again, second_again = two_groups(**backend)
    again.param_groups[0]["params"] = (first_again,)
    for each, params in ((optimizer, [first, second]), (again, [first_again, second_again])):
        feed(each, params, range(2, 4))
    assert torch.equal(first, first_again)


def test_what_else_is_in_a_state_is_loaded_as_torch_loads_it():
    """An entry of a wrapper's, say: in the dtype of the parameter."""
    saved = parameter(3), parameter(3, dtype=torch.float64)
    optimizers = [AdaMomentum([param]) for param in saved]
    feed(optimizers[0], [saved[0]], range(1))
    optimizers[0].state[saved[0]].update(z=torch.ones(3), note="kept")
    optimizers[1].load_state_dict(optimizers[0].state_dict())
    state = optimizers[1].state[saved[1]]
    assert state["z"].dtype is torch.float64
    assert state["note"] == "kept"
    assert state["exp_avg"].dtype is torch.float32
