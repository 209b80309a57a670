"""The character GPT: its passages, its loss, what the scales have in common."""

import math

import pytest
import torch

from adamomentum_lab.training.feed import feed, in_order
from adamomentum_paper.workloads import shakespeare_gpt
from adamomentum_paper.workloads.shakespeare_gpt import Passages, ShakespeareGPT


@pytest.fixture
def workload(monkeypatch):
    text = torch.randint(65, (5_000,), generator=torch.Generator().manual_seed(0))
    monkeypatch.setattr(shakespeare_gpt, "tiny_shakespeare", lambda: (text.split(2_000), []))
    return ShakespeareGPT("smoke")


def test_training_passages_are_from_anywhere():
    source = Passages(torch.arange(100), 10, batch=4, updates=200)
    batches = list(feed(source, seed=1, epoch=0))
    assert len(batches) == len(source) == 200
    for characters, following in batches:
        assert characters.shape == following.shape == (4, 10)
        assert torch.equal(following, characters + 1)
        assert torch.equal(characters, characters[:, :1] + torch.arange(10))
    begins = torch.cat([characters[:, 0] for characters, _ in batches])
    assert begins.unique().tolist() == list(range(90))  # the last one is followed by the 99
    again = next(feed(source, seed=1, epoch=1))
    assert not torch.equal(again[0], batches[0][0])


@pytest.mark.parametrize(("size", "passages"), [(101, 10), (100, 9), (11, 1)])
def test_evaluated_passages_follow_one_another(size, passages):
    source = Passages(torch.arange(size), 10, batch=4, updates=1)
    seen = torch.cat([characters.flatten() for characters, _ in in_order(source)])
    assert torch.equal(seen, torch.arange(10 * passages))


def test_an_untrained_network_predicts_at_random(workload):
    torch.manual_seed(0)
    model = workload.model()
    with torch.no_grad():
        scores = workload.evaluate(model, workload.data().validation)
    assert scores["loss"] == pytest.approx(math.log(65), rel=0.01)
    assert workload.metric == "loss"
    assert not workload.larger_is_better


def test_the_loss_is_a_mean_over_characters(workload):
    torch.manual_seed(0)
    model = workload.model().double()
    characters, following = next(in_order(workload.source(workload.data().test, training=False)))
    logits = model(characters).log_softmax(-1)
    picked = torch.stack(
        [logits[i, j, following[i, j]] for i in range(len(logits)) for j in range(len(logits[0]))]
    )
    torch.testing.assert_close(workload.loss(model, (characters, following)), -picked.mean())


def test_scales():
    mini, full = ShakespeareGPT("mini"), ShakespeareGPT("full")
    sizes = [sum(param.numel() for param in one.model().parameters()) for one in (mini, full)]
    assert sizes[0] == sizes[1] == 804_224
    assert full.batch == 2 * mini.batch
