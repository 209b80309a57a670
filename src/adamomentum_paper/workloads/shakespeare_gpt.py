"""A character GPT on Tiny Shakespeare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from adamomentum_lab.rules import Scale
from adamomentum_lab.schedules import Cosine
from adamomentum_lab.source import Source
from adamomentum_lab.workload import Data, Workload
from adamomentum_paper.data.tiny_shakespeare import tiny_shakespeare
from adamomentum_paper.models.gpt import GPT, Shape

CHARACTERS = 65
EVALUATED = 64  # passages at a time
# The network; updates in an epoch; characters of validation and of test.
_SIZES = {
    "smoke": (Shape(2, 32, 2, 32), 10, 4_000),
    "mini": (Shape(4, 128, 4, 64), 500, None),
    "full": (Shape(4, 128, 4, 64), 500, None),
}


class ShakespeareGPT(Workload):
    """A GPT on the characters of Shakespeare's plays: 4 layers of width 128, a context of 64
    characters; loss in nats per character. It is not in the paper."""

    epochs = {"smoke": 2, "mini": 8, "full": 8}
    schedule = Cosine(warmup=0.1)
    clip = 1.0
    target = 1.74  # 4-grams (interpolated, Witten and Bell 1991) reach 1.737 on validation

    def __init__(self, scale: Scale = "mini", protocol: str = "fair") -> None:
        super().__init__(scale, protocol)
        self.batch = 16 if scale == "full" else 8

    def data(self) -> Data:
        """Return characters as numbers."""
        (train, validation, test), _ = tiny_shakespeare()
        part = _SIZES[self.scale][2]
        return Data((train,), (validation[:part],), (test[:part],))

    def model(self) -> nn.Module:
        """Return the network, which is the same at mini and full."""
        return GPT(CHARACTERS, _SIZES[self.scale][0])

    def source(self, split: Any, training: bool) -> Source:
        """Return passages as long as the context of the network."""
        shape, updates, _ = _SIZES[self.scale]
        batch = self.batch if training else EVALUATED
        return Passages(split[0], shape.context, batch, updates)

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Return the mean cross entropy of the next character."""
        characters, following = batch
        return functional.cross_entropy(model(characters).flatten(0, 1), following.flatten())


@dataclass(frozen=True, eq=False)
class Passages:
    """Passages of a text, and the same shifted by one character: two tensors (batch, length).

    In training, an epoch has `updates` batches of random passages. In order, the text is cut into
    successive passages; a remainder is dropped.
    """

    text: Tensor
    length: int
    batch: int
    updates: int

    def __len__(self) -> int:
        return self.updates

    def plan(self, order: torch.Generator | None) -> Sequence[Any]:
        """Return the starts of the passages of each batch."""
        last = len(self.text) - self.length  # a passage is followed by one more character
        if order is None:
            return torch.split(torch.arange(0, last, self.length), self.batch)
        return torch.randint(last, (self.updates, self.batch), generator=order).unbind()

    def load(self, examples: Any) -> tuple[Tensor, Tensor]:
        """Return the passages with these starts."""
        characters = self.text[examples[:, None] + torch.arange(self.length + 1)]
        return characters[:, :-1], characters[:, 1:]
