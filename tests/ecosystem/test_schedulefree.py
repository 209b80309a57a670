"""schedulefree's wrapper around AdaMomentum."""

import pytest
import torch

from adamomentum import AdaMomentum
from tests.ecosystem.runs import (
    Witness,
    assert_same,
    assert_same_state,
    gradients,
    network,
    train,
)

schedulefree = pytest.importorskip("schedulefree")
MOMENTUM = 0.9


def wrapped(model, cls=AdaMomentum, wrapper=schedulefree.ScheduleFreeWrapper):
    base = cls(model.parameters(), lr=1e-2)
    return wrapper(base, momentum=MOMENTUM, weight_decay_at_y=0.1)


WRAPPERS = [schedulefree.ScheduleFreeWrapper, schedulefree.ScheduleFreeWrapperReference]


@pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda wrapper: wrapper.__name__)
def test_it_leaves_the_step_as_it_is(wrapper):
    model = network()
    optimizer = wrapped(model, Witness, wrapper)
    optimizer.train()
    train(model, optimizer, range(10))
    assert optimizer.base.steps == 10


def test_it_is_the_plain_loop():
    """y is where gradients are taken, z where AdaMomentum steps, x the average of its points."""
    model, y = network(), network()
    optimizer = wrapped(model)
    optimizer.train()
    train(model, optimizer, range(10))
    averaged, fast = network(), network()
    base = AdaMomentum(fast.parameters(), lr=1e-2)
    with torch.no_grad():
        for step in range(10):
            with torch.enable_grad():
                gradients(y, step)
            for at_z, at_y in zip(fast.parameters(), y.parameters(), strict=True):
                at_z.sub_(at_y, alpha=1e-2 * 0.1)
                at_z.grad = at_y.grad
            base.step()
            for x, z, at_y in zip(
                averaged.parameters(), fast.parameters(), y.parameters(), strict=True
            ):
                x.lerp_(z, 1 / (step + 1))
                at_y.copy_(x.lerp(z, 1 - MOMENTUM))
    compare(model, y)
    optimizer.eval()
    compare(model, averaged)
    for param, z in zip(model.parameters(), fast.parameters(), strict=True):
        torch.testing.assert_close(optimizer.state[param]["z"], z, rtol=1e-4, atol=1e-5)


def compare(model, other):
    # x is not kept but recovered from y and z, which costs digits.
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_evaluating_in_between_changes_nothing_but_rounding():
    model, plain = network(), network()
    optimizer, other = wrapped(model), wrapped(plain)
    for each in (optimizer, other):
        each.train()
    for step in range(10):
        train(model, optimizer, [step])
        optimizer.eval()
        optimizer.train()
    train(plain, other, range(10))
    compare(model, plain)


def test_a_run_continues_bit_for_bit(tmp_path):
    model, other = network(), network()
    optimizer = wrapped(model)
    optimizer.train()
    train(model, optimizer, range(5))
    optimizer.eval()  # the weights to keep; train() goes back
    saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(saved, tmp_path / "saved.pt")
    optimizer.train()
    train(model, optimizer, range(5, 10))

    again = wrapped(other)
    saved = torch.load(tmp_path / "saved.pt", weights_only=True)
    other.load_state_dict(saved["model"])
    again.load_state_dict(saved["optimizer"])
    again.train()
    train(other, again, range(5, 10))
    assert_same(model, other)
    assert_same_state(optimizer.base, again.base)
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(optimizer.state[a]["z"], again.state[b]["z"])


@pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda wrapper: wrapper.__name__)
def test_it_needs_no_preparation(wrapper):
    """It keeps z in AdaMomentum's state, before there is anything else in it."""
    model = network()
    optimizer = wrapper(Witness(model.parameters(), lr=1e-2))
    optimizer.train()
    train(model, optimizer, range(3))


def test_z_is_loaded_in_the_dtype_of_the_parameter():
    """As torch loads what it finds in a state, which is also how it comes to its device."""
    model = network()
    optimizer = wrapped(model)
    optimizer.train()
    train(model, optimizer, range(3))
    other = network(torch.float64)
    again = wrapped(other)
    again.load_state_dict(optimizer.state_dict())
    assert {again.state[param]["z"].dtype for param in other.parameters()} == {torch.float64}
