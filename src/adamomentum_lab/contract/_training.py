"""Checks of what training scripts do: checkpoints, groups, hooks, schedules, bfloat16."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer, lr_scheduler, swa_utils

from adamomentum_lab.contract._case import (
    Case,
    assert_same,
    check,
    feed,
    gradient,
    loss_of,
    network,
    parameter,
    through_file,
    train,
)


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
