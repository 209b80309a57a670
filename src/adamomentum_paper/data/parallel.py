"""Sentences and their translations: as text, as tokens, and in batches of similar length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from adamomentum_lab.errors import LabError
from adamomentum_lab.source import permutation

# Tokens of every vocabulary. END also begins a translation, as in fairseq.
PAD, END, UNKNOWN = 0, 1, 2
SPECIAL = 3


class Subwords(Protocol):
    """Cuts sentences into pieces of words, and joins them again."""

    @property
    def size(self) -> int:
        """The size of the vocabulary, with the special tokens."""

    def numbers(self, sentences: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each sentence, without END."""

    def sentence(self, numbers: Sequence[int]) -> str:
        """Return the text of some tokens."""


@dataclass(frozen=True)
class Text:
    """Sentences, and the translation of each."""

    source: Sequence[str]
    target: Sequence[str]

    def __post_init__(self) -> None:
        if len(self.source) != len(self.target):
            raise LabError(
                f"there are {len(self.source):,} sentences and {len(self.target):,} translations."
            )

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, part: slice) -> Text:
        return Text(self.source[part], self.target[part])

    def clean(self, longest: int = 175, ratio: float = 1.5) -> Text:
        """Drop pairs that are empty, too long, or too different in length, counted in words.

        Moses' clean-corpus-n.perl does this in the usual preparation of IWSLT'14. Use it for
        training only: validation and test must stay complete.
        """

        def usual(source: str, target: str) -> bool:
            short, long = sorted((len(source.split()), len(target.split())))
            return short > 0 and long <= longest and long <= ratio * short

        kept = [pair for pair in zip(self.source, self.target, strict=True) if usual(*pair)]
        return Text([source for source, _ in kept], [target for _, target in kept])


@dataclass(frozen=True)
class Corpus:
    """The text of the three splits, and its subwords."""

    train: Text
    validation: Text
    test: Text
    subwords: Subwords


@dataclass(frozen=True)
class Pairs:
    """A split as tokens, with END after every sentence. It is a source of fixed batches."""

    text: Text
    source: Sequence[Tensor]
    target: Sequence[Tensor]
    batches: Sequence[Tensor]
    """The indices of the sentences of each batch. Passes differ only in the order of batches."""

    @classmethod
    def of(cls, text: Text, subwords: Subwords, max_tokens: int) -> Pairs:
        """Convert text to tokens, in batches of at most `max_tokens` on either side."""
        source, target = (
            [torch.tensor([*tokens, END]) for tokens in subwords.numbers(side)]
            for side in (text.source, text.target)
        )
        lengths = [(len(t), len(s)) for s, t in zip(source, target, strict=True)]
        return cls(text, source, target, buckets(lengths, max_tokens))

    def __len__(self) -> int:
        return len(self.batches)

    def plan(self, order: torch.Generator | None) -> list[Tensor]:
        """Return the sentences of each batch. Only the order of the batches is random."""
        return [self.batches[i] for i in permutation(len(self.batches), order).tolist()]

    def load(self, examples: Tensor) -> tuple[Tensor, Tensor]:
        """Return sentences and translations, padded to the longest."""
        source, target = (
            pad_sequence([side[i] for i in examples.tolist()], batch_first=True, padding_value=PAD)
            for side in (self.source, self.target)
        )
        return source, target


def buckets(lengths: Sequence[tuple[int, ...]], max_tokens: int) -> list[Tensor]:
    """Group examples into batches of similar length, and return their indices.

    No batch has more than `max_tokens` on either side after padding, unless a single example does.

    Args:
        lengths: lengths of each example on every side. Examples are sorted by the first.
        max_tokens: most tokens of a batch on each side, padding included.
    """
    batches: list[list[int]] = []
    longest: tuple[int, ...] = ()
    for i in sorted(range(len(lengths)), key=lambda i: (*lengths[i], i)):
        both = tuple(map(max, longest, lengths[i]))
        if batches and max(both) * (len(batches[-1]) + 1) <= max_tokens:
            batches[-1].append(i)
            longest = both
        else:
            batches.append([i])
            longest = lengths[i]
    return [torch.tensor(batch) for batch in batches]
