"""The GPT: its size and start, what it may see, and its positions."""

import math

import pytest
import torch
from torch.nn import functional

from adamomentum_paper.models.gpt import GPT, Shape, angles, rotate

SHAPE = Shape(layers=2, width=16, heads=4, context=12)


@pytest.fixture
def network():
    torch.manual_seed(0)
    return GPT(11, SHAPE).double()


def test_size():
    block = 12 * 128 * 128 + 2 * 128
    expected = 2 * 65 * 128 + 4 * block + 128
    network = GPT(65, Shape(4, 128, 4, 64))
    assert sum(param.numel() for param in network.parameters()) == expected == 804_224


def test_it_starts_as_gpt_2():
    torch.manual_seed(0)
    network = GPT(500, Shape(4, 128, 4, 64))
    deviations = {name: float(p.detach().std()) for name, p in network.named_parameters()}
    for name, param in network.named_parameters():
        if "norm" in name:
            assert (param == 1).all()
        else:
            added = "out." in name or "narrow." in name  # twice in each of four blocks
            expected = 0.02 / math.sqrt(8) if added else 0.02
            assert deviations[name] == pytest.approx(expected, rel=0.03)
    loss = functional.cross_entropy(network(torch.arange(64)[None])[0], torch.arange(64))
    assert loss.item() == pytest.approx(math.log(500), rel=0.02)


def test_nothing_is_seen_of_what_follows(network):
    tokens = torch.randint(11, (2, 12))
    changed = tokens.clone()
    changed[:, 7:] = (changed[:, 7:] + 1) % 11
    torch.testing.assert_close(network(tokens)[:, :7], network(changed)[:, :7])
    assert not torch.allclose(network(tokens)[:, 7:], network(changed)[:, 7:])
    torch.testing.assert_close(network(tokens[:, :5]), network(tokens)[:, :5])


def test_attention_goes_by_distance_alone():
    turns = tuple(part.double() for part in angles(20, 8))
    query, key = torch.randn(2, 1, 8, dtype=torch.float64).unbind()

    def product(i, j):
        of_i, of_j = (tuple(part[k : k + 1] for part in turns) for k in (i, j))
        return float((rotate(query, of_i) * rotate(key, of_j)).sum())

    assert product(3, 1) == pytest.approx(product(17, 15), rel=1e-5)
    assert product(5, 5) == pytest.approx(float((query * key).sum()), rel=1e-5)
    assert abs(product(3, 1) - product(4, 1)) > 1e-3


def test_a_turn_by_hand():
    """The first pair of coordinates turns by one radian a position."""
    x = torch.tensor([[1.0, 0.0, 0.0, 0.0]] * 2)
    turned = rotate(x, angles(2, 4))
    assert turned[0].tolist() == [1, 0, 0, 0]
    assert turned[1].tolist() == pytest.approx([math.cos(1), 0, math.sin(1), 0])
