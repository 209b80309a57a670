"""The authors' label smoothing."""

import math

import torch
from torch.nn import functional

from adamomentum_paper.losses import smoothed_cross_entropy


def test_smoothing_is_the_authors():
    logits = torch.randn(5, 10, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([3, 0, 9, 1, 1])
    target = torch.full((5, 10), 0.1 / 9)
    target[torch.arange(5), labels] = 0.9
    entropy = -(0.9 * math.log(0.9) + 0.1 * math.log(0.1 / 9))
    expected = functional.cross_entropy(logits, target) - entropy
    torch.testing.assert_close(smoothed_cross_entropy(logits, labels, 0.1), expected)
    plain = functional.cross_entropy(logits, labels)
    torch.testing.assert_close(smoothed_cross_entropy(logits, labels, 0.0), plain)
