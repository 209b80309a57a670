"""Beam search as fairseq does it, over all sentences at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Step = Callable[[Tensor, Tensor], Tensor]
"""Last tokens and parents, both (sentences, beam), to the log-probabilities of the next token.

A parent is the row (sentence x beam + hypothesis) of the call before that is continued. Sentences
that are done are left out of the next call; the others stay in their order.
"""


@dataclass(frozen=True)
class Hypotheses:
    """Of each sentence, the best first."""

    tokens: Tensor
    """(sentences, beam, longest), without the end; filled with it."""
    lengths: Tensor
    """Tokens of each, without the end."""
    scores: Tensor
    """Of each; -inf where fewer than `beam` were found."""

    def best(self) -> list[list[int]]:
        """The first of each sentence."""
        tokens, lengths = self.tokens[:, 0].tolist(), self.lengths[:, 0].tolist()
        return [row[:length] for row, length in zip(tokens, lengths, strict=True)]


def beam_search(
    step: Step, limits: Tensor, beam: int, end: int, penalty: float = 1.0, least: int = 1
) -> Hypotheses:
    """The likeliest sequences, as far as a beam finds them.

    A hypothesis is finished once its end is among the best `beam` continuations of its sentence,
    and a sentence once `beam` of them are, or its limit is reached. The score is the sum of
    log-probabilities divided by length^penalty, where the end counts as a token. Unlike fairseq's,
    the limit is each sentence's own: what it is batched with makes no difference.

    Args:
        step: what the network says.
        limits: of each sentence, the most tokens before its end.
        beam: hypotheses of each sentence.
        end: the token that ends, and begins, a sequence.
        penalty: 0 prefers short ones, 1 compares means, more prefers long ones.
        least: tokens that must come before the end.
    """
    n, longest, device = len(limits), int(limits.max()), limits.device
    done = Hypotheses(
        torch.full((n, beam, longest), end, device=device),
        torch.zeros((n, beam), dtype=torch.int64, device=device),
        torch.full((n, beam), -torch.inf, device=device),
    )
    count = torch.zeros(n, dtype=torch.int64, device=device)  # of finished ones
    # Those not finished, and the hypotheses of each; at the start there is but one.
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
    """Rule out what must not come next."""
    if not may_end:
        continued[..., end] = -torch.inf
    if bool(must_end.any()):
        ending = continued[..., end].clone()
        continued.masked_fill_(must_end[:, None, None], -torch.inf)
        continued[..., end] = ending
