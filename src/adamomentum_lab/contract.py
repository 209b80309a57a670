"""Checks that every torch optimizer must pass.

A check is a function of a `Case` that raises AssertionError. torch.optim's own AdamW and SGD pass
all of them.

    for check in CHECKS:
        check(Case("mine", MyOptimizer))
"""

from __future__ import annotations

import copy
import inspect
import io
import math
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer, lr_scheduler, swa_utils
from torch.optim.optimizer import StateDict


@dataclass(frozen=True)
class Case:
    """An optimizer to test, and the options to test it with."""

    name: str
    optimizer: Callable[..., Optimizer]
    options: Mapping[str, object] = field(default_factory=dict)
    takes_complex: bool = True
    takes_gaps: bool = True
    starts_at_zero: bool = True  # averages start at 0; Yogi's do not, so zero gradients move it
    has_momentum: bool = True  # a scheduler can cycle its momentum
    elementwise: bool = True  # an element's step does not depend on the rest of its tensor
    has_decay: bool = True  # it has weight decay

    def build(self, params: Any, **options: Any) -> Optimizer:
        return self.optimizer(params, **{"lr": 1e-2, **self.options, **options})


CHECKS: list[Callable[[Case], None]] = []


def check(function: Callable[[Case], None]) -> Callable[[Case], None]:
    CHECKS.append(function)
    return function


def network(seed: int = 0, dtype: torch.dtype = torch.float32) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).to(dtype)


def loss_of(model: nn.Module, seed: int) -> Tensor:
    parameter = next(model.parameters())
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(8, 4, generator=generator).to(parameter)
    loss: Tensor = (model(x) - 1).square().mean()
    return loss


def train(model: nn.Module, optimizer: Optimizer, seeds: range) -> None:
    for seed in seeds:
        optimizer.zero_grad()
        loss_of(model, seed).backward()
        optimizer.step()


def parameter(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> nn.Parameter:
    generator = torch.Generator().manual_seed(seed)
    return nn.Parameter(torch.randn(shape, generator=generator).to(dtype))


def gradient(like: Tensor, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(1000 + seed)
    return torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like)


def feed(optimizer: Optimizer, params: list[nn.Parameter], seeds: range) -> None:
    for seed in seeds:
        for i, param in enumerate(params):
            param.grad = gradient(param, 17 * seed + i)
        optimizer.step()


def through_file(state_dict: StateDict) -> StateDict:
    """Save and load a state dict as users do, with `weights_only`."""
    file = io.BytesIO()
    torch.save(state_dict, file)
    file.seek(0)
    loaded: StateDict = torch.load(file, weights_only=True)
    return loaded


def assert_same(one: nn.Module, other: nn.Module) -> None:
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


@check
def descends(case: Case) -> None:
    model = network()
    optimizer = case.build(model.parameters())
    before = loss_of(model, 99).item()
    train(model, optimizer, range(50))
    assert loss_of(model, 99).item() < 0.9 * before


@check
def is_deterministic(case: Case) -> None:
    models = [network(), network()]
    for model in models:
        train(model, case.build(model.parameters()), range(5))
    assert_same(*models)


@check
def a_checkpoint_continues_bit_for_bit(case: Case) -> None:
    model = network()
    optimizer = case.build(model.parameters())
    train(model, optimizer, range(7))
    weights, saved = through_file(model.state_dict()), through_file(optimizer.state_dict())
    train(model, optimizer, range(7, 14))

    resumed = network(seed=1)
    resumed.load_state_dict(weights)
    # The checkpoint overrides the options that the new optimizer was built with.
    again = case.build(resumed.parameters(), lr=0.5)
    again.load_state_dict(saved)
    train(resumed, again, range(7, 14))
    assert_same(model, resumed)


@check
def deepcopy_and_pickle_continue(case: Case) -> None:
    for copied in (copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))):
        model = network()
        optimizer = case.build(model.parameters())
        train(model, optimizer, range(3))
        model2, optimizer2 = copied((model, optimizer))
        train(model, optimizer, range(3, 6))
        train(model2, optimizer2, range(3, 6))
        assert_same(model, model2)


@check
def gradients_stay_untouched(case: Case) -> None:
    params = [parameter(3, 2), parameter(4)]
    optimizer = case.build(params, weight_decay=0.1)
    grads = [gradient(param, i) for i, param in enumerate(params)]
    for param, grad in zip(params, grads, strict=True):
        param.grad = grad.clone()
    held = [param.grad for param in params]
    optimizer.step()
    for param, grad, same in zip(params, grads, held, strict=True):
        assert param.grad is same is not None
        assert torch.equal(same, grad)


