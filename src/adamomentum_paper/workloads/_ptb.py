"""The base class of the paper's Penn Treebank workloads."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from adamomentum_lab.schedules import Restarted, Schedule, Step
from adamomentum_lab.source import Source, Tokens
from adamomentum_lab.space import Stated, Value
from adamomentum_lab.workload import Data, Workload
from adamomentum_paper.data.penn_treebank import penn_treebank
from adamomentum_paper.models.lstm import LSTMLanguageModel, State
from adamomentum_paper.rules import AS_RUN

BPTT = 70  # words of a sequence, on average
ALPHA, BETA = 2.0, 1.0  # activation and temporal regularisation
EVALUATED = 70  # words per step of an evaluation
# Words of training text (None is all), width of the embedding, hidden units.
_SIZES = {"smoke": (4_000, 16, 24), "mini": (200_000, 100, 200), "full": (None, 400, 1150)}


def settings_of(layers: int) -> dict[str, Stated]:
    """Return the settings under each protocol. Some depend on the number of layers.

    They are from the paper's appendix, except the form of weight decay. The paper does not state
    it, so it is that of the authors' scripts.
    """
    deep = layers > 1

    def adaptive(lr: float, eps: float, **more: Value) -> dict[str, Value]:
        return {"lr": lr, "betas": (0.9, 0.999), "eps": eps, "weight_decay": 1.2e-4, **more}

    coupled, decoupled = {"decoupled_weight_decay": False}, {"decoupled_weight_decay": True}
    paper: Stated = {
        "sgdm": {"lr": 30.0, "momentum": 0.9, "weight_decay": 1.2e-4},
        "adam": adaptive(1e-2 if deep else 1e-3, 1e-12, **coupled),
        "adamw": adaptive(1e-3, 1e-12),
        "yogi": adaptive(1e-2, 1e-8, **coupled),
        "adabound": adaptive(1e-2, 1e-8, final_lr=30.0, gamma=1e-3, **coupled),
        "radam": adaptive(1e-3, 1e-12, **decoupled),
        "adabelief": adaptive(1e-2 if deep else 1e-3, 1e-12 if deep else 1e-16, **coupled),
        "adamomentum": adaptive(1e-3, 1e-16, **coupled),
    }
    # The authors' scripts differ from the paper in these.
    as_run = {name: {**its, "weight_decay": 1.2e-6} for name, its in paper.items()}
    as_run["sgdm"]["momentum"] = 0.0
    as_run["yogi"]["eps"] = 1e-3
    if deep:
        for name in ("adam", "adamw", "radam"):
            as_run[name]["eps"] = 1e-8
    # Where `fair` starts from: SGDM's default lr of 0.1 is a 300th of what it needs here, and
    # AdaBound ends as SGD with `final_lr`.
    fair: Stated = {"sgdm": {"lr": 30.0}, "adabound": {"final_lr": 30.0}}
    return {"fair": fair, "paper": paper, "as-run": as_run}


class PennTreebank(Workload):
    """Word-level language modelling with the regularised LSTM of Merity et al. (2018).

    A run has 200 epochs. The lr is multiplied by 0.1 at epochs 100 and 145. The text is read in 20
    columns, in sequences with a random length of about 70, and the lr is proportional to that
    length. The state is carried from sequence to sequence. Gradients are clipped to 0.25. The score
    is the perplexity per word, where the end of a line counts as a word.
    """

    metric = "perplexity"
    epochs = {"smoke": 1, "mini": 8, "full": 200}
    batch = 20
    clip = 0.25
    schedule = Step(at=(0.5, 0.725), factor=0.1)
    grid = "lstm"
    rules = {"as-run": replace(AS_RUN, flaws=("frozen matrices", "decay of PTB"))}
    trains_on_validation = False
    layers: ClassVar[int]

    def schedule_of(self, optimizer: str) -> Schedule:
        """Return the schedule. Under `as-run`, SGD restarts its lr when it switches to ASGD."""
        if self.protocol == "as-run" and optimizer == "sgdm":
            return Restarted(self.schedule, patience=5)
        return self.schedule

    @property
    def caveats(self) -> tuple[str, ...]:
        """Warnings, including frozen recurrent matrices and the amount of text."""
        said = super().caveats
        if self.protocol == "as-run":
            said = (
                *said,
                "the recurrent matrices stay at their initial values, as in the authors' scripts",
            )
        part = _SIZES[self.scale][0]
        if part is not None:
            said = (*said, f"on the first {part:,} of 929,589 words, and {part // 8:,} of test")
        return said

    def data(self) -> Data:
        """Return words as numbers. At small scales, all splits are cut."""
        (train, validation, test), _ = penn_treebank()
        part = _SIZES[self.scale][0]
        if part is not None:
            train, validation, test = train[:part], validation[: part // 8], test[: part // 8]
        return Data((train,), (validation,), (test,))

    def model(self) -> nn.Module:
        """Return the network of this scale. Under `as-run`, recurrent matrices are frozen."""
        _, width, hidden = _SIZES[self.scale]
        return LSTMLanguageModel(
            10_000, width, hidden, self.layers, frozen=self.protocol == "as-run"
        )

    def source(self, split: Any, training: bool) -> Source:
        """Return sequences of the text in columns."""
        del training
        return Passages(split[0], self.batch, BPTT)

    def lr_factor(self, batch: Any) -> float:
        """Scale the lr with the length of the sequence."""
        length: int = batch[2]
        return length / BPTT

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Return the cross entropy plus activation and temporal regularisation."""
        words, following, _ = batch
        state: State = self.state or _unwrap(model).zero_state(words.shape[1])
        logits, dropped, raw, after = model(words, state)
        self.state = [(hidden.detach(), cell.detach()) for hidden, cell in after]
        loss: Tensor = functional.cross_entropy(logits.flatten(0, 1), following.flatten())
        # Once for each row of words: sequences differ in length, and the mean is over words.
        self.measured["cross_entropy"] = loss.detach().expand(len(words))
        loss = loss + ALPHA * dropped.pow(2).mean()
        slowness: Tensor = (raw[1:] - raw[:-1]).pow(2).mean()
        return loss + BETA * slowness

    def evaluate(self, model: nn.Module, split: Any) -> dict[str, float]:
        """Return the loss and perplexity per word of the whole text, read in order."""
        text = split[0].to(next(model.parameters()).device)[:, None]
        state = _unwrap(model).zero_state(1)
        total = torch.zeros((), dtype=torch.float64, device=text.device)
        for start in range(0, len(text) - 1, EVALUATED):
            stop = min(start + EVALUATED, len(text) - 1)
            logits, _, _, state = model(text[start:stop], state)
            following = text[start + 1 : stop + 1].flatten()
            total += functional.cross_entropy(logits.flatten(0, 1), following, reduction="sum")
        loss = float(total) / (len(text) - 1)
        return {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}


class Passages(Tokens):
    """Batches of words (time, batch), the words that follow, and the length drawn for them.

    As in the authors' scripts, the drawn length determines the lr even if the text ends earlier,
    and a last sequence of one word is dropped.
    """

    shortest = 2

    def draw(self, order: torch.Generator | None) -> int:
        """Return a random length in training, and a fixed one in evaluation."""
        return EVALUATED if order is None else random_length(order)

    def load(self, examples: Any) -> tuple[Tensor, Tensor, int]:
        """Return some columns of a sequence."""
        words, following = super().load(examples)
        return words.t(), following.t(), examples[0].drawn


def random_length(order: torch.Generator) -> int:
    """Draw a length from N(70, 5), or with probability 1/20 from N(35, 5). It is at least 5."""
    mean = BPTT if float(torch.rand((), generator=order)) < 0.95 else BPTT / 2
    return max(5, int(mean + 5 * float(torch.randn((), generator=order))))


def _unwrap(model: Any) -> Any:
    """Return the network inside the wrappers of DDP and Fabric."""
    while not isinstance(model, LSTMLanguageModel):
        model = model.module
    return model
