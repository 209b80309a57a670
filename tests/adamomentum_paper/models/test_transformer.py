"""The Transformer: its size and start, what it may see, decoding step by step."""

import math

import pytest
import torch
from torch import nn

from adamomentum import AdaMomentum
from adamomentum_lab.catalog import find_workload
from adamomentum_paper.models.transformer import Cache, Shape, Transformer, sinusoids

PAD = 0
SMALL = Shape(layers=2, width=16, hidden=24, heads=4)


@pytest.fixture
def network():
    torch.manual_seed(0)
    return Transformer(11, PAD, SMALL).double().eval()


def tokens(*shape, seed=0):
    return torch.randint(1, 11, shape, generator=torch.Generator().manual_seed(seed))


def test_size_of_the_papers_network():
    attention = 4 * (512 * 512 + 512)
    feed_forward = (512 * 1024 + 1024) + (1024 * 512 + 512)
    encoder = attention + feed_forward + 2 * 1024
    decoder = 2 * attention + feed_forward + 3 * 1024
    expected = 10_000 * 512 + 6 * (encoder + decoder) + 2 * 1024
    assert expected == 36_665_344
    assert sum(param.numel() for param in Transformer(10_000, PAD).parameters()) == expected
    assert Shape() == Shape(6, 512, 1024, 4, 0.3, 0.1, 0.1)


def test_it_starts_as_fairseqs():
    torch.manual_seed(0)
    network = Transformer(1000, PAD, Shape(layers=1, width=128, hidden=256)).requires_grad_(False)
    weight = network.embedding.weight
    assert weight[PAD].abs().max() == 0
    assert weight[1:].std() == pytest.approx(128**-0.5, rel=0.02)
    # Xavier's bound is gain sqrt(6 / (in + out)), and sqrt(3) standard deviations.
    glorot = math.sqrt(6 / 256)
    layer = network.decoder[0]
    for projection in (layer.own.query.weight, *layer.cross.key_value.weight.chunk(2)):
        assert projection.abs().max() == pytest.approx(glorot / math.sqrt(2), rel=0.01)
        assert projection.std() == pytest.approx(glorot / math.sqrt(6), rel=0.02)
    assert layer.cross.out.weight.abs().max() == pytest.approx(glorot, rel=0.01)
    wide = layer.feed_forward[0].weight
    assert wide.abs().max() == pytest.approx(math.sqrt(6 / 384), rel=0.01)
    for module in network.modules():
        if isinstance(module, nn.Linear):
            assert module.bias.abs().max() == 0


def test_positions():
    table = sinusoids(torch.arange(5), 6)
    for position in range(5):
        for i, wavelength in enumerate((1.0, 100.0, 10_000.0)):
            assert table[position, i] == pytest.approx(math.sin(position / wavelength), abs=1e-6)
            assert table[position, i + 3] == pytest.approx(math.cos(position / wavelength))
    torch.testing.assert_close(sinusoids(torch.tensor([3]), 6), table[3:4])


def test_nothing_is_seen_of_later_tokens(network):
    source, target = tokens(3, 6), tokens(3, 7, seed=1)
    logits = network(source, target)
    for at in range(7):
        changed = target.clone()
        changed[:, at] = changed[:, at] % 10 + 1
        other = network(source, changed)
        assert torch.equal(other[:, :at], logits[:, :at])
        assert (other[:, at:] != logits[:, at:]).any(-1).all()


def test_every_token_of_the_source_is_seen(network):
    source, target = tokens(3, 6), tokens(3, 4, seed=1)
    logits = network(source, target)
    for at in range(6):
        changed = source.clone()
        changed[:, at] = changed[:, at] % 10 + 1
        assert (network(changed, target) != logits).any(-1).all()


def test_padding_changes_nothing(network):
    source, target = tokens(3, 6), tokens(3, 5, seed=1)
    logits = network(source, target)
    pad = nn.functional.pad
    padded = network(pad(source, (0, 4), value=PAD), pad(target, (0, 2), value=PAD))
    torch.testing.assert_close(padded[:, :5], logits)
    long = torch.cat([pad(source, (0, 4), value=PAD), tokens(1, 10, seed=2)])
    among = network(long, torch.cat([target, tokens(1, 5, seed=3)]))
    torch.testing.assert_close(among[:3], logits)


def test_step_by_step_is_all_at_once(network):
    """Also where hypotheses change their places, and sentences are dropped."""
    beam, draw = 3, torch.Generator().manual_seed(0)
    source = tokens(4, 6)
    source[1, 4:] = source[3, 2:] = PAD
    prefix = torch.empty(4, beam, 0, dtype=torch.int64)
    parents = torch.arange(4 * beam).view(4, beam)
    alive, cache = torch.arange(4), Cache()
    for step in range(6):
        if step in (2, 4):  # the second, then the first of those left
            keep = torch.tensor([0, 2, 3] if step == 2 else [1, 2])
            alive, prefix = alive[keep], prefix[keep]
            parents = torch.randint(beam, (len(keep), beam), generator=draw)
            prefix = prefix.gather(1, parents[..., None].expand(-1, -1, step))
            parents = parents + keep[:, None] * beam
        else:
            parents = torch.arange(len(alive) * beam).view(-1, beam)
        last = tokens(len(alive), beam, seed=10 + step)
        prefix = torch.cat([prefix, last[..., None]], 2)
        cache.reorder(parents)
        logits = network(source, last, cache)
        whole = network(source[alive].repeat_interleave(beam, 0), prefix.flatten(0, 1))
        torch.testing.assert_close(logits.flatten(0, 1), whole[:, -1], rtol=0, atol=1e-10)


def test_step_by_step_in_single_precision(network):
    network = network.float()
    source, target = tokens(2, 5), tokens(2, 8, seed=1)
    cache = Cache()
    steps = [network(source, target[:, i : i + 1], cache) for i in range(8)]
    torch.testing.assert_close(torch.cat(steps, 1), network(source, target), rtol=0, atol=1e-5)


def test_dropout_is_for_training_alone(network):
    source, target = tokens(2, 5), tokens(2, 5, seed=1)
    assert torch.equal(network(source, target), network(source, target))
    network.train()
    assert not torch.equal(network(source, target), network(source, target))


def test_a_step_of_the_papers_network():
    torch.manual_seed(0)
    workload = find_workload("multi30k_transformer").load()("full", "paper")
    network = Transformer(10_000, PAD, workload.shapes["full"])
    before = [param.detach().clone() for param in network.parameters()]
    source, target = (torch.randint(3, 10_000, (2, n)) for n in (7, 9))
    loss = workload.loss(network, (source, target))
    assert loss.item() == pytest.approx(math.log(10_000), rel=0.3)
    loss.backward()
    AdaMomentum(network.parameters(), lr=5e-4).step()
    for (name, param), old in zip(network.named_parameters(), before, strict=True):
        assert torch.isfinite(param).all()
        assert not torch.equal(param, old), name
