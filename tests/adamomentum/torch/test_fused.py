"""The native kernel notices whatever can happen to a tensor between two steps."""

import os
import subprocess
import sys
import threading

import pytest
import torch

from adamomentum import AdaMomentum
from adamomentum.torch import _native, backends
from adamomentum_lab.contract import feed, gradient, network, parameter, through_file, train

REASON = _native.unavailable(torch.device("cpu"))
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)


def swap_data(model, optimizer):
    for param in model.parameters():
        param.data = param.data.clone()


def swap_state_data(model, optimizer):
    for state in optimizer.state.values():
        for value in state.values():
            value.data = value.data.clone()


def replace_state(model, optimizer):
    for param in model.parameters():
        state = optimizer.state[param]
        optimizer.state[param] = {key: value.clone() for key, value in state.items()}


def reorder_state(model, optimizer):
    for param in list(optimizer.state):
        optimizer.state[param] = optimizer.state.pop(param)
    first = next(iter(optimizer.state))
    optimizer.state[first] = optimizer.state.pop(first)


def reload(model, optimizer):
    optimizer.load_state_dict(through_file(optimizer.state_dict()))


def there_and_back(model, optimizer):
    model.double()
    model.float()


def resize_gradients(model, optimizer):
    for param in model.parameters():
        param.grad.resize_(0)
        param.grad = None


def regroup(model, optimizer):
    (group,) = optimizer.param_groups
    last = group["params"].pop()
    optimizer.add_param_group({"params": [last]})


