"""Byte-pair encoding: cut words into frequent pieces (Sennrich et al., 2016).

There are two kinds: learnt from raw text, and applied from a published table of merges.
"""

from __future__ import annotations

import collections
import itertools
import os
from collections.abc import Iterable, Sequence

from adamomentum_lab.errors import LabError
from adamomentum_paper.data.parallel import SPECIAL, UNKNOWN

# The lab sets the threads of a run. The library would also warn at length after a fork.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

_END = "</w>"  # end of a word in tables of subword-nmt
_JOINT = "@@"


class LearntBPE:
    """Byte-level pieces, learnt from raw text. Any text can be cut and joined without loss.

    Args:
        sentences: training text of all languages.
        size: size of the vocabulary, with the special tokens.
    """

    def __init__(self, sentences: Iterable[str], size: int) -> None:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

        self._tokenizer = Tokenizer(models.BPE())
        self._tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self._tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=size - SPECIAL,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        self._tokenizer.train_from_iterator(map(_add_space, sentences), trainer)
        self.size = SPECIAL + self._tokenizer.get_vocab_size()

    def numbers(self, sentences: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each sentence."""
        encoded = self._tokenizer.encode_batch([_add_space(sentence) for sentence in sentences])
        return [[SPECIAL + i for i in one.ids] for one in encoded]

    def sentence(self, numbers: Sequence[int]) -> str:
        """Return the text of some tokens. Special tokens are left out."""
        ids = [i - SPECIAL for i in numbers if i >= SPECIAL]
        return str(self._tokenizer.decode(ids)).removeprefix(" ")


def _add_space(sentence: str) -> str:
    """Make the first word like any other: pieces include the space before a word."""
    return f" {sentence}"


class Merges:
    """A table of merges in the format of subword-nmt, applied to words.

    Args:
        table: the text of the table: `#version: 0.2`, then two pieces per line, first merge first.
    """

    def __init__(self, table: str) -> None:
        head, *lines = table.splitlines() or [""]
        pairs = [tuple(line.split()) for line in lines if line.strip()]
        if head != "#version: 0.2" or any(len(pair) != 2 for pair in pairs):
            raise LabError("a table of merges must be '#version: 0.2', then two pieces per line.")
        self._rank = {pair: rank for rank, pair in enumerate(pairs)}
        self._known: dict[str, list[str]] = {}

    def pieces(self, sentence: str) -> list[str]:
        """Return the pieces of the words. All but the last of each word end in @@."""
        return [piece for word in sentence.split() for piece in self._word(word)]

    def _word(self, word: str) -> list[str]:
        if word not in self._known:
            pieces = self._merge([*word[:-1], word[-1] + _END])
            pieces[-1] = pieces[-1].removesuffix(_END)
            self._known[word] = [*(piece + _JOINT for piece in pieces[:-1]), pieces[-1]]
        return self._known[word]

    def _merge(self, pieces: list[str]) -> list[str]:
        """Merge all occurrences of the pair that was learnt first, until no pair is left."""
        while True:
            pairs = [pair for pair in itertools.pairwise(pieces) if pair in self._rank]
            if not pairs:
                return pieces
            first = min(pairs, key=self._rank.__getitem__)
            merged: list[str] = []
            i = 0
            while i < len(pieces):
                both = tuple(pieces[i : i + 2]) == first
                merged.append("".join(first) if both else pieces[i])
                i += 2 if both else 1
            pieces = merged


def join_pieces(pieces: str) -> str:
    """Join pieces, separated by spaces, to words. Words stay as they are."""
    return f"{pieces} ".replace(f"{_JOINT} ", "").removesuffix(" ")


class PublishedBPE:
    """Pieces by a table of merges, numbered by their frequency in a text.

    Args:
        merges: the table.
        sentences: training text of all languages. Pieces that are not in it are unknown.
    """

    def __init__(self, merges: Merges, sentences: Iterable[str]) -> None:
        self._merges = merges
        counts = collections.Counter(
            piece for sentence in sentences for piece in merges.pieces(sentence)
        )
        self._pieces = sorted(counts, key=lambda piece: (-counts[piece], piece))
        self._numbers = {piece: SPECIAL + i for i, piece in enumerate(self._pieces)}
        self.size = SPECIAL + len(self._pieces)

    def numbers(self, sentences: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each sentence."""
        return [
            [self._numbers.get(piece, UNKNOWN) for piece in self._merges.pieces(sentence)]
            for sentence in sentences
        ]

    def sentence(self, numbers: Sequence[int]) -> str:
        """Return the text of some tokens. Unknown ones become <unk>."""
        known = [self._pieces[i - SPECIAL] if i >= SPECIAL else "<unk>" for i in numbers]
        return join_pieces(" ".join(known))
