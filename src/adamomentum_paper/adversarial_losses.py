"""What the two players of adversarial training minimise, as functions of D's output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Game:
    """The losses of both players, means over the batch."""

    discriminator: Callable[[Tensor, Tensor], Tensor]
    """Of its outputs on real and on generated images."""
    generator: Callable[[Tensor], Tensor]
    """Of the discriminator's output on generated images."""


def vanilla_discriminator(real: Tensor, fake: Tensor) -> Tensor:
    """Cross entropy of telling them apart (Goodfellow et al., 2014)."""
    return functional.softplus(-real).mean() + functional.softplus(fake).mean()


def vanilla_generator(fake: Tensor) -> Tensor:
    """-log D, which does not saturate where the discriminator is sure."""
    return functional.softplus(-fake).mean()


def hinge_discriminator(real: Tensor, fake: Tensor) -> Tensor:
    """No more than a margin of 1 is asked for (Lim and Ye, 2017)."""
    return functional.relu(1 - real).mean() + functional.relu(1 + fake).mean()


def hinge_generator(fake: Tensor) -> Tensor:
    """The output itself."""
    return -fake.mean()


def inconsistency(output: Tensor, augmented: Tensor) -> Tensor:
    """How much augmenting an image changes the output (Zhang et al., 2020): mean square."""
    return (output - augmented).square().mean()


GAMES: Mapping[str, Game] = {
    "vanilla": Game(vanilla_discriminator, vanilla_generator),
    "hinge": Game(hinge_discriminator, hinge_generator),
}
