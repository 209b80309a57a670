"""The Inception network that defines FID. The user provides it as a TorchScript file."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from adamomentum_lab.errors import LabError
from adamomentum_paper.data.files import root

NAME, NUMBER = "inception-2015-12-05.pt", 2048


class Inception(nn.Module):
    """Maps bytes (n, 3, height, width) to 2,048 pooled features. It scales the images itself."""

    number = NUMBER

    def __init__(self, script: Any) -> None:
        super().__init__()
        self.script = script
        names = [argument.name for argument in script.forward.schema.arguments]
        # StyleGAN's file returns classes by default.
        self._asked = {"return_features": True} if "return_features" in names else {}

    def forward(self, images: Tensor) -> Tensor:
        """Return the features. Float images are not finite, so their features are NaN."""
        if images.is_floating_point():
            return images.new_full((len(images), NUMBER), math.nan)
        result: Tensor = self.script(images, **self._asked)
        return result


def inception() -> Inception:
    """Load the network from $ADAMOMENTUM_INCEPTION or the data folder, and try it on two images."""
    given = os.environ.get("ADAMOMENTUM_INCEPTION")
    file = Path(given).expanduser() if given else root() / NAME
    if not file.is_file():
        raise LabError(
            f"FID needs the Inception network of 2015 as a TorchScript file, and {file} does not "
            "exist. Put it there, or set ADAMOMENTUM_INCEPTION to its path (--scale mini needs "
            "none)."
        )
    images = torch.randint(256, (2, 3, 32, 32), generator=torch.Generator().manual_seed(0))
    load: Any = torch.jit.load
    try:
        network = Inception(load(file, map_location="cpu")).eval()
        with torch.no_grad():
            found = tuple(network(images.byte()).shape)
    except (RuntimeError, TypeError, AttributeError, torch.jit.Error) as error:
        reason = str(error).strip().splitlines()[-1]
        raise LabError(f"{file} cannot be used as the network of FID: {reason}") from error
    if found != (2, NUMBER):
        raise LabError(
            f"{file} returns features of shape {found} for two images; FID needs (2, {NUMBER})."
        )
    return network
