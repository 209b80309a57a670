"""Losses that are not in torch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def smoothed_cross_entropy(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """Return the mean KL divergence from a target with 1-s on the class and s/(n-1) on each other.

    The authors' scripts use this form. torch's `label_smoothing` puts 1-s+s/n on the class and s/n
    on each other, and does not subtract the entropy of the target, which is constant.
    """
    n = logits.shape[-1]
    log_p = functional.log_softmax(logits, -1)
    target = torch.full_like(log_p, smoothing / (n - 1))
    target.scatter_(-1, labels.unsqueeze(-1), 1 - smoothing)
    return functional.kl_div(log_p, target, reduction="batchmean")
