"""What optimi has for optimizers that are not its own."""

import pytest
import torch
from torch import nn

from adamomentum import AdaMomentum
from adamomentum.torch import no_decay_groups
from tests.ecosystem.runs import OPTIONS, assert_same, batch, loss_of, network, train

optimi = pytest.importorskip("optimi")


def test_its_groups_are_those_of_no_decay_groups():
    model, plain = network(), network()
    groups = optimi.param_groups_weight_decay(model, weight_decay=0.1)
    train(model, AdaMomentum(groups, lr=1e-2), range(10))
    train(plain, AdaMomentum(no_decay_groups(plain, 0.1), lr=1e-2), range(10))
    assert_same(model, plain)


def test_a_model_in_its_low_precision():
    """Embeddings stay in float32 beside bfloat16; each is as it would be alone."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(4, 5), nn.Linear(5, 3))
    optimi.to_low_precision(model)
    dtypes = [param.dtype for param in model.parameters()]
    assert dtypes == [torch.float32, torch.bfloat16, torch.bfloat16]
    alone = [nn.Parameter(param.detach().clone()) for param in model.parameters()]
    optimizer = AdaMomentum(model.parameters(), stochastic_rounding=True, **OPTIONS)
    others = [AdaMomentum([param], stochastic_rounding=True, **OPTIONS) for param in alone]
    for step in range(10):
        generator = torch.Generator().manual_seed(step)
        for param, other in zip(model.parameters(), alone, strict=True):
            param.grad = torch.randn(param.shape, generator=generator).to(param.dtype)
            other.grad = param.grad.clone()
        for each in (optimizer, *others):
            each.step()
    for param, other in zip(model.parameters(), alone, strict=True):
        assert torch.equal(param, other)
        assert optimizer.state[param]["exp_avg"].dtype is torch.float32


def test_its_gradient_release_is_for_its_own_optimizers():
    """It steps one parameter of an optimizer; with AdaMomentum, each has an optimizer."""
    model, plain = network(), network()
    with pytest.raises(TypeError, match="OptimiOptimizer"):
        optimi.prepare_for_gradient_release(model, AdaMomentum(model.parameters()))
    own = {param: AdaMomentum([param], **OPTIONS) for param in model.parameters()}

    def release(param):
        own[param].step()
        own[param].zero_grad()

    for param in model.parameters():
        param.register_post_accumulate_grad_hook(release)
    for step in range(10):
        loss_of(model, batch(step)).backward()
    train(plain, AdaMomentum(plain.parameters(), **OPTIONS), range(10))
    assert_same(model, plain)
