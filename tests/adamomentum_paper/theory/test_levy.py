"""Stable noise and exit times against known distributions and cases worked by hand."""

import math

import pytest
import torch
from scipy import stats

from adamomentum_paper.theory._levy import Exits, exponent, stable, tail


def test_stable_numbers_are_normal_at_2_and_cauchy_at_1():
    random = torch.Generator().manual_seed(0)
    many = 20_000
    normal = stable(torch.full((many,), 2.0, dtype=torch.float64), random)
    assert stats.kstest(normal, stats.norm(scale=math.sqrt(2)).cdf).pvalue > 0.01
    cauchy = stable(torch.full((many,), 1.0, dtype=torch.float64), random)
    assert stats.kstest(cauchy, stats.cauchy.cdf).pvalue > 0.01


@pytest.mark.parametrize("alpha", [0.7, 1.3, 1.8])
def test_stable_numbers_have_their_characteristic_function_and_tails(alpha):
    random = torch.Generator().manual_seed(1)
    x = stable(torch.full((400_000,), alpha, dtype=torch.float64), random)
    for t in (0.3, 1.0, 2.0):
        expected = math.exp(-(t**alpha))
        assert abs(float(torch.cos(t * x).mean()) - expected) < 4 / math.sqrt(2 * len(x))
        assert abs(float(torch.sin(t * x).mean())) < 4 / math.sqrt(2 * len(x))
    far = 50.0
    rate = float((x.abs() > far).double().mean()) * far**alpha
    error = tail(alpha) * 4 / math.sqrt(len(x) * tail(alpha) * far**-alpha)
    assert abs(rate - tail(alpha)) < error + 0.1 * tail(alpha)  # and the next term of the series


def test_tail_of_cauchy():
    assert tail(1.0) == pytest.approx(2 / math.pi)


def test_brownian_exit_time():
    """Of noise with variance 2t the mean exit time from (-a, a) is a^2/2."""
    random = torch.Generator().manual_seed(2)
    step, a = 0.002, 1.0
    alpha = torch.full((4_000,), 2.0, dtype=torch.float64)
    x, exits = torch.zeros_like(alpha), Exits(alpha.shape)
    for _ in range(4_000):
        x += step**0.5 * stable(alpha, random)
        exits.pass_time(step, x.abs() < a)
    assert not exits.inside.any()
    # Looked at in steps, the border is 0.5826 deviations of a step further out.
    further = a + 0.5826 * math.sqrt(2 * step)
    spread = float(exits.time.std()) / math.sqrt(len(alpha))
    assert abs(exits.mean()[0]["mean"] - further**2 / 2) < 3 * spread


def test_exits_by_hand():
    exits = Exits(torch.Size([3]))
    exits.pass_time(2.0, torch.tensor([True, False, True]))
    exits.pass_time(2.0, torch.tensor([False, True, True]))
    assert exits.time.tolist() == [4.0, 2.0, 4.0]
    (found,) = exits.mean()
    assert found["mean"] == 5.0  # ten units of time, two exits
    assert found["exits"] == 2
    never = Exits(torch.Size([3]))
    never.pass_time(1.0, torch.ones(3, dtype=torch.bool))
    (found,) = never.mean()
    assert found["mean"] is None
    assert found["high"] is None
    assert found["low"] == pytest.approx(3 / -math.log(0.025))  # no exit in three units


def test_intervals_of_exit_times_cover_as_they_say():
    random = torch.Generator().manual_seed(3)
    times = -5 * torch.rand(2_000, 30, generator=random, dtype=torch.float64).log()
    exits = Exits(times.shape)
    exits.time, exits.inside = times.clamp(max=6.0), times > 6
    covered = sum(found["low"] <= 5 <= found["high"] for found in exits.mean()) / 2_000
    assert abs(covered - 0.95) < 0.02


def test_exponent_of_a_power_law():
    x = [1.0, 2.0, 4.0]
    times = [{"mean": 3 * a**-1.5, "exits": 100} for a in x]
    slope, half = exponent(x, times)
    assert slope == pytest.approx(-1.5)
    assert half == pytest.approx(1.96 / math.sqrt(100 * 2 * math.log(2) ** 2))
    assert exponent([*x, 8.0], [*times, {"mean": None, "exits": 0}])[0] == pytest.approx(-1.5)
