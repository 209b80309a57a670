"""The Inception network by which FID is defined, as a TorchScript file that the user provides."""

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
    """Bytes (n, 3, height, width) to its 2,048 pooled features; it scales images itself."""

    number = NUMBER

    def __init__(self, script: Any) -> None:
        super().__init__()
        self.script = script
        names = [argument.name for argument in script.forward.schema.arguments]
        # That of StyleGAN gives classes unless it is asked for features.
        self._asked = {"return_features": True} if "return_features" in names else {}

    def forward(self, images: Tensor) -> Tensor:
        """The features; of floats, which are pictures that no bytes can hold, NaN."""
        if images.is_floating_point():
            return images.new_full((len(images), NUMBER), math.nan)
        result: Tensor = self.script(images, **self._asked)
        return result


def inception() -> Inception:
    """That of $ADAMOMENTUM_INCEPTION, else of the data folder; tried on two images."""
    given = os.environ.get("ADAMOMENTUM_INCEPTION")
    file = Path(given).expanduser() if given else root() / NAME
    if not file.is_file():
        raise LabError(
            f"FID needs the Inception network of 2015 as a TorchScript file, which {file} is not: "
            "put it there, or set ADAMOMENTUM_INCEPTION to its path (mini does without it)."
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
            f"{file} makes {found} of two images; the network of FID makes (2, {NUMBER})."
        )
    return network
