"""Beam search against every sequence there is."""

import itertools
import math

import pytest
import torch

from adamomentum_paper.models.beam_search import beam_search

END = 1


class Table:
    """A step function: log-probabilities drawn anew for every sentence and prefix."""

    def __init__(self, vocabulary, seed, sharpness=1.0):
        self.vocabulary, self.seed, self.sharpness = vocabulary, seed, sharpness
        self.prefixes = None

    def after(self, sentence, prefix):
        draw = torch.Generator().manual_seed(hash((self.seed, sentence, prefix)) % 2**31)
        logits = self.sharpness * torch.randn(self.vocabulary, generator=draw)
        return logits.log_softmax(0)

    def __call__(self, last, parents):
        rows = parents.flatten().tolist()
        if self.prefixes is None:
            beam = parents.shape[1]
            self.prefixes = [(row // beam, ()) for row in rows]
        else:
            tokens = last.flatten().tolist()
            old = [self.prefixes[row] for row in rows]
            self.prefixes = [(s, (*p, token)) for (s, p), token in zip(old, tokens, strict=True)]
        found = torch.stack([self.after(*prefix) for prefix in self.prefixes])
        return found.view(*last.shape, -1)

    def score(self, sentence, sequence, penalty):
        whole = (*sequence, END)
        total = sum(float(self.after(sentence, whole[:i])[whole[i]]) for i in range(len(whole)))
        return total / len(whole) ** penalty


@pytest.mark.parametrize("penalty", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_with_room_for_all_it_is_exhaustive(seed, penalty):
    limits = torch.tensor([3, 1, 2])
    others = [0, 2, 3]
    table = Table(4, seed)
    found = beam_search(table, limits, beam=40, end=END, penalty=penalty)
    for sentence, limit in enumerate(limits.tolist()):
        every = [
            sequence
            for length in range(1, limit + 1)
            for sequence in itertools.product(others, repeat=length)
        ]
        scores = {sequence: table.score(sentence, sequence, penalty) for sequence in every}
        ranked = sorted(every, key=scores.__getitem__, reverse=True)
        assert len(ranked) < 40
        for place, sequence in enumerate(ranked):
            length = int(found.lengths[sentence, place])
            assert tuple(found.tokens[sentence, place, :length].tolist()) == sequence
            assert float(found.scores[sentence, place]) == pytest.approx(scores[sequence], abs=1e-5)
        assert bool(torch.isinf(found.scores[sentence, len(ranked) :]).all())


@pytest.mark.parametrize("seed", range(5))
def test_a_beam_of_one_is_greedy(seed):
    limits = torch.tensor([9, 4, 6, 9])
    found = beam_search(Table(6, seed), limits, beam=1, end=END).best()
    table = Table(6, seed)
    for sentence, limit in enumerate(limits.tolist()):
        greedy = ()
        while len(greedy) < limit:
            log_p = table.after(sentence, greedy)
            if not greedy:
                log_p[END] = -math.inf
            token = int(log_p.argmax())
            if token == END:
                break
            greedy = (*greedy, token)
        assert tuple(found[sentence]) == greedy


@pytest.mark.parametrize("seed", range(5))
def test_neighbours_make_no_difference(seed):
    limits = torch.tensor([8, 3, 5])
    together = beam_search(Table(6, seed, 2.0), limits, beam=3, end=END)
    for sentence, limit in enumerate(limits):
        alone = Table(6, seed, 2.0)
        alone.prefixes = [(sentence, ())] * 3

        first = torch.stack([alone.after(*p) for p in alone.prefixes]).view(1, 3, -1)
        answers = itertools.chain([lambda *_, first=first: first], itertools.repeat(alone))

        def step(last, parents, answers=answers):
            return next(answers)(last, parents)

        one = beam_search(step, limit[None], beam=3, end=END)
        assert one.best()[0] == together.best()[sentence]
        torch.testing.assert_close(one.scores[0], together.scores[sentence])


def constant(probabilities):
    log_p = torch.tensor(probabilities).log()
    return lambda last, parents: log_p.expand(*last.shape, -1).clone()


def test_length_penalty_by_hand():
    # Tokens: 0 with 0.6, the end with 0.4; three hypotheses of 1, 2 and 3 tokens and the end.
    step = constant([0.6, 0.4])
    logs = {n: n * math.log(0.6) + math.log(0.4) for n in (1, 2, 3)}
    for penalty in (0.0, 1.0):
        found = beam_search(step, torch.tensor([3]), beam=4, end=END, penalty=penalty)
        expected = sorted((logs[n] / (n + 1) ** penalty for n in logs), reverse=True)
        assert found.scores[0, :3].tolist() == pytest.approx(expected)
    assert beam_search(step, torch.tensor([3]), 4, END, 0.0).best() == [[0]]
    assert beam_search(step, torch.tensor([3]), 4, END, 1.0).best() == [[0, 0, 0]]


def test_it_stops_once_a_beam_is_finished():
    calls = []
    plain = constant([0.05, 0.9, 0.05])

    def step(last, parents):
        calls.append(len(last))
        return plain(last, parents)

    found = beam_search(step, torch.tensor([50, 50]), beam=2, end=END)
    assert calls == [2, 2]  # the end is ruled out first, then best after either token
    assert found.lengths.tolist() == [[1, 1], [1, 1]]


def test_an_end_below_the_beam_finishes_nothing():
    # Of 5 tokens the end is the least likely: only the limit brings it.
    found = beam_search(constant([0.3, 0.01, 0.3, 0.2, 0.19]), torch.tensor([4]), beam=2, end=END)
    assert found.lengths.tolist() == [[4, 4]]


def test_a_network_that_is_lost_ends_too():
    nothing = constant([float("nan")] * 4)
    found = beam_search(nothing, torch.tensor([3, 5]), beam=2, end=END)
    assert found.best() == [[], []]
    assert bool(torch.isinf(found.scores).all())
