"""What a workload of adversarial training is: the contract of its loop."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor, nn

from adamomentum_lab.rules import at_scale
from adamomentum_lab.source import Repeated, Source
from adamomentum_lab.workload import Workload


class Networks(nn.Module):
    """The two players."""

    def __init__(self, generator: nn.Module, discriminator: nn.Module) -> None:
        super().__init__()
        self.generator, self.discriminator = generator, discriminator


class Adversarial(Workload):
    """A generator, and a discriminator that tells its examples from real ones.

    What the lab calls an epoch is here the time between two evaluations. `evaluate` and `show` get
    the generator alone, or the moving average of its weights.
    """

    steps: ClassVar[int | Mapping[str, int]]
    """Updates of the generator in an epoch: one number, or one for each scale."""
    d_updates: int = 1
    """Updates of the discriminator, each on a batch of its own, before one of the generator."""
    ema: float | None = None
    """How much of the average of the generator's weights is kept at an update."""
    ema_from: int = 0
    """Updates before which that average is the generator itself."""

    @abstractmethod
    def generator(self) -> nn.Module:
        """A fresh one."""

    @abstractmethod
    def discriminator(self) -> nn.Module:
        """A fresh one."""

    def model(self) -> Networks:
        """Both."""
        return Networks(self.generator(), self.discriminator())

    @abstractmethod
    def loss(self, model: Any, batch: Any) -> Tensor:
        """What the generator minimises; of the batch only the size should matter."""

    @abstractmethod
    def discriminator_loss(self, model: Any, batch: Any) -> Tensor:
        """What the discriminator minimises."""

    @abstractmethod
    def samples(self, generator: nn.Module) -> Tensor:
        """Of fixed noise, between -1 and 1: rows of one kind (rows, columns, ...)."""

    def draw(self, samples: Tensor, folder: Path, epoch: int) -> None:
        """Put samples into the folder of a run as something to look at."""
        del samples, folder, epoch

    def parts(self, batch: Any) -> Iterator[Any]:
        """Of a batch, what each update of the discriminator gets."""
        return zip(*(tensor.chunk(self.d_updates) for tensor in batch), strict=True)

    def source(self, split: Any, training: bool) -> Source:
        """In training, batches for all updates of a step at once, over and over the examples."""
        examples = super().source(split, training)
        if not training:
            return examples
        return Repeated(examples, at_scale(self.steps, self.scale), self.batch * self.d_updates)
