"""The wrappers of pytorch_optimizer around AdaMomentum."""

import copy
import random

import pytest
import torch

from adamomentum import AdaMomentum
from adamomentum.torch import no_decay_groups
from tests.ecosystem.runs import (
    OPTIONS,
    Witness,
    assert_same,
    assert_same_state,
    batch,
    gradients,
    loss_of,
    network,
    train,
)

wrappers = pytest.importorskip("pytorch_optimizer")


class Constant:
    """A schedule of GSAM's radius."""

    def step(self):
        return 0.05


def around(wrapper, **settings):
    """A wrapper that takes an optimizer."""
    return lambda model, cls: wrapper(cls(model.parameters(), **OPTIONS), **settings)


def with_class(wrapper, **settings):
    """A wrapper that takes a class, and constructs it."""
    return lambda model, cls: wrapper(model.parameters(), cls, **settings, **OPTIONS)


def gsam(model, cls):
    optimizer = cls(model.parameters(), **OPTIONS)
    return wrappers.GSAM(model.parameters(), optimizer, model, Constant())


WRAPPED = {
    "Lookahead": around(wrappers.Lookahead, k=3),
    "OrthoGrad": around(wrappers.OrthoGrad),
    "TRAC": around(wrappers.TRAC),
    "Magma": around(wrappers.Magma),
    "ScheduleFreeWrapper": around(wrappers.ScheduleFreeWrapper),
    "PCGrad": around(wrappers.PCGrad),
    "SAM": with_class(wrappers.SAM),
    "LookSAM": with_class(wrappers.LookSAM, k=3),
    "FriendlySAM": with_class(wrappers.FriendlySAM),
    "WSAM": lambda model, cls: wrappers.WSAM(model, model.parameters(), cls, **OPTIONS),
    "GSAM": gsam,
}


def inner(optimizer):
    return getattr(optimizer, "base_optimizer", None) or optimizer.optimizer


def advance(name, model, optimizer, steps):
    """Train as the wrapper's documentation says."""
    if name == "ScheduleFreeWrapper":
        optimizer.train()
    for step in steps:
        torch.manual_seed(step)  # Magma draws
        random.seed(step)  # and so does PCGrad
        gradients(model, step)
        if name == "PCGrad":
            optimizer.pc_backward([loss_of(model, batch(step)), loss_of(model, batch(-1 - step))])
        if name == "GSAM":
            x = batch(step)
            optimizer.set_closure(torch.nn.functional.mse_loss, x, x[:, :3])
            optimizer.step()
        elif name.endswith("SAM"):
            optimizer.step(lambda step=step: gradients(model, step))
        else:
            optimizer.step()


@pytest.mark.parametrize("name", WRAPPED)
def test_a_wrapper_leaves_the_step_as_it_is(name):
    model = network()
    optimizer = WRAPPED[name](model, Witness)
    advance(name, model, optimizer, range(10))
    assert inner(optimizer).steps == 10


@pytest.mark.parametrize("name", WRAPPED)
def test_a_wrapped_run_continues_bit_for_bit(name, tmp_path):
    model = network()
    optimizer = WRAPPED[name](model, AdaMomentum)
    advance(name, model, optimizer, range(5))
    saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(saved, tmp_path / "saved.pt")
    advance(name, model, optimizer, range(5, 10))

    other = network()
    again = WRAPPED[name](other, AdaMomentum)
    saved = torch.load(tmp_path / "saved.pt", weights_only=False)
    other.load_state_dict(saved["model"])
    again.load_state_dict(saved["optimizer"])
    advance(name, other, again, range(5, 10))
    assert_same(model, other)
    assert_same_state(inner(optimizer), inner(again))


def test_lookahead_is_the_plain_loop():
    model, plain = network(), network()
    advance("Lookahead", model, WRAPPED["Lookahead"](model, AdaMomentum), range(10))
    slow = copy.deepcopy(plain)
    optimizer = AdaMomentum(plain.parameters(), **OPTIONS)
    for step in range(10):
        train(plain, optimizer, [step])
        if step % 3 == 2:
            with torch.no_grad():
                for fast, kept in zip(plain.parameters(), slow.parameters(), strict=True):
                    kept.copy_(fast.lerp_(kept, 0.5))
    assert_same(model, plain)


def test_sam_is_the_plain_loop():
    model, plain = network(), network()
    advance("SAM", model, WRAPPED["SAM"](model, AdaMomentum), range(10))
    optimizer = AdaMomentum(plain.parameters(), **OPTIONS)
    for step in range(10):
        gradients(plain, step)
        before = [param.detach().clone() for param in plain.parameters()]
        with torch.no_grad():
            norm = torch.cat([param.grad.flatten() for param in plain.parameters()]).norm()
            for param in plain.parameters():
                param.add_(param.grad, alpha=(0.05 / norm).item())
        gradients(plain, step)
        with torch.no_grad():
            for param, kept in zip(plain.parameters(), before, strict=True):
                param.copy_(kept)
        optimizer.step()
    for a, b in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)  # the norm is summed otherwise


def test_centralized_gradients():
    model, plain = network(), network()
    optimizers = [AdaMomentum(each.parameters(), **OPTIONS) for each in (model, plain)]
    for step in range(10):
        gradients(model, step)
        gradients(plain, step)
        with torch.no_grad():
            for param, other in zip(model.parameters(), plain.parameters(), strict=True):
                wrappers.centralize_gradient(param.grad)
                if other.ndim > 1:
                    other.grad -= other.grad.mean(dim=1, keepdim=True)
        for optimizer in optimizers:
            optimizer.step()
    assert_same(model, plain)


def test_its_groups_are_those_of_no_decay_groups():
    model, plain = network(), network()
    groups = wrappers.get_optimizer_parameters(model, 0.1, ["bias", "LayerNorm"])
    train(model, AdaMomentum(groups, lr=1e-2), range(10))
    train(plain, AdaMomentum(no_decay_groups(plain, 0.1), lr=1e-2), range(10))
    assert_same(model, plain)


def test_by_name_once_it_is_in_the_registry(monkeypatch):
    with pytest.raises(NotImplementedError):
        wrappers.load_optimizer("adamomentum")
    # There is no function that adds a class; the table is a plain dictionary.
    registry = pytest.importorskip("pytorch_optimizer.optimizer").OPTIMIZERS
    monkeypatch.setitem(registry, "adamomentum", AdaMomentum)
    assert wrappers.load_optimizer("AdaMomentum") is AdaMomentum
    model, plain = network(), network()
    created = wrappers.create_optimizer(model, "adamomentum", lr=1e-2, use_lookahead=True)
    train(model, created, range(7))
    other = wrappers.Lookahead(AdaMomentum(plain.parameters(), lr=1e-2))
    train(plain, other, range(7))
    assert_same(model, plain)
