"""The losses of the GANs, by hand."""

import math

import pytest
import torch

from adamomentum_paper.adversarial_losses import GAMES, inconsistency


def test_losses_by_hand():
    real, fake = torch.tensor([2.0, -0.5]), torch.tensor([0.25, -3.0])
    hinge, vanilla = GAMES["hinge"], GAMES["vanilla"]
    assert hinge.discriminator(real, fake).item() == pytest.approx(1.5 / 2 + 1.25 / 2)
    assert hinge.generator(fake).item() == pytest.approx(2.75 / 2)

    def log_sigmoid(x):
        return math.log(1 / (1 + math.exp(-x)))

    expected = -(log_sigmoid(2) + log_sigmoid(-0.5)) / 2 - (log_sigmoid(-0.25) + log_sigmoid(3)) / 2
    assert vanilla.discriminator(real, fake).item() == pytest.approx(expected, rel=1e-6)
    expected = -(log_sigmoid(0.25) + log_sigmoid(-3)) / 2
    assert vanilla.generator(fake).item() == pytest.approx(expected, rel=1e-6)
    assert inconsistency(real, fake).item() == pytest.approx((1.75**2 + 2.5**2) / 2)
