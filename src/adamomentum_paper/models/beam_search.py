"""Beam search as fairseq does it, over all sentences at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Step = Callable[[Tensor, Tensor], Tensor]
"""Maps last tokens and parents, both (sentences, beam), to log-probabilities of the next token.

A parent is the row (sentence x beam + hypothesis) of the previous call that a hypothesis continues.
Finished sentences are left out of the next call; the others keep their order.
"""


@dataclass(frozen=True)
class Hypotheses:
    """The hypotheses of each sentence, best first."""

    tokens: Tensor
    """(sentences, beam, longest), without the end token, padded with it."""
    lengths: Tensor
    """Number of tokens of each, without the end token."""
    scores: Tensor
    """Score of each; -inf if fewer than `beam` were found."""

    def best(self) -> list[list[int]]:
        """Return the best hypothesis of each sentence."""
        tokens, lengths = self.tokens[:, 0].tolist(), self.lengths[:, 0].tolist()
        return [row[:length] for row, length in zip(tokens, lengths, strict=True)]


def beam_search(
    step: Step, limits: Tensor, beam: int, end: int, penalty: float = 1.0, least: int = 1
) -> Hypotheses:
    """Search the likeliest sequences with a beam.

    A hypothesis is finished when its end is among the best `beam` continuations of its sentence. A
    sentence is finished when `beam` hypotheses are, or at its limit. The score is the sum of
    log-probabilities divided by length^penalty, where the end counts as a token. Each sentence has
    its own limit, unlike in fairseq, so the result does not depend on the batch.

    Args:
        step: the network.
        limits: the largest number of tokens before the end, for each sentence.
        beam: hypotheses per sentence.
        end: the token that ends, and begins, a sequence.
        penalty: 0 prefers short sequences, 1 compares means, more prefers long sequences.
        least: the smallest number of tokens before the end.
    """
    n, longest, device = len(limits), int(limits.max()), limits.device
    done = Hypotheses(
        torch.full((n, beam, longest), end, device=device),
        torch.zeros((n, beam), dtype=torch.int64, device=device),
        torch.full((n, beam), -torch.inf, device=device),
    )
    count = torch.zeros(n, dtype=torch.int64, device=device)  # finished hypotheses
    # Unfinished sentences, and the hypotheses of each; there is only one at the start.
    sentences = torch.arange(n, device=device)
    tokens = torch.full((n, beam, longest), end, device=device)
    scores = torch.full((n, beam), -torch.inf, device=device)
    scores[:, 0] = 0.0
    last = tokens.new_full((n, beam), end)
    parents = torch.arange(n * beam, device=device).view(n, beam)
    for length in range(longest + 1):
        continued = scores.unsqueeze(-1) + step(last, parents)
        _allow(continued, end, length >= least, limits[sentences] == length)
        vocabulary = continued.shape[-1]
        # Twice as many as needed: at most `beam` of them end.
        top, index = continued.flatten(1).topk(2 * beam)
        origin, token = index // vocabulary, index % vocabulary
        ends = (token == end) & (top > -torch.inf)

        place = count[sentences, None] + ends[:, :beam].cumsum(1) - 1
        row, rank = (ends[:, :beam] & (place < beam)).nonzero(as_tuple=True)
        at = (sentences[row], place[row, rank])
        done.tokens[at] = tokens[row, origin[row, rank]]
        done.lengths[at] = length
        done.scores[at] = top[row, rank].to(done.scores) / (length + 1) ** penalty
        count[sentences] += ends[:, :beam].sum(1)

        left = ((count[sentences] < beam) & (limits[sentences] > length)).nonzero().squeeze(1)
        if not len(left):
            break
        # The best `beam` that do not end; they stay in the order of their scores.
        going = ends[left].byte().sort(stable=True).indices[:, :beam]
        origin, last = origin[left].gather(1, going), token[left].gather(1, going)
        scores = top[left].gather(1, going)
        parents = left[:, None] * beam + origin
        sentences, tokens = sentences[left], tokens.flatten(0, 1)[parents]
        tokens[..., length] = last
    scores, order = done.scores.sort(stable=True, descending=True)
    lengths = done.lengths.gather(1, order)
    rows = torch.arange(n, device=device)[:, None]
    return Hypotheses(done.tokens[rows, order], lengths, scores)


def _allow(continued: Tensor, end: int, may_end: bool, must_end: Tensor) -> None:
    """Rule out tokens that must not come next."""
    if not may_end:
        continued[..., end] = -torch.inf
    if bool(must_end.any()):
        ending = continued[..., end].clone()
        continued.masked_fill_(must_end[:, None, None], -torch.inf)
        continued[..., end] = ending
