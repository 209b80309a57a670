"""The LSTM of the language models: each kind of dropout against torch's own layers."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from adamomentum_paper.models.lstm import LSTMLanguageModel, LSTMLayer, locked_dropout


def states(layer, batch):
    return torch.randn(1, batch, layer.hidden_size), torch.randn(1, batch, layer.hidden_size)


def test_a_layer_is_torchs_with_a_thinner_matrix():
    torch.manual_seed(0)
    layer = LSTMLayer(5, 7, 0.5)
    x, state = torch.randn(6, 3, 5), states(layer, 3)
    plain = nn.LSTM(5, 7)
    plain.load_state_dict(layer.state_dict())
    layer.eval()
    for ours, theirs in zip(layer(x, state)[1], plain(x, state)[1], strict=True):
        assert torch.equal(ours, theirs)
    layer.train()
    torch.manual_seed(1)
    output, _ = layer(x, state)
    torch.manual_seed(1)
    thinned = functional.dropout(layer.weight_hh_l0, 0.5)
    assert 0.3 < (thinned == 0).float().mean() < 0.7
    with torch.no_grad():
        plain.weight_hh_l0.copy_(thinned)
    torch.testing.assert_close(output, plain(x, state)[0])
    output.sum().backward()
    dropped = thinned == 0
    assert not layer.weight_hh_l0.grad[dropped].any()
    assert layer.weight_hh_l0.grad[~dropped].all()


def test_locked_dropout_drops_the_same_units_at_every_step():
    torch.manual_seed(0)
    x = torch.ones(9, 4, 50)
    out = locked_dropout(x, 0.4, training=True)
    assert torch.equal(out, out[:1].expand_as(out))
    assert set(out.unique().tolist()) == {0.0, torch.tensor(1 / 0.6).item()}
    assert not torch.equal(out[0, 0], out[0, 1])
    assert locked_dropout(x, 0.4, training=False) is x


def test_a_dropped_word_is_dropped_wherever_it_stands():
    torch.manual_seed(0)
    network = LSTMLanguageModel(
        30, 8, 8, 1, dropout=0, between=0, inputs=0, embedding=0.3, recurrent=0
    )
    seen = []
    network.layers[0].register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    words = torch.arange(30).repeat(2)[:, None].expand(60, 3)
    network(words, network.zero_state(3))
    (x,) = seen
    assert torch.equal(x[:30], x[30:])
    ratio = x[:30, 0] / network.embedding.weight
    scales = ratio.round(decimals=4).unique().tolist()
    assert scales == pytest.approx([0.0, 1 / 0.7], abs=1e-4)
    per_word = (x[:30, 0] == 0).all(1)
    assert 0 < per_word.sum() < 20
    network.eval()
    network(words, network.zero_state(3))
    assert torch.equal(seen[1][:30, 0], network.embedding.weight)


def test_every_dropout_is_on_in_training_and_none_in_evaluation():
    torch.manual_seed(0)
    off = dict.fromkeys(("dropout", "between", "inputs", "embedding", "recurrent"), 0.0)
    words = torch.randint(30, (12, 4))
    for name in off:
        network = LSTMLanguageModel(30, 8, 8, 2, **{**off, name: 0.5})
        one, two = (network(words, network.zero_state(4))[0] for _ in range(2))
        assert not torch.equal(one, two), name
        network.eval()
        one, two = (network(words, network.zero_state(4))[0] for _ in range(2))
        assert torch.equal(one, two)
