"""Checks of the steps themselves: what they change, and by how much."""

from __future__ import annotations

import inspect

import torch
from torch import nn

from adamomentum_lab.contract._case import (
    Case,
    assert_same,
    check,
    feed,
    gradient,
    loss_of,
    network,
    parameter,
    train,
)


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
