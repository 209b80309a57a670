"""The paper's Transformer on IWSLT'14, German to English."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from adamomentum_paper.data.bpe import LearntBPE, Merges, PublishedBPE
from adamomentum_paper.data.iwslt14 import detokenise, iwslt14, merges, only_whole
from adamomentum_paper.data.parallel import Corpus
from adamomentum_paper.data.tatoeba import split_pairs, tatoeba
from adamomentum_paper.workloads._translation import Figure, Translation

# The authors' scripts compute the first. The second detokenises translations and references.
_FIGURES = {
    "bleu": Figure({"tokenize": "none", "lowercase": True, "force": True}),
    "bleu_detok": Figure({"lowercase": True}, detokenise),
}


class IWSLT14Transformer(Translation):
    """The paper's Transformer on IWSLT'14, 55 epochs; BLEU on tokenised lower-case text. At mini
    NOT IWSLT'14 but 24,286 sentence pairs of Tatoeba, 2+2 layers of width 128, 8 epochs."""

    rules = {"as-run": replace(Translation.rules["as-run"], flaws=("rectified",))}

    @property
    def figures(self) -> Mapping[str, Figure]:
        return super().figures if self.scale == "mini" else _FIGURES

    @property
    def caveats(self) -> tuple[str, ...]:
        about = {
            "smoke": ("on 200 of IWSLT'14's 160,239 training pairs, as a test of the program",),
            "mini": ("on Tatoeba sentence pairs, a stand-in: not IWSLT'14",),
            "full": (),
        }
        return (*super().caveats, *about[self.scale])

    def read(self) -> Corpus:
        """Read IWSLT'14 with the published merges, or at mini the raw text of Tatoeba."""
        if self.scale == "mini":
            train, validation, test = split_pairs(tatoeba(), train=0.15, held_out=0.004)
            train = train.clean()  # 24,286 of 25,503
            return Corpus(train, validation, test, LearntBPE([*train.source, *train.target], 4_000))
        whole = self.scale == "full" or only_whole()
        # The usual preparation has cleaned the pairs, so none is dropped here.
        train, validation, test = (iwslt14(split, whole) for split in ("train", "valid", "test"))
        if self.scale != "full":
            train, validation, test = train[:200], validation[:10], test[:10]
        table = Merges(merges(whole))
        return Corpus(train, validation, test, PublishedBPE(table, [*train.source, *train.target]))
