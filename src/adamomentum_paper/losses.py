"""Losses that torch does not have."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def smoothed_cross_entropy(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """Divergence from a target with 1-s on the class and s/(n-1) on each other, batch mean.

    The form of the authors' scripts. torch's own `label_smoothing` gives the class 1-s+s/n and each
    other s/n; and it leaves the entropy of the target in, a constant.
    """
    n = logits.shape[-1]
    log_p = functional.log_softmax(logits, -1)
    target = torch.full_like(log_p, smoothing / (n - 1))
    target.scatter_(-1, labels.unsqueeze(-1), 1 - smoothing)
    return functional.kl_div(log_p, target, reduction="batchmean")
