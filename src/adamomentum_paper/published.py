"""The paper's results, from the tables of arXiv 2106.11514.

On CIFAR-10 and PTB the spread is the population standard deviation over the best epochs of five
runs. The paper quotes SNGAN's results, except AdaMomentum's, from the AdaBelief paper
(arXiv 2010.07468).
"""

from __future__ import annotations

from dataclasses import dataclass

_COLUMNS = ("sgdm", "adam", "adamw", "yogi", "adabound", "radam", "adabelief", "adamomentum")
# Mean and spread of each optimizer, or a dash if the paper has none. The GANs have no weight decay,
# so there AdamW is Adam and has no separate result.
_TABLE = """
cifar10_vgg16 accuracy 94.73 0.12  93.29 0.10  93.33 0.15  93.44 0.16  93.79 0.17  93.90 0.10  94.57 0.09  94.80 0.10
cifar10_resnet34 accuracy 96.47 0.09  95.39 0.11  95.48 0.10  95.28 0.19  95.51 0.07  95.67 0.16  96.04 0.07  96.33 0.07
cifar10_densenet121 accuracy 96.19 0.17  95.35 0.09  95.52 0.14  94.98 0.13  95.43 0.12  95.82 0.19  96.09 0.14  96.30 0.12
imagenet_resnet18 accuracy 70.73 0.07  64.99 0.12  - -  - -  - -  - -  - -  70.77 0.09
ptb_lstm1 perplexity 85.31 0.09  84.55 0.10  88.18 0.14  86.87 0.14  85.10 0.22  88.60 0.22  84.30 0.23  80.82 0.19
ptb_lstm2 perplexity 67.25 0.20  67.11 0.20  73.61 0.15  71.54 0.14  67.69 0.24  73.80 0.25  66.66 0.11  64.85 0.09
ptb_lstm3 perplexity 63.52 0.16  64.10 0.25  69.91 0.20  67.58 0.08  63.52 0.11  70.10 0.16  61.33 0.19  60.08 0.11
iwslt14_transformer bleu 28.22 0.21  30.14 1.39  35.62 0.11  - -  - -  - -  35.60 0.11  35.66 0.10
cifar10_dcgan fid 223.77 147.90  52.39 3.62  - -  63.08 5.02  126.79 40.64  48.24 1.38  47.25 0.79  46.66 1.94
cifar10_sngan fid 49.70 0.41  13.05 0.19  - -  14.25 0.15  55.65 2.15  12.70 0.12  12.52 0.16  12.06 0.21
cifar10_biggan fid 16.12 0.33  7.24 0.08  - -  7.38 0.04  14.81 0.31  7.17 0.06  7.22 0.09  7.16 0.05
"""  # noqa: E501


@dataclass(frozen=True)
class Published:
    """The paper's results on one experiment: mean and spread of each optimizer."""

    metric: str
    values: dict[str, tuple[float, float]]


def _read(cells: list[str]) -> Published:
    metric, *numbers = cells
    pairs = zip(_COLUMNS, numbers[::2], numbers[1::2], strict=True)
    return Published(metric, {name: (float(a), float(b)) for name, a, b in pairs if a != "-"})


PAPER = {line.split()[0]: _read(line.split()[1:]) for line in _TABLE.strip().splitlines()}
