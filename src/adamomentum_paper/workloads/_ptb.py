"""What the three Penn Treebank workloads of the paper share."""

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
EVALUATED = 70  # words at a time
# Of the training text, which part; width of the embedding; hidden units.
_SIZES = {"smoke": (4_000, 16, 24), "mini": (200_000, 100, 200), "full": (None, 400, 1150)}


def settings_of(layers: int) -> dict[str, Stated]:
    """Of each protocol, from the paper's appendix; some depend on the number of layers.

    The paper leaves the form of weight decay open, which is that of the authors' scripts.
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
    # What the authors' scripts do instead.
    as_run = {name: {**its, "weight_decay": 1.2e-6} for name, its in paper.items()}
    as_run["sgdm"]["momentum"] = 0.0
    as_run["yogi"]["eps"] = 1e-3
    if deep:
        for name in ("adam", "adamw", "radam"):
            as_run[name]["eps"] = 1e-8
    return {"paper": paper, "as-run": as_run}


class PennTreebank(Workload):
    """Word-level language modelling with the regularised LSTM of Merity et al. (2018).

    200 epochs, lr x 0.1 at 100 and 145; 20 texts side by side, cut into sequences of a random
    length of about 70, to which the lr is scaled; gradients clipped to 0.25. Perplexity per word,
    the end of a line counted as one; the state is carried from sequence to sequence.
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
        """As run, SGD restarts its lr when it switches to averaging."""
        if self.protocol == "as-run" and optimizer == "sgdm":
            return Restarted(self.schedule, patience=5)
        return self.schedule

    @property
    def caveats(self) -> tuple[str, ...]:
        """That the recurrent matrices are not trained, and on how much text."""
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
        """Words by their numbers. Validation and test are cut too where training is."""
        (train, validation, test), _ = penn_treebank()
        part = _SIZES[self.scale][0]
        if part is not None:
            train, validation, test = train[:part], validation[: part // 8], test[: part // 8]
        return Data((train,), (validation,), (test,))

    def model(self) -> nn.Module:
        """Wide as the scale has it; as run, with frozen recurrent matrices."""
        _, width, hidden = _SIZES[self.scale]
        return LSTMLanguageModel(
            10_000, width, hidden, self.layers, frozen=self.protocol == "as-run"
        )

    def source(self, split: Any, training: bool) -> Source:
        """Sequences of the text, side by side."""
        del training
        return Passages(split[0], self.batch, BPTT)

    def lr_factor(self, batch: Any) -> float:
        """Shorter sequences, smaller steps."""
        length: int = batch[2]
        return length / BPTT

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Cross entropy, and what is asked of the last layer: small, and slow to change."""
        words, following, _ = batch
        state: State = self.state or _unwrap(model).zero_state(words.shape[1])
        logits, dropped, raw, after = model(words, state)
        self.state = [(hidden.detach(), cell.detach()) for hidden, cell in after]
        loss: Tensor = functional.cross_entropy(logits.flatten(0, 1), following.flatten())
        loss = loss + ALPHA * dropped.pow(2).mean()
        slowness: Tensor = (raw[1:] - raw[:-1]).pow(2).mean()
        return loss + BETA * slowness

    def evaluate(self, model: nn.Module, split: Any) -> dict[str, float]:
        """Perplexity per word, of the text read from its beginning to its end."""
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
    """Words (time, batch), those that follow, and the length that was drawn for them.

    As in the scripts, the lr goes by that length where the text ends before it, and a last
    sequence of one word is left out.
    """

    shortest = 2

    def draw(self, order: torch.Generator | None) -> int:
        """A random length in training."""
        return EVALUATED if order is None else random_length(order)

    def load(self, examples: Any) -> tuple[Tensor, Tensor, int]:
        """Some columns of a sequence."""
        words, following = super().load(examples)
        return words.t(), following.t(), examples[0].drawn


def random_length(order: torch.Generator) -> int:
    """N(70, 5), one in twenty half of it, at least 5."""
    mean = BPTT if float(torch.rand((), generator=order)) < 0.95 else BPTT / 2
    return max(5, int(mean + 5 * float(torch.randn((), generator=order))))


def _unwrap(model: Any) -> Any:
    """Of DDP and Fabric, the network inside."""
    while not isinstance(model, LSTMLanguageModel):
        model = model.module
    return model
