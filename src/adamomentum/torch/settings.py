"""The paper's tuned settings of AdaMomentum, by task."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from adamomentum._eps import TunedEps


@dataclass(frozen=True)
class Setting:
    """AdaMomentum's options for a task, with their source. `print` shows all fields."""

    task: str
    options: Mapping[str, Any]
    """The options stated in the paper, for AdaMomentum(params, **options)."""
    schedule: str
    source: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Options that differ in the authors' scripts."""
    remark: str = ""
    """Other choices of the authors' scripts that the paper does not mention."""

    @property
    def as_run(self) -> dict[str, Any]:
        """The options used by the authors' scripts."""
        return {**self.options, **self.changes}

    def __str__(self) -> str:
        run = ", ".join(filter(None, [_written(self.changes), self.remark])) or "the same"
        return (
            f"{self.task}\n"
            f"  AdaMomentum(params, {_written(self.options)})\n"
            f"  schedule  {self.schedule}\n"
            f"  source    arXiv 2106.11514, {self.source}\n"
            f"  as run    {run}"
        )


def recommended(task: str) -> Setting:
    """Return the paper's tuned setting for a task.

    Args:
        task: cifar10, imagenet, ptb, iwslt14, dcgan, sngan or biggan.

    Examples:
        >>> print(recommended("imagenet"))
        ImageNet, ResNet-18
          AdaMomentum(params, lr=0.001, eps=1e-16, weight_decay=0.05)
          schedule  100 epochs, cosine
          source    arXiv 2106.11514, appendix C.2; weight decay decoupled as in the scripts
          as run    batch 256, final lr 5e-6
    """
    if task in SETTINGS:
        return SETTINGS[task]
    near = difflib.get_close_matches(str(task).lower(), SETTINGS, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else "it is not one of the paper's tasks."
    raise ValueError(f"No settings for {task!r}: {hint} Tasks: {', '.join(SETTINGS)}.")


def _written(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in options.items())


# The paper does not state the form of weight decay; this is the form in the authors' scripts.
_COUPLED = {"decoupled_weight_decay": False}
_BETAS = (0.9, 0.999)
_GAN = {"lr": 2e-4, "betas": (0.5, 0.999), "eps": 1e-16}
_BIGGANS = "appendix C.5, Table 12"

SETTINGS: Mapping[str, Setting] = {
    "cifar10": Setting(
        "CIFAR-10, VGG-16, ResNet-34 and DenseNet-121",
        {"lr": 1e-3, "betas": _BETAS, "eps": TunedEps(1e-8), "weight_decay": 5e-4, **_COUPLED},
        "200 epochs, batch 128, lr x 0.2 at 60, 120, 160",
        "appendix C.2, Table 7; weight decay coupled as in the scripts",
    ),
    "imagenet": Setting(
        "ImageNet, ResNet-18",
        {"lr": 1e-3, "eps": 1e-16, "weight_decay": 5e-2},
        "100 epochs, cosine",
        "appendix C.2; weight decay decoupled as in the scripts",
        remark="batch 256, final lr 5e-6",
    ),
    "ptb": Setting(
        "Penn Treebank, LSTM of 1, 2 or 3 layers",
        {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-16, "weight_decay": 1.2e-4, **_COUPLED},
        "200 epochs, batch 20, lr x 0.1 at 100, 145",
        "appendix C.3, Tables 8 to 10; weight decay coupled as in the scripts",
        {"weight_decay": 1.2e-6},
        "gradients clipped at 0.25",
    ),
    "iwslt14": Setting(
        "IWSLT'14 German to English, small Transformer",
        {"lr": 5e-4, "betas": (0.9, 0.999), "eps": 1e-16, "weight_decay": 1e-4},
        "55 epochs, inverse square root, warm-up of 8000 updates from 1e-7",
        "appendix C.4, Table 11; weight decay decoupled as in the scripts",
        {"rectify": True},
    ),
    "dcgan": Setting(
        "DCGAN on CIFAR-10, generator and discriminator",
        _GAN,
        "200k iterations, batch 64, constant lr",
        f"{_BIGGANS}: BigGAN's, the only one stated",
        {"eps": TunedEps(1e-8)},
    ),
    "sngan": Setting(
        "SNGAN on CIFAR-10, generator and discriminator",
        _GAN,
        "100k iterations, batch 64, constant lr",
        f"{_BIGGANS}: BigGAN's, the only one stated",
        {"rectify": True},
    ),
    "biggan": Setting(
        "BigGAN with consistency regularisation on CIFAR-10, generator and discriminator",
        _GAN,
        "100k iterations, batch 64, constant lr",
        _BIGGANS,
        {"rectify": True},
    ),
}