@check
def tensors_keep_their_identity(case: Case) -> None:
    param = parameter(3, 2)
    optimizer = case.build([param])
    feed(optimizer, [param], range(1))
    place = param.data_ptr()
    state = {key: id(value) for key, value in optimizer.state[param].items()}
    feed(optimizer, [param], range(1, 3))
    assert param.data_ptr() == place
    if torch.is_tensor(optimizer.state[param].get("step")):
        assert {key: id(value) for key, value in optimizer.state[param].items()} == state


@check
def a_parameter_without_gradient_is_left_alone(case: Case) -> None:
    with_grad, without = parameter(3), parameter(3, seed=1)
    before = without.detach().clone()
    optimizer = case.build([without, with_grad], weight_decay=0.1)
    feed(optimizer, [with_grad], range(3))
    assert torch.equal(without, before)
    assert not optimizer.state.get(without)
    # Its gradient may come later. It then takes its own first step.
    alone = nn.Parameter(before.clone())
    other = case.build([alone], weight_decay=0.1)
    for param in (without, alone):
        param.grad = gradient(param, 5)
    with_grad.grad = None
    optimizer.step()
    other.step()
    assert torch.equal(without, alone)


@check
def no_gradients_at_all_is_no_step(case: Case) -> None:
    param = parameter(3)
    before = param.detach().clone()
    optimizer = case.build([param], weight_decay=0.1)
    optimizer.step()
    assert torch.equal(param, before)
    assert not optimizer.state.get(param)


@check
def zero_gradients_do_not_move(case: Case) -> None:
    param = parameter(3)
    before = param.detach().clone()
    optimizer = case.build([param], weight_decay=0.0)
    for _ in range(3):
        param.grad = torch.zeros_like(param)
        optimizer.step()
    assert torch.equal(param, before) or not case.starts_at_zero
    assert param.isfinite().all()


@check
def options_hold_per_group(case: Case) -> None:
    frozen, shrinking, plain = parameter(3), parameter(3), parameter(3)
    start = plain.detach().clone()
    groups = [
        {"params": [frozen], "lr": 0.0},
        {"params": [shrinking], "weight_decay": 0.5},
        {"params": [plain]},
    ]
    optimizer = case.build(groups)
    feed(optimizer, [frozen, shrinking, plain], range(3))
    assert torch.equal(frozen, start)
    alone = parameter(3)
    other = case.build([alone])
    for seed in range(3):
        alone.grad = gradient(alone, 17 * seed + 2)
        other.step()
    assert torch.equal(plain, alone)
    assert not torch.equal(shrinking, plain) or not case.has_decay


@check
def groups_can_come_late(case: Case) -> None:
    first, late, alone = parameter(3), parameter(2), parameter(2)
    optimizer = case.build([first])
    feed(optimizer, [first], range(3))
    optimizer.add_param_group({"params": [late], "lr": 0.1})
    feed(optimizer, [first, late], range(3, 5))
    other = case.build([alone], lr=0.1)
    for seed in range(3, 5):
        alone.grad = gradient(alone, 17 * seed + 1)
        other.step()
    assert torch.equal(late, alone)


@check
def strides_do_not_matter(case: Case) -> None:
    start = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0))
    layouts = {
        "contiguous": lambda: start.clone(),
        "channels last": lambda: start.clone(memory_format=torch.channels_last),
        "permuted": lambda: start.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0),
        "a slice": lambda: torch.zeros(9, 3, 4, 5)[3:5].copy_(start),
    }
    if case.takes_gaps:
        layouts["every other"] = lambda: torch.zeros(2, 3, 4, 10)[..., ::2].copy_(start)
    results = []
    for layout in layouts.values():
        for grad_alike in (False, True):
            param = nn.Parameter(layout())
            optimizer = case.build([param], weight_decay=0.1)
            for seed in range(3):
                grad = gradient(param, seed).contiguous()
                param.grad = torch.empty_like(param).copy_(grad) if grad_alike else grad
                optimizer.step()
            assert param.stride() == layout().stride()
            results.append(param.detach().clone())
    for result in results:
        torch.testing.assert_close(result, results[0], rtol=1e-6, atol=1e-7)


@check
def odd_shapes_are_fine(case: Case) -> None:
    params = [parameter(0), parameter(3, 0, 2), parameter(), parameter(1, 1), parameter(2, 3)]
    optimizer = case.build(params, weight_decay=0.1)
    feed(optimizer, params, range(3))
    # A 0-dim parameter is updated as a parameter with one element.
    one = nn.Parameter(parameter().detach().reshape(1))
    other = case.build([one], weight_decay=0.1)
    for seed in range(3):
        one.grad = gradient(parameter(), 17 * seed + 2).reshape(1)
        other.step()
    torch.testing.assert_close(params[2].detach().reshape(1), one.detach())
    assert [param.shape for param in params] == [(0,), (3, 0, 2), (), (1, 1), (2, 3)]


