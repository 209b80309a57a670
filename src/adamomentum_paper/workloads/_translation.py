"""What the translation workloads share: the network, its loss, beam search, BLEU, settings."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from adamomentum_lab.schedules import InverseSqrt, Schedule
from adamomentum_lab.space import Settings, Stated
from adamomentum_lab.training.feed import in_order
from adamomentum_lab.workload import Data, Workload
from adamomentum_paper.data.parallel import END, PAD, Corpus, Pairs
from adamomentum_paper.models.beam_search import beam_search
from adamomentum_paper.models.transformer import Cache, Shape, Transformer
from adamomentum_paper.rules import AS_RUN

_DECAY = {"weight_decay": 1e-4}
_ADAM: Settings = {"lr": 1.5e-3, "betas": (0.9, 0.98), "eps": 1e-8, **_DECAY}
_LATER: Settings = {"betas": (0.9, 0.999), "eps": 1e-16, **_DECAY, "decoupled_weight_decay": True}
# The paper's appendix, tuned values for the Transformer. It leaves the form of weight decay open:
# each optimizer has its own, which for AdaBelief and AdaMomentum is the authors' decoupled one.
PAPER: Stated = {
    "sgdm": {"lr": 0.1, "momentum": 0.9, **_DECAY},
    "adam": _ADAM,
    "adamw": _ADAM,
    "adabelief": {"lr": 1.5e-3, **_LATER},
    "adamomentum": {"lr": 5e-4, **_LATER},
}
# In the authors' scripts the last two are rectified.
_RECTIFIED = {name: {**PAPER[name], "rectify": True} for name in ("adabelief", "adamomentum")}
_AS_RUN: Stated = {**PAPER, **_RECTIFIED}


@dataclass(frozen=True)
class Figure:
    """A way to compute BLEU: sacrebleu's options, and what is done to the text before."""

    options: Mapping[str, Any] = field(default_factory=dict)
    prepared: Callable[[str], str] = str

    def of(self, translations: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
        """BLEU of a whole split, and sacrebleu's signature of how it was computed."""
        from sacrebleu.metrics.bleu import BLEU

        bleu = BLEU(**self.options)
        score = bleu.corpus_score(
            [self.prepared(line) for line in translations],
            [[self.prepared(line) for line in references]],
        )
        return score.score, str(bleu.get_signature())


class Translation(Workload):
    """A Transformer trained and judged as the authors did on IWSLT'14.

    55 epochs in batches of 4,096 tokens, lr from 1e-7 in 8,000 updates and then as 1/sqrt, label
    smoothing 0.1, no clipping; the weights of the last five epochs averaged; BLEU by beam search
    with 5 hypotheses and length penalty 1.
    """

    metric = "bleu"
    larger_is_better = True
    epochs = {"smoke": 1, "mini": 8, "full": 55}
    averaged = 5
    schedule = InverseSqrt()
    grid = "transformer"
    # As run too the last epoch: what is reported is the mean of the last five.
    rules = {"as-run": replace(AS_RUN, select="last")}
    trains_on_validation = False  # it is official
    settings = {"paper": PAPER, "as-run": _AS_RUN}
    smoothing: ClassVar[float] = 0.1
    beam: ClassVar[int] = 5
    length_penalty: ClassVar[float] = 1.0
    max_tokens: ClassVar[Mapping[str, int]] = {"smoke": 512, "mini": 1024, "full": 4096}
    """Of a batch, padding included, on either side."""
    warmup: ClassVar[Mapping[str, int]] = {"smoke": 10, "mini": 400, "full": 8000}
    """Updates until the lr is the optimizer's own."""
    shapes: ClassVar[Mapping[str, Shape]] = {
        "smoke": Shape(1, 16, 32, 2, 0.1, 0.1, 0.1),
        "mini": Shape(2, 128, 256, 4, 0.1, 0.0, 0.0),
        "full": Shape(),
    }

    @property
    def figures(self) -> Mapping[str, Figure]:
        """Of raw text: sacrebleu's own, with and without case."""
        return {"bleu": Figure(), "bleu_lower": Figure({"lowercase": True})}

    @abstractmethod
    def read(self) -> Corpus:
        """The text of the scale, and what cuts it into tokens."""

    @functools.cached_property
    def corpus(self) -> Corpus:
        """Read once: the network must know the size of the vocabulary."""
        return self.read()

    def data(self) -> Data:
        """The splits as numbers; the text is kept for BLEU."""
        corpus, tokens = self.corpus, self.max_tokens[self.scale]
        train, validation, test = (
            Pairs.of(text, corpus.subwords, tokens)
            for text in (corpus.train, corpus.validation, corpus.test)
        )
        return Data(train, validation, test)

    def model(self) -> nn.Module:
        """The Transformer of the scale."""
        return Transformer(self.corpus.subwords.size, PAD, self.shapes[self.scale])

    def schedule_of(self, optimizer: str) -> Schedule:
        """The paper's, with the warm-up of the scale."""
        del optimizer
        return InverseSqrt(self.warmup[self.scale])

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Cross entropy with smoothed labels in fairseq's form, which is torch's, per token."""
        return _cross_entropy(model, batch, label_smoothing=self.smoothing)

    def evaluate(self, model: nn.Module, split: Any) -> dict[str, float]:
        """Loss per token without smoothing, perplexity, and BLEU in every form."""
        pairs: Pairs = split
        device = next(model.parameters()).device
        total, tokens = torch.zeros((), dtype=torch.float64), 0
        for source, target in in_order(pairs):
            batch = (source.to(device), target.to(device))
            total += _cross_entropy(model, batch, reduction="sum").cpu().double()
            tokens += int((target != PAD).sum())
        loss = total / tokens
        translations = self.translations(model, pairs)
        scores = {"loss": float(loss), "perplexity": float(loss.exp())}
        for name, figure in self.figures.items():
            scores[name] = figure.of(translations, pairs.text.target)[0]
        return scores

    def translations(self, model: nn.Module, pairs: Pairs) -> list[str]:
        """Of every sentence, the best that beam search finds."""
        device = next(model.parameters()).device
        found = [""] * len(pairs.text)
        for chosen in pairs.batches:
            source = pairs.load(chosen)[0].to(device)
            for i, numbers in zip(chosen.tolist(), self._decode(model, source), strict=True):
                found[i] = self.corpus.subwords.sentence(numbers)
        return found

    def _decode(self, model: nn.Module, source: Tensor) -> list[list[int]]:
        cache = Cache()

        def step(last: Tensor, parents: Tensor) -> Tensor:
            cache.reorder(parents)
            log_p = functional.log_softmax(model(source, last, cache).float(), -1)
            log_p[..., PAD] = -torch.inf
            return log_p

        lengths = (source != PAD).sum(1)
        limits = (1.2 * lengths + 10).long()  # fairseq's for IWSLT'14
        return beam_search(step, limits, self.beam, END, self.length_penalty).best()

    def show(self, model: nn.Module, data: Data, folder: Path) -> str:
        """The first ten sentences of test, in translations.txt; three of them, and how BLEU is
        computed, in words."""
        corpus = self.corpus
        pairs = Pairs.of(data.test.text[:10], corpus.subwords, self.max_tokens[self.scale])
        translations = self.translations(model, pairs)
        lines = zip(pairs.text.source, pairs.text.target, translations, strict=True)
        shown = [f"source:      {s}\nreference:   {r}\ntranslation: {t}\n" for s, r, t in lines]
        (folder / "translations.txt").write_text("\n".join(shown), encoding="utf-8")
        signatures = [
            f"{name}: sacrebleu {figure.of(translations, pairs.text.target)[1]}"
            for name, figure in self.figures.items()
        ]
        return "\n".join([*shown[:3], *signatures])


def _cross_entropy(model: nn.Module, batch: Any, **options: Any) -> Tensor:
    """Of each token of the translations, given those before."""
    source, target = batch
    before = functional.pad(target[:, :-1], (1, 0), value=END)
    logits = model(source, before)
    return functional.cross_entropy(
        logits.flatten(0, 1), target.flatten(), ignore_index=PAD, **options
    )
