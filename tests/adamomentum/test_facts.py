"""What follows from Algorithm 1, and is told to users in the guide, as measurements."""

import itertools
import math

import numpy as np
import pytest
import torch

from adamomentum import AdaMomentum, rule


def directions(gradients, **options):
    """The direction of every step, for gradients of shape (steps, ...)."""
    m = v = np.zeros_like(gradients[0])
    for t, g in enumerate(gradients, 1):
        d, m, v, _ = rule.direction(np, g, m, v, rule.scalars(t, **options))
        yield d, m, v


@pytest.mark.parametrize("eps", [1e-16, 1e-8, 1e-3])
def test_accumulated_eps_is_constant_after_bias_correction(eps):
    random = np.random.default_rng(1)
    gradients = random.normal(size=(300, 5))
    pairs = zip(directions(gradients, eps=eps), directions(gradients, eps=0.0), strict=True)
    for t, ((_, _, v), (_, _, bare)) in enumerate(pairs, 1):
        surplus = (v - bare) / rule.remaining(0.999, t)
        np.testing.assert_allclose(surplus, eps / (1 - 0.999), rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize(("eps", "floor"), [(1e-8, 3.2e-3), (1e-16, 3.2e-7)])
def test_floor_of_the_denominator(eps, floor):
    _, _, v = list(directions(np.zeros((100, 1)), eps=eps))[-1]
    assert math.sqrt(v[0] / rule.remaining(0.999, 100)) == pytest.approx(floor, rel=0.02)


def test_first_steps_are_up_to_ten_times_lr():
    lengths = [d[0] for d, _, _ in directions(np.full((1000, 1), 0.3))]
    expected = {1: 10, 2: 6.6, 3: 5.0, 5: 3.5, 10: 2.2, 20: 1.54, 50: 1.17, 100: 1.07, 1000: 1.00}
    for t, times in expected.items():
        assert lengths[t - 1] == pytest.approx(times, rel=0.02), t
    assert all(a > b for a, b in itertools.pairwise(lengths))


@pytest.mark.parametrize(("steps", "bound"), [(20, 1.55), (50, 1.17), (100, 1.08)])
def test_a_warm_up_tames_them(steps, bound):
    lengths = [d[0] for d, _, _ in directions(np.full((300, 1), 0.3))]
    warmed = [min(1, t / steps) * length for t, length in enumerate(lengths, 1)]
    assert bound - 0.02 < max(warmed) < bound


def test_first_steps_of_the_torch_optimizer():
    param = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = AdaMomentum([param], lr=1e-3)
    param.grad = torch.tensor([0.3], dtype=torch.float64)
    optimizer.step()
    assert param.item() == pytest.approx(-1e-3 / (1 - 0.9), rel=1e-6)


def test_debias_momentum_cures_the_first_steps_and_leaves_the_late():
    lengths = [d[0] for d, _, _ in directions(np.full((50, 1), 0.3), debias_momentum=True)]
    assert lengths == pytest.approx([1.0] * 50, rel=1e-6)
    noise = np.random.default_rng(2).normal(size=(12_000, 50))
    late = [
        np.abs([d for d, _, _ in directions(noise, debias_momentum=cured)][-2000:]).mean()
        for cured in (False, True)
    ]
    assert late[1] == pytest.approx(late[0], rel=1e-3)


@pytest.mark.slow
def test_noise_gives_steps_4_36_times_adams():
    random = np.random.default_rng(3)
    params = [torch.zeros(2000, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    ours = AdaMomentum([params[0]], lr=1.0)
    adams = torch.optim.Adam([params[1]], lr=1.0, eps=0.0)
    ratios = []
    for _ in range(4000):
        noise = torch.from_numpy(random.normal(size=2000))
        lengths = []
        for param, optimizer in zip(params, (ours, adams), strict=True):
            before = param.detach().clone()
            param.grad = noise
            optimizer.step()
            lengths.append((param.detach() - before).abs().mean().item())
        ratios.append(lengths[0] / lengths[1])
    assert math.sqrt(1.9 / 0.1) == pytest.approx(4.36, abs=0.005)
    assert np.mean(ratios[3000:]) == pytest.approx(4.36, rel=0.02)
    table = {1: 10.0, 2: 8.3, 3: 7.5, 5: 6.7, 10: 5.8, 20: 5.2, 50: 4.8, 100: 4.6, 1000: 4.38}
    for t, ratio in table.items():
        assert ratios[t - 1] == pytest.approx(ratio, rel=0.03), t


def test_momentum_of_noise_is_a_nineteenth_of_its_square():
    # E[m^2] = (1-b1)/(1+b1) E[g^2]; Assumption 5 of the paper would need 1.22 E[g^2].
    noise = np.random.default_rng(4).normal(size=(2000, 500))
    squares = [np.mean(m**2) for _, m, _ in directions(noise)][200:]
    assert np.mean(squares) == pytest.approx(0.1 / 1.9, rel=0.02)


def test_default_eps_vanishes_in_half_precision():
    assert torch.tensor(1e-16, dtype=torch.float16) == 0
    assert torch.tensor(1e-16, dtype=torch.float32) > 0