@check
def only_the_faulty_element_becomes_nan(case: Case) -> None:
    """Or, where a step depends on all elements of a tensor, only that tensor."""
    for bad in (float("nan"), float("inf")):
        param, clean, apart = parameter(4), parameter(4), parameter(4)
        optimizer, other = case.build([param, apart]), case.build([clean])
        for seed in range(2):
            clean.grad = gradient(clean, seed)
            apart.grad = gradient(clean, seed)
            param.grad = gradient(param, seed)
            param.grad[1] = bad
            optimizer.step()
            other.step()
        torch.testing.assert_close(apart, clean, rtol=0, atol=0)
        assert not param[1].isfinite(), (
            "a gradient that is not finite must make its parameter not finite; does the formula "
            "hide it, as sign does?"
        )
        if case.elementwise:
            kept = torch.tensor([True, False, True, True])
            torch.testing.assert_close(param[kept], clean[kept], rtol=0, atol=0)


@check
def named_parameters(case: Case) -> None:
    models = [network(), network()]
    named = case.build(models[0].named_parameters())
    assert named.param_groups[0]["param_names"] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    train(models[0], named, range(3))
    train(models[1], case.build(models[1].parameters()), range(3))
    assert_same(*models)
    assert "param_names" in through_file(named.state_dict())["param_groups"][0]


@check
def closures_run_with_gradients(case: Case) -> None:
    models = [network(), network()]
    optimizer = case.build(models[0].parameters())

    def closure() -> Any:
        assert torch.is_grad_enabled()
        optimizer.zero_grad()
        loss = loss_of(models[0], 0)
        loss.backward()
        return loss

    with torch.no_grad():
        loss: Any = optimizer.step(closure)
        assert not torch.is_grad_enabled()
    assert torch.equal(loss, loss_of(models[1], 0))
    train(models[1], case.build(models[1].parameters()), range(1))
    assert_same(*models)
    assert optimizer.step() is None


@check
def zero_grad_clears(case: Case) -> None:
    param = parameter(3)
    optimizer = case.build([param])
    param.grad = gradient(param, 0)
    optimizer.zero_grad(set_to_none=False)
    assert torch.equal(param.grad, torch.zeros(3))
    optimizer.zero_grad()
    assert param.grad is None


@check
def hooks_are_called(case: Case) -> None:
    param = parameter(3)
    optimizer = case.build([param])
    calls: list[str] = []
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    optimizer.register_state_dict_post_hook(lambda _, d: d.update(mine=1))
    optimizer.register_load_state_dict_pre_hook(lambda _, d: calls.append(f"load {d['mine']}"))
    optimizer.register_load_state_dict_post_hook(lambda _: calls.append("loaded"))
    feed(optimizer, [param], range(1))
    optimizer.load_state_dict(through_file(optimizer.state_dict()))
    assert calls == ["before", "after", "load 1", "loaded"]


@check
def schedulers_drive_it(case: Case) -> None:
    def fresh() -> Optimizer:
        return case.build([parameter(3)])

    def rate(optimizer: Optimizer) -> float:
        return float(optimizer.param_groups[0]["lr"])

    optimizer = fresh()
    start = rate(optimizer)
    scheduler = lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)
    feed(optimizer, optimizer.param_groups[0]["params"], range(1))
    scheduler.step()
    assert math.isclose(rate(optimizer), 0.1 * start, rel_tol=1e-6)

    optimizer = fresh()
    plateau = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    plateau.step(1.0)
    plateau.step(2.0)
    assert math.isclose(rate(optimizer), 0.1 * start, rel_tol=1e-6)

    # OneCycleLR cycles betas[0] or momentum as well.
    optimizer = fresh()
    cycle = lr_scheduler.OneCycleLR(
        optimizer, max_lr=1.0, total_steps=10, cycle_momentum=case.has_momentum
    )
    group = optimizer.param_groups[0]
    seen = set()
    for seed in range(9):
        feed(optimizer, group["params"], range(seed, seed + 1))
        cycle.step()
        if case.has_momentum:
            seen.add(round(float(group["betas"][0] if "betas" in group else group["momentum"]), 3))
    assert len(seen) > 3 or not case.has_momentum
    assert group["params"][0].isfinite().all()

    optimizer = fresh()
    warmup = lr_scheduler.LambdaLR(optimizer, lambda epoch: epoch / 10)
    before = optimizer.param_groups[0]["params"][0].detach().clone()
    feed(optimizer, optimizer.param_groups[0]["params"], range(1))
    assert torch.equal(optimizer.param_groups[0]["params"][0], before)  # lr 0 is no step
    warmup.step()
    assert math.isclose(rate(optimizer), 0.1 * start, rel_tol=1e-6)