@pytest.mark.parametrize(
    "happening",
    [
        swap_data,
        swap_state_data,
        replace_state,
        reorder_state,
        reload,
        there_and_back,
        resize_gradients,
        regroup,
    ],
)
def test_what_happens_between_steps_is_noticed(happening):
    runs = []
    for options in ({"fused": True}, {"foreach": False}):
        model = network()
        optimizer = AdaMomentum(model.parameters(), lr=1e-2, weight_decay=0.1, **options)
        train(model, optimizer, range(3))
        happening(model, optimizer)
        train(model, optimizer, range(3, 6))
        runs.append(model)
    for a, b in zip(runs[0].parameters(), runs[1].parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_a_parameter_narrowed_in_place_is_refused_not_overrun():
    whole = torch.arange(6.0)
    param = torch.nn.Parameter(whole.clone())
    optimizer = AdaMomentum([param], lr=1.0)
    feed(optimizer, [param], range(1))
    behind = param.data
    param.data = param.data[:2]
    param.grad = torch.ones(2)
    before = behind.clone()
    with pytest.raises(ValueError, match=r"'exp_avg' of parameter 0 of group 0 is \(6,\)"):
        optimizer.step()
    assert torch.equal(behind, before)


def test_lazily_negated_gradients():
    grad = torch._neg_view(torch.tensor([1.0, -2.0]))  # what autograd may leave of .conj().imag
    assert grad.is_neg()
    params = [parameter(2), parameter(2)]
    for param, options in zip(params, ({"fused": True}, {"foreach": False}), strict=True):
        optimizer = AdaMomentum([param], lr=0.1, **options)
        for _ in range(3):
            param.grad = grad
            optimizer.step()
    torch.testing.assert_close(*params)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_threads_share_the_work_and_not_the_result(dtype):
    shapes = [(3, 70_001), (1,), (200_003,), (0,), (64, 64), (1023,), (1024,), (1025,)]
    results = []
    threads = torch.get_num_threads()
    try:
        for number in (1, 2, 3):
            torch.set_num_threads(number)
            params = [parameter(*shape, dtype=dtype) for shape in shapes]
            options = {"state_dtype": torch.bfloat16, "stochastic_rounding": True}
            optimizer = AdaMomentum(params, fused=True, **options)
            feed(optimizer, params, range(2))
            results.append(params)
    finally:
        torch.set_num_threads(threads)
    for a, b, c in zip(*results, strict=True):
        assert torch.equal(a, b)
        assert torch.equal(a, c)


def test_two_optimizers_in_two_threads():
    params = [parameter(50_000, seed=i) for i in range(2)]
    alone = [parameter(50_000, seed=i) for i in range(2)]
    workers = [
        threading.Thread(target=feed, args=(AdaMomentum([param]), [param], range(50)))
        for param in params
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for param, other in zip(params, alone, strict=True):
        feed(AdaMomentum([other]), [other], range(50))
        assert torch.equal(param, other)


def test_a_grad_scaler_leaves_unscaling_to_the_kernel():
    param, other = parameter(4), parameter(4)
    optimizer = AdaMomentum([param], lr=0.1, fused=True)
    assert optimizer._step_supports_amp_scaling
    assert not AdaMomentum([parameter(1)])._step_supports_amp_scaling
    elsewhere = AdaMomentum([torch.nn.Parameter(torch.zeros(2, device="meta"))])
    elsewhere.param_groups[0]["fused"] = True  # as on a GPU, where the kernel is Triton's
    assert not elsewhere._step_supports_amp_scaling
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for seed in range(3):
        grad = gradient(param, seed)
        optimizer.zero_grad()
        scaler.scale((param * grad).sum()).backward()
        scaled = param.grad.clone()
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(param.grad, scaled)
    plain = AdaMomentum([other], lr=0.1, foreach=False)
    for seed in range(3):
        other.grad = gradient(other, seed)
        plain.step()
    torch.testing.assert_close(param, other)


def test_backends_tells_what_there_is():
    assert backends()["fused (CPU)"] == "available"


@pytest.mark.slow
def test_backends_tells_that_the_kernel_is_disabled():
    code = (
        "from adamomentum.torch import AdaMomentum, backends; import torch; "
        "p = torch.nn.Parameter(torch.ones(2)); p.grad = torch.ones(2); "
        "AdaMomentum([p]).step(); print(backends()['fused (CPU)'], float(p[0]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "ADAMOMENTUM_NATIVE": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("ADAMOMENTUM_NATIVE=0 disables it 0.99")


@pytest.mark.slow
def test_triton_is_not_imported_for_cpu_tensors():
    code = (
        "import sys, torch; from adamomentum import AdaMomentum; "
        "p = torch.nn.Parameter(torch.ones(2)); p.grad = torch.ones(2); "
        "AdaMomentum([p], fused=False).step(); AdaMomentum([p]).step(); "
        "print('adamomentum.torch._triton_kernel' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_checkpoint_that_asks_for_the_kernel_where_there_is_none(monkeypatch):
    param = parameter(3)
    optimizer = AdaMomentum([param], fused=True)
    feed(optimizer, [param], range(1))
    again = AdaMomentum([param])
    again.load_state_dict(optimizer.state_dict())
    monkeypatch.setattr(_native, "_cpu", None)
    before = param.detach().clone()
    with pytest.raises(RuntimeError, match="fused=True is not supported for parameter 0"):
        again.step()
    assert torch.equal(param, before)


@pytest.mark.parametrize("step", [-1.0, float("nan")])
@pytest.mark.parametrize("options", [{"fused": True}, {"foreach": True}, {"foreach": False}])
def test_a_step_number_that_cannot_be_is_refused(step, options):
    params = [parameter(3), parameter(4)]
    optimizer = AdaMomentum(params, **options)
    feed(optimizer, params, range(1))
    optimizer.state[params[1]]["step"].fill_(step)
    before = [param.detach().clone() for param in params]
    for param in params:
        param.grad = gradient(param, 1)
    with pytest.raises(ValueError, match="it must be at least 0"):
        optimizer.step()
    assert all(torch.equal(*pair) for pair in zip(params, before, strict=True))
    assert optimizer.state[params[0]]["step"] == 1


def test_a_step_of_minus_zero_is_the_first():
    params = [parameter(3), parameter(3)]
    optimizers = [AdaMomentum([param], fused=True) for param in params]
    for optimizer, param in zip(optimizers, params, strict=True):
        feed(optimizer, [param], range(1))
        optimizer.state[param]["step"].fill_(0.0)
    optimizers[0].state[params[0]]["step"].neg_()
    for optimizer, param in zip(optimizers, params, strict=True):
        feed(optimizer, [param], range(1))
    assert torch.equal(*params)


@pytest.mark.filterwarnings("ignore:optimizer contains a parameter group with duplicate")
def test_repeated_parameters_are_updated_one_after_the_other():
    results = []
    for options in ({"fused": True}, {"foreach": True}, {"foreach": False}):
        params = [parameter(3, seed=i) for i in range(4)]
        a, b, c, d = params
        optimizer = AdaMomentum([a, b, a, c, a, d, c], lr=0.1, weight_decay=0.1, **options)
        for seed in range(4):
            for param in params:
                param.grad = gradient(param, seed)
            optimizer.step()
        assert [float(optimizer.state[param]["step"]) for param in params] == [12, 4, 8, 4]
        results.append(params)
    for other in results[1:]:
        for x, y in zip(results[0], other, strict=True):
            torch.testing.assert_close(x, y)


def test_an_extension_of_other_sources_is_not_used():
    assert _native.mismatch(_native._cpu) == ""
    reason = _native.mismatch(object())  # the first one had no number
    assert reason.startswith("the native extension was built from other sources (version 1, not")


def test_scalars_that_do_not_fit_the_plan_are_refused():
    param = parameter(3)
    optimizer = AdaMomentum([param], fused=True)
    feed(optimizer, [param], range(1))
    work, rest = _native.claim([param], optimizer.state, optimizer.param_groups[0])
    assert rest == []
    assert work.steps == [2.0]
    with pytest.raises(ValueError, match="one row of scalars"):
        _native._cpu.run(work.plan, b"", False, False, False, False, False, 1)
