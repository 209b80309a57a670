"""The Inception network that defines FID: from published weights, or a TorchScript file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from adamomentum_lab.errors import LabError
from adamomentum_paper.data.inception import NUMBER, SCRIPT, SHA256, WEIGHTS, inception_file
from adamomentum_paper.models.inception import InceptionV3


class Inception(nn.Module):
    """Maps bytes (n, 3, height, width) to 2,048 pooled features. It scales the images itself."""

    number = NUMBER

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network
        schema = getattr(network.forward, "schema", None)
        names = [argument.name for argument in schema.arguments] if schema else []
        # StyleGAN's file returns classes by default.
        self._asked = {"return_features": True} if "return_features" in names else {}

    def forward(self, images: Tensor) -> Tensor:
        """Return the features. Float images are not finite, so their features are NaN."""
        if images.is_floating_point():
            return images.new_full((len(images), NUMBER), math.nan)
        result: Tensor = self.network(images, **self._asked)
        return result


def inception() -> Inception:
    """Load the network, and try it on two images. A LabError says where to get it."""
    file = inception_file()
    if not file.is_file():
        raise LabError(
            f"FID needs the Inception network of 2015, and {file} does not exist. `adamomentum "
            f"data fetch inception` downloads it. Without network, copy {WEIGHTS} (sha256 "
            f"{SHA256}) there, or set ADAMOMENTUM_INCEPTION to it or to StyleGAN's {SCRIPT} "
            "(--scale mini needs none)."
        )
    images = torch.randint(256, (2, 3, 32, 32), generator=torch.Generator().manual_seed(0))
    try:
        network = Inception(_load(file)).eval().requires_grad_(False)
        with torch.no_grad():
            found = tuple(network(images.byte()).shape)
    except (RuntimeError, TypeError, AttributeError, torch.jit.Error, OSError) as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise LabError(f"{file} cannot be used as the network of FID: {reason}") from error
    if found != (2, NUMBER):
        raise LabError(
            f"{file} returns features of shape {found} for two images; FID needs (2, {NUMBER})."
        )
    return network


def _load(file: Path) -> Any:
    """Return the network of a TorchScript file, or that of published weights."""
    if file.suffix != ".pth":
        load: Any = torch.jit.load
        return load(file, map_location="cpu")
    try:
        weights = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # of a file of another kind, there are many
        raise RuntimeError(f"it is no file of weights ({type(error).__name__})") from error
    with torch.device("meta"):
        network = InceptionV3()
    network.to_empty(device="cpu")
    wanted = network.state_dict()
    found = {name: weights[name] for name in wanted if name in weights}
    for name, value in wanted.items():  # counts of batches, which older files lack
        if name.endswith("num_batches_tracked"):
            found.setdefault(name, torch.zeros_like(value))
    if missing := [name for name in wanted if name not in found]:
        raise RuntimeError(f"{len(missing)} of its {len(wanted)} tensors are missing: {missing[0]}")
    network.load_state_dict(found)
    return network
