"""The base class of GANs on images: losses, score and pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from adamomentum_lab.adversarial import Adversarial
from adamomentum_lab.rules import Scale
from adamomentum_lab.source import Split, Tensors
from adamomentum_lab.training.feed import in_order
from adamomentum_lab.workload import Data
from adamomentum_paper.adversarial_losses import GAMES, inconsistency
from adamomentum_paper.data import reflection
from adamomentum_paper.data.augmentation import draw_coins
from adamomentum_paper.workloads import _sheets
from adamomentum_paper.workloads._classifier import train_classifier
from adamomentum_paper.workloads._frechet import Frechet
from adamomentum_paper.workloads._gan_settings import RULES
from adamomentum_paper.workloads._inception import inception

COLUMNS = 10  # images of a row of a sheet


class GAN(Adversarial):
    """A GAN on images as bytes with classes. Networks are called with (noise or images, classes).

    The score is a Frechet distance. At the scale full it is FID, in the features of the Inception
    network of 2015. Otherwise it is `fd-cnn`, in the features of a small classifier of the same
    training images. Every run is scored and shown with the same noise and classes.
    """

    metric = "fd-cnn"
    grid = "gan"
    rules = RULES
    batch = 64
    latent: ClassVar[int] = 128
    game: ClassVar[Literal["vanilla", "hinge"]] = "hinge"
    consistency: ClassVar[float] = 0.0
    """Weight of the consistency loss of the discriminator under augmentation."""
    mirrored: ClassVar[bool] = True
    """Whether to mirror real images at random."""
    apart: ClassVar[bool] = False
    """Whether D gets real and generated images in separate batches, for its batch norm."""
    conditional: ClassVar[bool] = True
    classes: ClassVar[tuple[str, ...]]
    fid_at_full: ClassVar[bool] = True
    classifier: ClassVar[Mapping[str, tuple[int, int]]]
    """scale -> width of the classifier of fd-cnn, and epochs of its training."""

    def __init__(self, scale: Scale = "mini", protocol: str = "fair") -> None:
        super().__init__(scale, protocol)
        if scale == "full" and self.fid_at_full:
            self.metric = "fid"
        self._distances: list[tuple[Split, Frechet]] = []

    @property
    def caveats(self) -> tuple[str, ...]:
        """Warnings, including that fd-cnn is not FID."""
        if self.metric == "fid":
            return super().caveats
        return (*super().caveats, "fd-cnn goes by a small classifier of the same images: NOT FID")

    def splits(self) -> Data:
        """Return the splits, after loading or training the network of the score."""
        if self.metric == "fid":
            self._network: Any = inception()
        data = self.data()
        if self.metric != "fid":
            width, epochs = self.classifier[self.scale]
            self._network = train_classifier(
                data.train, len(self.classes), width, epochs, self.kept
            )
        return data if self.selection == "validation" else data.merged()

    def discriminator_loss(self, model: Any, batch: Any) -> Tensor:
        """Return the loss of the discriminator, with the consistency loss if it has weight."""
        x, y = batch
        real = as_floats(x)
        if self.mirrored:
            real = reflection.mirror(real, draw_coins(len(x), 0.5, x.device))
        with torch.no_grad():
            fake, drawn = self.generated(model.generator, len(x))
        images, classes = [real, fake], [y, drawn]
        if self.consistency:
            images, classes = [*images, self.augmented(real)], [*classes, y]
        if self.apart:
            outputs = [model.discriminator(*pair) for pair in zip(images, classes, strict=True)]
        else:
            outputs = model.discriminator(torch.cat(images), torch.cat(classes)).split(len(x))
        loss = GAMES[self.game].discriminator(outputs[0], outputs[1])
        if self.consistency:
            loss = loss + self.consistency * inconsistency(outputs[0], outputs[2])
        return loss

    def loss(self, model: Any, batch: Any) -> Tensor:
        """Return the loss of the generator."""
        fake, classes = self.generated(model.generator, len(batch[0]) // self.d_updates)
        return GAMES[self.game].generator(model.discriminator(fake, classes))

    def augmented(self, real: Tensor) -> Tensor:
        """Mirror at random, and translate by up to an eighth with reflection."""
        largest = real.shape[-1] // 8
        shifts = reflection.draw_shifts(len(real), largest, real.device)
        coins = draw_coins(len(real), 0.5, real.device)
        return reflection.translate(reflection.mirror(real, coins), shifts, largest)

    def generated(self, generator: nn.Module, n: int) -> tuple[Tensor, Tensor]:
        """Generate images from torch's random numbers. Return them with their classes."""
        device = next(generator.parameters()).device
        noise = torch.randn(n, self.latent, device=device)
        classes = torch.randint(len(self.classes), (n,), device=device)
        return generator(noise, classes), classes

    def evaluate(self, model: nn.Module, split: Any) -> dict[str, float]:
        """Return the distance between the real images and as many generated ones."""
        device = next(model.parameters()).device
        network = self._network.to(device)
        distance = next((known for of, known in self._distances if of is split), None)
        if distance is None:
            real = (network(x.to(device)) for x in split[0].split(self.batch))
            distance = Frechet(real, network.number)
            self._distances.append((split, distance))
        return {self.metric: distance.to(map(network, self._images_to_score(model, len(split[0]))))}

    def _images_to_score(self, generator: nn.Module, n: int) -> Iterator[Tensor]:
        """Yield batches of `n` generated images as bytes."""
        device = next(generator.parameters()).device
        chance = torch.Generator().manual_seed(1)
        noise = torch.randn(n, self.latent, generator=chance)
        classes = torch.randint(len(self.classes), (n,), generator=chance)
        for z, y in in_order(Tensors((noise, classes), self.batch)):
            images = generator(z.to(device), y.to(device))
            # A NaN has no byte, so images that are not finite stay floats.
            yield _sheets.as_bytes(images) if images.isfinite().all() else images

    def samples(self, generator: nn.Module) -> Tensor:
        """Return a row of samples for each class."""
        chance = torch.Generator().manual_seed(0)
        rows = len(self.classes)
        return self._rows(generator, torch.randn(rows, COLUMNS, self.latent, generator=chance))

    def draw(self, samples: Tensor, folder: Path, epoch: int) -> None:
        """Write a sheet of samples for every evaluation. Number 0 is before training."""
        self._write(folder / f"sheet-{epoch:04}.png", samples)

    def show(self, model: nn.Module, data: Data, folder: Path) -> str:
        """Write images that interpolate between two noises, and return where all pictures are."""
        del data
        chance = torch.Generator().manual_seed(2)
        first, last = torch.randn(2, len(self.classes), 1, self.latent, generator=chance)
        angle = torch.linspace(0, torch.pi / 2, COLUMNS)[:, None]
        between = first * angle.cos() + last * angle.sin()  # keeps the length of the noise
        self._write(folder / "interpolation.png", self._rows(model, between))
        return (
            f"Samples of the same noise after every epoch: {folder}/sheet-*.png (0000 is "
            f"untrained). From one noise to another: {folder / 'interpolation.png'}"
        )

    def _rows(self, generator: nn.Module, noise: Tensor) -> Tensor:
        """Return images of noise (classes, columns, ...)."""
        device = next(generator.parameters()).device
        classes = torch.arange(len(noise), device=device).repeat_interleave(noise.shape[1])
        images = generator(noise.flatten(0, 1).to(device), classes)
        return torch.unflatten(images, 0, noise.shape[:2])

    def _write(self, file: Path, rows: Tensor) -> None:
        enlarged = max(1, 64 // rows.shape[-1])
        _sheets.write(file, rows, self.classes if self.conditional else (), enlarged)


def as_floats(images: Tensor) -> Tensor:
    """Convert bytes to floats from -1 to 1."""
    return images.float() / 127.5 - 1
