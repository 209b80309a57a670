"""The base class of translation: the network, its loss, beam search, BLEU and settings."""

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
# Tuned values for the Transformer, from the appendix. It does not state the form of weight decay.
# Each optimizer has its usual form; AdaBelief and AdaMomentum have the authors' decoupled form.
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
    """A way to compute BLEU: sacrebleu's options, and a function that prepares the text."""

    options: Mapping[str, Any] = field(default_factory=dict)
    prepared: Callable[[str], str] = str

    def of(self, translations: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
        """Return BLEU of a whole split, and sacrebleu's signature."""
        from sacrebleu.metrics.bleu import BLEU

        bleu = BLEU(**self.options)
        score = bleu.corpus_score(
            [self.prepared(line) for line in translations],
            [[self.prepared(line) for line in references]],
        )
        return score.score, str(bleu.get_signature())


class Translation(Workload):
    """A Transformer, trained and evaluated as the authors did on IWSLT'14.

    A run has 55 epochs with batches of 4,096 tokens. The lr rises from 1e-7 in 8,000 updates and
    then falls as 1/sqrt(update). Label smoothing is 0.1; gradients are not clipped. Evaluations use
    the mean weights of the last five epochs, and BLEU by beam search with 5 hypotheses and length
    penalty 1.
    """

    metric = "bleu"
    larger_is_better = True
    epochs = {"smoke": 1, "mini": 8, "full": 55}
    averaged = {"smoke": 1, "mini": 1, "full": 5}  # a part of the run as the paper's 5 of 55
    schedule = InverseSqrt()
    grid = "transformer"
    # Also under `as-run` the last epoch is reported, with the mean weights of the last five.
    rules = {"as-run": replace(AS_RUN, select="last")}
    trains_on_validation = False  # the validation split is official
    follows_test = False  # a beam search takes longer than the epoch
    settings = {"paper": PAPER, "as-run": _AS_RUN}
    smoothing: ClassVar[float] = 0.1
    beam: ClassVar[int] = 5
    length_penalty: ClassVar[float] = 1.0
    max_tokens: ClassVar[Mapping[str, int]] = {"smoke": 512, "mini": 1024, "full": 4096}
    """Largest number of tokens of a batch on either side, padding included."""
    warmup: ClassVar[Mapping[str, int]] = {"smoke": 10, "mini": 400, "full": 8000}
    """Updates of the warm-up."""
    shapes: ClassVar[Mapping[str, Shape]] = {
        "smoke": Shape(1, 16, 32, 2, 0.1, 0.1, 0.1),
        "mini": Shape(2, 128, 256, 4, 0.1, 0.0, 0.0),
        "full": Shape(),
    }

    @property
    def figures(self) -> Mapping[str, Figure]:
        """For raw text: sacrebleu's default, with and without case."""
        return {"bleu": Figure(), "bleu_lower": Figure({"lowercase": True})}

    @abstractmethod
    def read(self) -> Corpus:
        """Read the text of this scale, with its subwords."""

    @functools.cached_property
    def corpus(self) -> Corpus:
        """The text, read once: data and network both need it."""
        return self.read()

    def data(self) -> Data:
        """Return the splits as tokens, with their text for BLEU."""
        corpus, tokens = self.corpus, self.max_tokens[self.scale]
        train, validation, test = (
            Pairs.of(text, corpus.subwords, tokens)
            for text in (corpus.train, corpus.validation, corpus.test)
        )
        return Data(train, validation, test)

    def model(self) -> nn.Module:
        """Return the Transformer of this scale."""
        return Transformer(self.corpus.subwords.size, PAD, self.shapes[self.scale])

    def schedule_of(self, optimizer: str) -> Schedule:
        """Return the paper's schedule with the warm-up of this scale."""
        del optimizer
        return InverseSqrt(self.warmup[self.scale])

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Return the cross entropy per token with label smoothing in torch's form, as fairseq's."""
        return _cross_entropy(model, batch, label_smoothing=self.smoothing)

    def evaluate(self, model: nn.Module, split: Any) -> dict[str, float]:
        """Return loss per token without smoothing, perplexity, and every form of BLEU."""
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
        """Translate every sentence by beam search."""
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
        """Write ten translations of test to translations.txt.

        Returns three of them, and how BLEU is computed.
        """
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
    """Return the cross entropy of each token of the translations, given the earlier ones."""
    source, target = batch
    before = functional.pad(target[:, :-1], (1, 0), value=END)
    logits = model(source, before)
    return functional.cross_entropy(
        logits.flatten(0, 1), target.flatten(), ignore_index=PAD, **options
    )
