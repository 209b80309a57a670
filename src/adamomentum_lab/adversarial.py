"""The contract of a workload of adversarial training."""

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
    """A generator and a discriminator."""

    def __init__(self, generator: nn.Module, discriminator: nn.Module) -> None:
        super().__init__()
        self.generator, self.discriminator = generator, discriminator


class Adversarial(Workload):
    """A generator, and a discriminator that tells generated examples from real ones.

    An epoch is `steps` updates, followed by an evaluation. `evaluate` and `show` get the generator
    alone, or the moving average of its weights.
    """

    steps: ClassVar[int | Mapping[str, int]]
    """Updates of the generator in an epoch: one number, or one for each scale."""
    d_updates: int = 1
    """Updates of the discriminator for each update of the generator, each on its own batch."""
    ema: float | None = None
    """Decay of the moving average of the generator's weights. None: no average."""
    ema_from: int = 0
    """The update at which the average starts. Before it, the average equals the generator."""

    @abstractmethod
    def generator(self) -> nn.Module:
        """Return a new generator."""

    @abstractmethod
    def discriminator(self) -> nn.Module:
        """Return a new discriminator."""

    def model(self) -> Networks:
        """Return both networks."""
        return Networks(self.generator(), self.discriminator())

    @abstractmethod
    def loss(self, model: Any, batch: Any) -> Tensor:
        """Return the generator's loss. It should use only the size of the batch."""

    @abstractmethod
    def discriminator_loss(self, model: Any, batch: Any) -> Tensor:
        """Return the discriminator's loss."""

    @abstractmethod
    def samples(self, generator: nn.Module) -> Tensor:
        """Return samples of fixed noise, with values from -1 to 1 and shape (rows, columns, ...).

        The samples of a row are of one kind, such as a class.
        """

    def draw(self, samples: Tensor, folder: Path, epoch: int) -> None:
        """Draw samples as a file in the folder of a run."""
        del samples, folder, epoch

    def parts(self, batch: Any) -> Iterator[Any]:
        """Split a batch into one part for each update of the discriminator."""
        return zip(*(tensor.chunk(self.d_updates) for tensor in batch), strict=True)

    def source(self, split: Any, training: bool) -> Source:
        """In training, each batch holds the parts for all discriminator updates of a step."""
        examples = super().source(split, training)
        if not training:
            return examples
        return Repeated(examples, at_scale(self.steps, self.scale), self.batch * self.d_updates)
