"""The functional form takes the step of the class."""

import pytest
import torch

from adamomentum import AdaMomentum
from adamomentum.torch.functional import adamomentum
from adamomentum_lab.contract import gradient, parameter

OPTIONS = [
    {},
    {"amsgrad": True},
    {"maximize": True, "decoupled_weight_decay": False},
    {"nesterov": True, "debias_momentum": True},
    {"rectify": True, "betas": (0.9, 0.7)},
]
NUMBERS = {"amsgrad": False, "lr": 0.1, "weight_decay": 0.1, "eps": 1e-16, "maximize": False}


def arguments(**options):
    beta1, beta2 = options.pop("betas", (0.9, 0.999))
    return {**NUMBERS, **options, "beta1": beta1, "beta2": beta2}


def columns(params, amsgrad=False):
    def zeros():
        return [torch.zeros_like(param) for param in params]

    return zeros(), zeros(), zeros() if amsgrad else [], [torch.tensor(0.0) for _ in params]


@pytest.mark.parametrize(
    "backend", [{}, {"fused": True}, {"foreach": True}, {"foreach": False}], ids=str
)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_it_is_the_step_of_the_class(options, backend):
    number = torch.nn.Parameter(torch.complex(parameter(3).detach(), parameter(3, seed=1).detach()))
    held = [parameter(4), parameter(2, 3), number]
    free = [param.detach().clone() for param in held]
    optimizer = AdaMomentum(held, **{**NUMBERS, **options, **backend})
    ms, vs, v_maxs, ts = columns(free, options.get("amsgrad", False))
    for seed in range(3):
        grads = [gradient(param, seed) for param in held]
        for param, grad in zip(held, grads, strict=True):
            param.grad = grad
        optimizer.step()
        adamomentum(free, grads, ms, vs, v_maxs, ts, **arguments(**options, **backend))
    for i, param in enumerate(held):
        state = optimizer.state[param]
        assert torch.equal(param, free[i])
        assert torch.equal(state["exp_avg"], ms[i])
        assert torch.equal(state["exp_avg_momentum_sq"], vs[i])
        assert torch.equal(state["step"], ts[i])


def test_takes_the_arguments_of_torchs():
    import inspect

    from torch.optim.adam import adam

    ours, theirs = (inspect.signature(f).parameters for f in (adamomentum, adam))
    renamed = {"exp_avg_sqs": "exp_avg_momentum_sqs", "max_exp_avg_sqs": "max_exp_avg_momentum_sqs"}
    wanted = [renamed.get(name, name) for name in theirs if name != "has_complex"]
    assert set(wanted) <= set(ours)
    assert list(ours)[:12] == wanted[:12]


def test_the_scale_and_what_it_found():
    param, grad = torch.ones(2), torch.ones(2)
    rest = columns([param])
    adamomentum([param], [grad], *rest, found_inf=torch.tensor(1.0), **arguments())
    assert torch.equal(param, torch.ones(2))
    other, rests = torch.ones(2), columns([param])
    scale = torch.tensor(8.0)
    adamomentum([param], [8 * grad], *rest, grad_scale=scale, **arguments())
    adamomentum([other], [grad], *rests, **arguments())
    assert torch.equal(param, other)


def test_autograd_runs_through_it():
    start = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    grad = torch.tensor([0.5, -1.0], dtype=torch.float64, requires_grad=True)

    def last(start, grad):
        param = start.clone()
        adamomentum([param], [grad], *columns([param]), differentiable=True, **arguments(eps=1e-3))
        return param

    assert torch.autograd.gradcheck(last, (start, grad))


def test_what_it_refuses():
    param, grad = torch.ones(2), torch.ones(2)
    m, v, _, _ = columns([param])
    with pytest.raises(RuntimeError, match="`state_steps` must contain"):
        adamomentum([param], [grad], m, v, [], [1], **arguments())
    with pytest.raises(ValueError, match="shorter"):
        adamomentum([param], [grad], m, [], [], [torch.tensor(0.0)], **arguments())
    with pytest.raises(TypeError, match="lr must be a number"):
        adamomentum([param], [grad], m, v, [], [torch.tensor(0.0)], **arguments(lr=None))
    gaps = torch.ones(4)[::2]
    with pytest.raises(RuntimeError, match="fused=True is not supported"):
        adamomentum([gaps], [grad], m, v, [], [torch.tensor(0.0)], **arguments(fused=True))
    assert torch.equal(gaps, param)
