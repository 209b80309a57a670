"""The quick network: its whitened first layer, its shapes, its start."""

import pytest
import torch
from torch.nn import functional

from adamomentum_paper.models.quick import FLOOR, QuickNet, whitening_filters


@pytest.fixture(scope="module")
def images():
    """Smooth and coloured, so that neighbours and channels correlate."""
    noise = torch.randn(300, 3, 36, 36, generator=torch.Generator().manual_seed(0))
    smooth = functional.avg_pool2d(noise, 5, 1) + 0.1 * noise[:, :, 2:-2, 2:-2]
    mixed = torch.einsum("dc,nchw->ndhw", torch.tensor([[3.0, 1, 1], [1, 2, 1], [1, 1, 1]]), smooth)
    return mixed + 1


def outputs(filters, images):
    return functional.conv2d(images, filters, stride=filters.shape[-1]).transpose(0, 1).flatten(1)


def test_patches_come_out_white(images):
    filters = whitening_filters(images, 2, 6).double()
    found = outputs(filters[:6], images.double())
    # Each variance v becomes v / (v + FLOOR).
    patches = functional.unfold(images.double(), 2, stride=2).transpose(1, 2).flatten(0, 1)
    variances = torch.linalg.eigvalsh(torch.cov(patches.T, correction=0)).flip(0)[:6]
    expected = torch.diag(variances / (variances + FLOOR))
    torch.testing.assert_close(torch.cov(found, correction=0), expected, rtol=1e-4, atol=1e-4)


def test_filters_come_in_both_signs_and_are_reproducible(images):
    filters = whitening_filters(images, 4, 16)
    assert filters.shape == (32, 3, 4, 4)
    assert torch.equal(filters[16:], -filters[:16])
    flat = filters[:16].flatten(1)
    assert (flat.gather(1, flat.abs().argmax(1, keepdim=True)) > 0).all()
    assert torch.equal(filters, whitening_filters(images, 4, 16))
    # Of a negative picture the covariance is the same, and so are the filters.
    torch.testing.assert_close(whitening_filters(-images, 4, 16), filters, rtol=1e-4, atol=1e-4)


def test_size_and_what_is_trained(images):
    network = QuickNet(whitening_filters(images, 2, 12), (16, 64, 96), 10)
    convolutions = 9 * (24 * 16 + 16 * 16 + 16 * 64 + 64 * 64 + 64 * 96 + 96 * 96)
    norms = 2 * 2 * (16 + 64 + 96)
    trained = {name: param.numel() for name, param in network.named_parameters()}
    assert sum(trained.values()) == convolutions + norms + 960
    assert "filters" not in trained
    assert "filters" in network.state_dict()


def test_a_step_by_step_pass(images):
    torch.manual_seed(0)
    network = QuickNet(whitening_filters(images, 2, 12), (8, 8, 8), 10).eval()
    seen = {}
    for i, block in enumerate(network.blocks):
        block.register_forward_hook(lambda _m, _i, out, i=i: seen.update({i: out}))
    logits = network(images[:5])
    assert [tuple(seen[i].shape[2:]) for i in range(3)] == [(15, 15), (7, 7), (3, 3)]
    largest = seen[2].flatten(2).max(2).values
    torch.testing.assert_close(logits, largest @ network.head.weight.T)
