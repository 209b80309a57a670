"""A Transformer on Multi30k, German to English."""

from __future__ import annotations

from adamomentum_paper.data.bpe import LearntBPE
from adamomentum_paper.data.multi30k import multi30k
from adamomentum_paper.data.parallel import Corpus
from adamomentum_paper.workloads._translation import Translation

_VOCABULARY = {"smoke": 1_000, "mini": 4_000, "full": 10_000}
# Captions at each scale: training, validation and test.
_CAPTIONS = {"smoke": (200, 10, 10), "mini": (14_500, 500, 500), "full": (29_000, 1_014, 1_000)}


class Multi30kTransformer(Translation):
    """The paper's Transformer on captions of photographs, 55 epochs; BLEU on raw text. At mini:
    half of the captions, 2+2 layers of width 128, 8 epochs."""

    @property
    def caveats(self) -> tuple[str, ...]:
        train, _, test = _CAPTIONS[self.scale]
        if self.scale == "full":
            return super().caveats
        return (*super().caveats, f"on {train:,} of 29,000 captions, and {test:,} of 1,000 of test")

    def read(self) -> Corpus:
        """Read raw text with case. Byte-level pieces are learnt from the training captions.

        Of the 29,000 training pairs, 888 are dropped as too long or too different in length.
        """
        train, validation, test = _CAPTIONS[self.scale]
        text = multi30k("train")[:train].clean()
        subwords = LearntBPE([*text.source, *text.target], _VOCABULARY[self.scale])
        return Corpus(
            text, multi30k("val")[:validation], multi30k("test_2016_flickr")[:test], subwords
        )
