"""The Frechet distance against closed forms."""

import math
import subprocess
import sys

import numpy as np
import pytest
import scipy.linalg
import torch

from adamomentum_paper.workloads import _frechet
from adamomentum_paper.workloads._frechet import Frechet


def features(mean, covariance, seed, n=400):
    """Points whose mean and covariance are exactly these."""
    mean, covariance = torch.as_tensor(mean).double(), torch.as_tensor(covariance).double()
    x = torch.randn(n, len(mean), generator=torch.Generator().manual_seed(seed)).double()
    x = x - x.mean(0)
    x = x @ torch.linalg.inv(torch.linalg.cholesky(x.T @ x / (n - 1))).T
    values, vectors = torch.linalg.eigh(covariance)
    return x @ (vectors * values.clamp(min=0).sqrt()).T + mean


def distance(real, generated):
    halves = generated.split(150)
    return Frechet(real.split(100), real.shape[1]).to(halves)


def rotation(d, seed):
    x = torch.randn(d, d, generator=torch.Generator().manual_seed(seed)).double()
    return torch.linalg.qr(x)[0]


def covariance(values, seed):
    q = rotation(len(values), seed)
    return (q * torch.as_tensor(values).double()) @ q.T


def test_in_one_dimension():
    # (2 - (-1))^2 + (3 - 2)^2
    found = distance(features([2.0], [[9.0]], 0), features([-1.0], [[4.0]], 1))
    assert found == pytest.approx(10.0, abs=1e-9)


def test_covariances_that_commute():
    a, b = [1.0, 4.0, 0.25, 9.0], [4.0, 1.0, 0.25, 16.0]
    expected = 4 * 0.5**2 + (1 + 1 + 0 + 1)
    for seed in (0, 1):
        one = features(torch.zeros(4), covariance(a, seed), 2)
        other = features(torch.full((4,), 0.5), covariance(b, seed), 3)
        assert distance(one, other) == pytest.approx(expected, abs=1e-8)


def test_covariances_that_do_not():
    a, b = covariance([1.0, 2.0, 3.0, 4.0], 0), covariance([5.0, 0.1, 1.0, 2.0], 1)
    root = scipy.linalg.sqrtm(a.numpy())
    both = scipy.linalg.sqrtm(root @ b.numpy() @ root).real
    expected = float(a.trace() + b.trace()) - 2 * float(np.trace(both))
    found = distance(features(torch.zeros(4), a, 2), features(torch.zeros(4), b, 3))
    assert found == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("tiny", [1e-8, 1e-14, 0.0])
def test_nearly_singular_covariances(tiny):
    values = [1.0, 2.0, 4.0, *[tiny] * 29]
    a = covariance(values, 0)
    same = distance(features(torch.zeros(32), a, 1), features(torch.zeros(32), a, 2))
    assert 0 <= same < 1e-5
    b = covariance([4.0, 2.0, 1.0, *[tiny] * 29], 0)
    found = distance(features(torch.zeros(32), a, 1), features(torch.ones(32), b, 2))
    assert found == pytest.approx(32 + 2, abs=1e-4)
    # Subspaces that do not meet: nothing is shared, the traces add up.
    apart = covariance([*[tiny] * 29, 1.0, 1.0, 1.0], 0)
    found = distance(features(torch.zeros(32), a, 1), features(torch.zeros(32), apart, 2))
    assert found == pytest.approx(10, abs=2e-3)


def test_fewer_points_than_dimensions():
    one = torch.randn(20, 64, generator=torch.Generator().manual_seed(0))
    assert distance(one, one.flip(0)) == pytest.approx(0, abs=1e-4)
    assert math.isfinite(distance(one, one.flip(1)))


def test_one_picture_over_and_over():
    real = features(torch.zeros(3), torch.eye(3), 0)
    found = distance(real, torch.full((50, 3), 2.0).double())
    assert found == pytest.approx(3 * 2.0**2 + 3, abs=1e-9)


def test_what_is_not_a_number_has_no_distance():
    real = features(torch.zeros(3), torch.eye(3), 0)
    known = Frechet([real], 3)
    assert math.isnan(known.to([torch.full((50, 3), math.nan)]))
    assert known.to([real]) == pytest.approx(0, abs=1e-7)  # and the next one is as ever
    assert known.to([real + 1]) == pytest.approx(3, abs=1e-7)


@pytest.mark.slow
def test_other_libraries_are_not_requested():
    code = (
        "import sys, torch; from adamomentum_paper.workloads._frechet import Frechet; "
        "Frechet([torch.eye(2)], 2).to([torch.eye(2)]); "
        "print({'torchvision', 'torch_fidelity'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_many_features_give_the_distance_of_torchmetrics(monkeypatch):
    a, b = torch.randn(300, 40), 1.2 * torch.randn(500, 40) + 0.1
    expected = distance(a.double(), b.double())
    assert expected > 1
    monkeypatch.setattr(_frechet, "LARGE", 40)
    assert distance(a, b) == pytest.approx(expected, rel=1e-9)
    few = torch.randn(20, 40), torch.randn(20, 40)  # singular covariances
    found = distance(*few)
    monkeypatch.undo()
    assert found == pytest.approx(distance(few[0].double(), few[1].double()), rel=1e-4)
    monkeypatch.setattr(_frechet, "LARGE", 40)
    assert distance(a, a) == pytest.approx(0.0, abs=1e-9)
    b[3, 3] = math.nan
    assert math.isnan(distance(a, b))
