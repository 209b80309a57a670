"""MNIST-1D: the recipe, step by step, and what it makes."""

import math

import pytest
import torch

from adamomentum_lab import mnist1d as recipe
from adamomentum_lab.mnist1d import (
    LONGEST,
    SPLITS,
    correlated_noise,
    distort,
    interpolate,
    mnist1d,
    templates,
)


def generator():
    return torch.Generator().manual_seed(0)


def test_values_between_points_by_hand():
    curve = torch.tensor([[0.0, 2.0, 6.0]])
    places = torch.tensor([[0.0, 0.25, 1.5, 2.0]])
    assert interpolate(curve, places).tolist() == [[0.0, 0.5, 4.0, 6.0]]


def test_templates_are_standardised_and_begin_and_end_at_zero():
    curves = templates()
    assert curves.shape == (10, 12)
    assert curves.std(1, correction=0).tolist() == pytest.approx([1 / 6] * 10)
    assert curves[:, 0].tolist() == [0.0] * 10
    assert curves[:, -1].tolist() == pytest.approx([0.0] * 10, abs=1e-12)
    # The fifth point of the 4, by hand: the mean of the curve is 52.6 / 12.
    four = recipe.TEMPLATES[4]
    mean = sum(four) / 12
    deviation = math.sqrt(sum((value - mean) ** 2 for value in four) / 12)
    assert float(curves[4, 4]) == pytest.approx((2.6 - 5) / deviation / 6)


def undisturbed(monkeypatch):
    for name in ("SCALE", "CORRELATED", "INDEPENDENT", "SHEAR"):
        monkeypatch.setattr(recipe, name, 0.0)
    monkeypatch.setattr(recipe, "PADDING", (60, 60))  # 72 points: nothing is stretched
    monkeypatch.setattr(recipe, "SHIFTS", 1)
    monkeypatch.setattr(recipe, "POINTS", LONGEST)


def test_without_distortion_the_curve_is_left(monkeypatch):
    undisturbed(monkeypatch)
    x = distort(templates(), generator())
    torch.testing.assert_close(x[:, :12], templates())
    assert (x[:, 12:] == 0).all()


def test_a_shifted_curve_is_the_same_curve_elsewhere(monkeypatch):
    undisturbed(monkeypatch)
    monkeypatch.setattr(recipe, "SHIFTS", 48)
    curves = templates()[3].repeat(20, 1)
    x = distort(curves, generator())
    peaks = x.argmax(1)
    assert len(set(peaks.tolist())) > 5
    for row, peak in zip(x, peaks.tolist(), strict=True):
        back = row.roll(int(templates()[3].argmax()) - peak)
        torch.testing.assert_close(back[:12], templates()[3])


def test_noise_surrounds_the_curve_and_leaves_it_alone(monkeypatch):
    undisturbed(monkeypatch)
    monkeypatch.setattr(recipe, "CORRELATED", 0.25)
    x = distort(templates(), generator())
    torch.testing.assert_close(x[:, :12], templates())
    assert (x[:, 12:] != 0).all()


def test_noise_is_as_strong_and_as_smooth_as_stated():
    noise = correlated_noise(4_000, generator())
    assert noise.shape == (4_000, LONGEST)
    # White noise of 0.25 under a Gaussian of width 2: variance 0.25^2 / (2 * 2 * sqrt(pi)), and
    # neighbours correlate by exp(-1 / (4 * 2^2)).
    assert float(noise.std()) == pytest.approx(0.25 / math.sqrt(4 * math.sqrt(math.pi)), rel=0.01)
    neighbours = (noise[:, 1:] * noise[:, :-1]).mean() / noise.square().mean()
    assert float(neighbours) == pytest.approx(math.exp(-1 / 16), abs=0.005)


def test_splits_are_the_same_every_time():
    splits, again = mnist1d(), mnist1d()
    assert [x.shape for x, _ in splits] == [(size, 40) for size in SPLITS]
    for (x, y), (other_x, other_y) in zip(splits, again, strict=True):
        assert torch.equal(x, other_x)
        assert torch.equal(y, other_y)
        assert y.unique().tolist() == list(range(10))
    x = splits[0][0]
    assert float(x.mean()) == pytest.approx(0, abs=1e-5)
    assert float(x.std()) == pytest.approx(1, abs=1e-5)
    assert torch.cat([y for _, y in splits]).bincount().tolist() == [500] * 10
    assert len(torch.cat([x for x, _ in splits]).unique(dim=0)) == sum(SPLITS)


def test_a_linear_model_does_as_badly_as_published():
    """32 % (Greydanus 2020, table 1), from 4,000 examples."""
    from sklearn.linear_model import LogisticRegression

    (x, y), validation, (test_x, test_y) = mnist1d()
    x, y = torch.cat([x, validation[0]]), torch.cat([y, validation[1]])
    model = LogisticRegression(max_iter=1000).fit(x.numpy(), y.numpy())
    assert 100 * model.score(test_x.numpy(), test_y.numpy()) == pytest.approx(32, abs=4)