@check
def averages_of_weights_follow(case: Case) -> None:
    model = network()
    optimizer = case.build(model.parameters())
    swa_model: Any = swa_utils.AveragedModel(model)
    ema_model: Any = swa_utils.AveragedModel(
        model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.5)
    )
    swa = swa_utils.SWALR(optimizer, swa_lr=0.05, anneal_epochs=1)
    trace = []
    for seed in range(4):
        train(model, optimizer, range(seed, seed + 1))
        swa_model.update_parameters(model)
        ema_model.update_parameters(model)
        swa.step()
        trace.append(next(model.parameters()).detach().clone())
    torch.testing.assert_close(swa_model.module[0].weight.detach(), torch.stack(trace).mean(0))
    assert not torch.equal(ema_model.module[0].weight, next(model.parameters()))


@check
def a_grad_scaler_scales_and_skips(case: Case) -> None:
    models = [network(), network()]
    optimizers = [case.build(model.parameters()) for model in models]
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=1000)
    for seed in range(3):
        optimizers[0].zero_grad()
        scaler.scale(loss_of(models[0], seed)).backward()
        scaler.step(optimizers[0])
        scaler.update()
    train(models[1], optimizers[1], range(3))
    for a, b in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)

    before = copy.deepcopy(models[0])
    state = copy.deepcopy(optimizers[0].state_dict()["state"])
    optimizers[0].zero_grad()
    scaler.scale(loss_of(models[0], 0) * float("inf")).backward()
    scaler.step(optimizers[0])
    scaler.update()
    assert scaler.get_scale() == 512.0
    assert_same(before, models[0])
    for i, entries in optimizers[0].state_dict()["state"].items():
        for key, value in entries.items():
            torch.testing.assert_close(value, state[i][key], rtol=0, atol=0)


@check
def bfloat16_parameters_are_trained(case: Case) -> None:
    """As far as their rounding allows, like float32 parameters; a checkpoint continues them."""
    low, full = parameter(16, dtype=torch.bfloat16), parameter(16)
    with torch.no_grad():
        full.copy_(low)
    optimizers = [case.build([param], lr=0.125) for param in (low, full)]
    for seed in range(3):
        for param, optimizer in zip((low, full), optimizers, strict=True):
            param.grad = gradient(low, seed).to(param.dtype)
            optimizer.step()
    assert low.dtype == torch.bfloat16
    start = parameter(16, dtype=torch.bfloat16).detach().float()
    moved = float((full.detach() - start).abs().max())
    torch.testing.assert_close(low.detach().float(), full.detach(), rtol=2e-2, atol=0.1 * moved)

    copied = nn.Parameter(low.detach().clone())
    again = case.build([copied], lr=0.5)
    again.load_state_dict(through_file(optimizers[0].state_dict()))
    for param, optimizer in ((low, optimizers[0]), (copied, again)):
        param.grad = gradient(low, 7)
        optimizer.step()
    assert torch.equal(low, copied)


@check
def maximize_is_the_mirror(case: Case) -> None:
    if "maximize" not in inspect.signature(case.optimizer).parameters or not case.starts_at_zero:
        return
    up, down = parameter(3), parameter(3)
    with torch.no_grad():
        down.copy_(-up)
    climber = case.build([up], maximize=True, weight_decay=0.1)
    walker = case.build([down], weight_decay=0.1)
    for seed in range(5):
        up.grad = gradient(up, seed)
        down.grad = gradient(up, seed)
        climber.step()
        walker.step()
    torch.testing.assert_close(up.detach(), -down.detach(), rtol=1e-6, atol=1e-7)


@check
def complex_numbers_are_pairs_of_reals(case: Case) -> None:
    if not case.takes_complex:
        return
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(3, 2, dtype=torch.complex64, generator=generator)
    number = nn.Parameter(start.clone())
    pair = nn.Parameter(torch.view_as_real(start).clone())
    optimizer = case.build([number], weight_decay=0.1)
    other = case.build([pair], weight_decay=0.1)
    for seed in range(5):
        generator.manual_seed(seed)
        number.grad = torch.randn(3, 2, dtype=torch.complex64, generator=generator)
        pair.grad = torch.view_as_real(number.grad).clone()
        optimizer.step()
        other.step()
    torch.testing.assert_close(torch.view_as_real(number.detach()), pair.detach())
