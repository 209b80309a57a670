"""What generative workloads on images share: the game, its score, and pictures."""

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
from adamomentum_paper.data.inception import inception
from adamomentum_paper.workloads import _sheets
from adamomentum_paper.workloads._classifier import trained
from adamomentum_paper.workloads._frechet import Frechet

COLUMNS = 10  # images of a row of a sheet


class GAN(Adversarial):
    """Images as bytes with their classes; networks are called with (noise or images, classes).

    The score is a Frechet distance: FID at full, where the user provides its Inception network;
    else `fd-cnn`, in the features of a small classifier of the same training images. Noise and
    classes of what is scored and shown are fixed, the same for every run.
    """

    metric = "fd-cnn"
    grid = "gan"
    batch = 64
    latent: ClassVar[int] = 128
    game: ClassVar[Literal["vanilla", "hinge"]] = "hinge"
    consistency: ClassVar[float] = 0.0
    """Weight of the discriminator's consistency under augmentation."""
    mirrored: ClassVar[bool] = True
    """Whether real images are mirrored at random."""
    apart: ClassVar[bool] = False
    """Whether real and generated images are passes of their own: for batch norm in D."""
    conditional: ClassVar[bool] = True
    classes: ClassVar[tuple[str, ...]]
    fid_at_full: ClassVar[bool] = True
    classifier: ClassVar[Mapping[str, tuple[int, int]]]
    """Of fd-cnn at each scale: its width, and epochs of its training."""

    def __init__(self, scale: Scale = "mini", protocol: str = "fair") -> None:
        super().__init__(scale, protocol)
        if scale == "full" and self.fid_at_full:
            self.metric = "fid"
        self._distances: list[tuple[Split, Frechet]] = []

    @property
    def caveats(self) -> tuple[str, ...]:
        """That fd-cnn is no FID."""
        if self.metric == "fid":
            return super().caveats
        return (*super().caveats, "fd-cnn goes by a small classifier of the same images: NOT FID")

    def splits(self) -> Data:
        """With the network whose features are compared, or the news that it is missing."""
        if self.metric == "fid":
            self._network: Any = inception()
        data = self.data()
        if self.metric != "fid":
            width, epochs = self.classifier[self.scale]
            self._network = trained(data.train, len(self.classes), width, epochs, self.kept)
        return data if self.selection == "validation" else data.merged()

    def discriminator_loss(self, model: Any, batch: Any) -> Tensor:
        """Of the game, and where asked for that of inconsistency."""
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
        """The generator's, of the game."""
        fake, classes = self.generated(model.generator, len(batch[0]) // self.d_updates)
        return GAMES[self.game].generator(model.discriminator(fake, classes))

    def augmented(self, real: Tensor) -> Tensor:
        """As consistency asks for: mirrored at random, moved by up to an eighth, reflected."""
        largest = real.shape[-1] // 8
        shifts = reflection.draw_shifts(len(real), largest, real.device)
        coins = draw_coins(len(real), 0.5, real.device)
        return reflection.translate(reflection.mirror(real, coins), shifts, largest)

    def generated(self, generator: nn.Module, n: int) -> tuple[Tensor, Tensor]:
        """Images of torch's random numbers, and their classes."""
        device = next(generator.parameters()).device
        noise = torch.randn(n, self.latent, device=device)
        classes = torch.randint(len(self.classes), (n,), device=device)
        return generator(noise, classes), classes

    def evaluate(self, model: nn.Module, split: Any) -> dict[str, float]:
        """The distance of as many generated images as there are real ones."""
        device = next(model.parameters()).device
        network = self._network.to(device)
        distance = next((known for of, known in self._distances if of is split), None)
        if distance is None:
            real = (network(x.to(device)) for x in split[0].split(self.batch))
            distance = Frechet(real, network.number)
            self._distances.append((split, distance))
        return {self.metric: distance.to(map(network, self._images_to_score(model, len(split[0]))))}

    def _images_to_score(self, generator: nn.Module, n: int) -> Iterator[Tensor]:
        """So many images, as bytes."""
        device = next(generator.parameters()).device
        chance = torch.Generator().manual_seed(1)
        noise = torch.randn(n, self.latent, generator=chance)
        classes = torch.randint(len(self.classes), (n,), generator=chance)
        for z, y in in_order(Tensors((noise, classes), self.batch)):
            images = generator(z.to(device), y.to(device))
            # NaN has no byte; it must not pass for a picture.
            yield _sheets.as_bytes(images) if images.isfinite().all() else images

    def samples(self, generator: nn.Module) -> Tensor:
        """A row of each class."""
        chance = torch.Generator().manual_seed(0)
        rows = len(self.classes)
        return self._rows(generator, torch.randn(rows, COLUMNS, self.latent, generator=chance))

    def draw(self, samples: Tensor, folder: Path, epoch: int) -> None:
        """A sheet for every evaluation, the one before training with the number 0."""
        self._write(folder / f"sheet-{epoch:04}.png", samples)

    def show(self, model: nn.Module, data: Data, folder: Path) -> str:
        """Images on the way from one noise to another; and where all pictures are."""
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
        """Images of noise (classes, columns, ...), row by row."""
        device = next(generator.parameters()).device
        classes = torch.arange(len(noise), device=device).repeat_interleave(noise.shape[1])
        images = generator(noise.flatten(0, 1).to(device), classes)
        return torch.unflatten(images, 0, noise.shape[:2])

    def _write(self, file: Path, rows: Tensor) -> None:
        enlarged = max(1, 64 // rows.shape[-1])
        _sheets.write(file, rows, self.classes if self.conditional else (), enlarged)


def as_floats(images: Tensor) -> Tensor:
    """Bytes to floats between -1 and 1."""
    return images.float() / 127.5 - 1
