"""Losses of adversarial training, as functions of the discriminator's output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Game:
    """The losses of discriminator and generator, as means over the batch."""

    discriminator: Callable[[Tensor, Tensor], Tensor]
    """A function of the outputs on real and on generated images."""
    generator: Callable[[Tensor], Tensor]
    """A function of the output on generated images."""


def vanilla_discriminator(real: Tensor, fake: Tensor) -> Tensor:
    """Return the cross entropy of real against generated (Goodfellow et al., 2014)."""
    return functional.softplus(-real).mean() + functional.softplus(fake).mean()


def vanilla_generator(fake: Tensor) -> Tensor:
    """Return -log D, which does not saturate if the discriminator is certain."""
    return functional.softplus(-fake).mean()


def hinge_discriminator(real: Tensor, fake: Tensor) -> Tensor:
    """Return the hinge loss with a margin of 1 (Lim and Ye, 2017)."""
    return functional.relu(1 - real).mean() + functional.relu(1 + fake).mean()


def hinge_generator(fake: Tensor) -> Tensor:
    """Return the negative mean of the output."""
    return -fake.mean()


def inconsistency(output: Tensor, augmented: Tensor) -> Tensor:
    """Return the mean square change of the output by augmentation (Zhang et al., 2020)."""
    return (output - augmented).square().mean()


GAMES: Mapping[str, Game] = {
    "vanilla": Game(vanilla_discriminator, vanilla_generator),
    "hinge": Game(hinge_discriminator, hinge_generator),
}
