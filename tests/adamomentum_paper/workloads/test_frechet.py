"""The Frechet distance against closed forms, and the networks whose features it compares."""

import math
import subprocess
import sys

import numpy as np
import pytest
import scipy.linalg
import torch
from torch import nn

from adamomentum_lab.errors import LabError
from adamomentum_paper.data.inception import NAME, NUMBER, inception
from adamomentum_paper.workloads import _classifier
from adamomentum_paper.workloads._classifier import trained
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


def test_no_other_library_is_asked():
    code = (
        "import sys, torch; from adamomentum_paper.workloads._frechet import Frechet; "
        "Frechet([torch.eye(2)], 2).to([torch.eye(2)]); "
        "print({'torchvision', 'torch_fidelity'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def examples(n=60):
    chance = torch.Generator().manual_seed(0)
    x = torch.randint(256, (n, 1, 8, 8), dtype=torch.uint8, generator=chance)
    return x, torch.randint(10, (n,), generator=chance)


def same(one, other):
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def test_the_classifier_depends_on_its_images_alone(tmp_path):
    one = trained(examples(), 10, 4, 2, None)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        other = trained(examples(), 10, 4, 2, tmp_path)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(torch.get_rng_state(), before)
    assert same(one, other)
    assert not other.training
    assert other(examples()[0]).shape == (60, other.number) == (60, 16)
    assert not any(param.requires_grad for param in other.parameters())


def test_the_classifier_learns():
    x = torch.zeros(200, 1, 8, 8, dtype=torch.uint8)
    y = torch.arange(200) % 2
    x[y == 1, :, :, :4] = 200
    network = trained((x, y), 2, 4, 10, None)
    assert (network.head(network(x)).argmax(1) == y).all()


def test_the_classifier_is_trained_once(tmp_path, monkeypatch):
    first = trained(examples(), 10, 4, 1, tmp_path)
    (folder,) = tmp_path.iterdir()
    (folder / "last.tmp").write_bytes(b"of a process that was killed")
    original = _classifier._train
    monkeypatch.setattr(_classifier, "_train", lambda *_: pytest.fail("trained again"))
    assert same(trained(examples(), 10, 4, 1, tmp_path), first)
    monkeypatch.setattr(_classifier, "_train", original)
    trained(examples(61), 10, 4, 1, tmp_path)  # other images, another classifier
    assert len(list(tmp_path.iterdir())) == 2
    (folder / "last.ckpt").write_bytes(b"rubbish")
    with pytest.warns(UserWarning, match="damaged"):
        assert same(trained(examples(), 10, 4, 1, tmp_path), first)


class Pooled(nn.Module):
    """In place of Inception: as many features as it is told, of the first pixel."""

    def __init__(self, number: int):
        super().__init__()
        self.number = number

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, 0, 0, :1].float().expand(-1, self.number)


class Asked(Pooled):
    def forward(self, x: torch.Tensor, return_features: bool = False) -> torch.Tensor:
        n = self.number if return_features else 1008
        return x[:, 0, 0, :1].float().expand(-1, n)


class BytesAlone(Pooled):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert x.dtype == torch.uint8, "no bytes"
        return x[:, 0, 0, :1].float().expand(-1, self.number)


class FloatsAlone(Pooled):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert x.dtype == torch.float32, "no floats"
        return x[:, 0, 0, :1].expand(-1, self.number)


@pytest.mark.parametrize("cls", [Pooled, Asked])
def test_inception_is_the_users(cls, tmp_path, monkeypatch):
    monkeypatch.setenv("ADAMOMENTUM_DATA", str(tmp_path))
    torch.jit.script(cls(NUMBER)).save(tmp_path / NAME)
    found = inception()
    assert found(torch.full((3, 3, 32, 32), 7, dtype=torch.uint8)).shape == (3, 2048)
    elsewhere = tmp_path / "mine.pt"
    (tmp_path / NAME).rename(elsewhere)
    monkeypatch.setenv("ADAMOMENTUM_INCEPTION", str(elsewhere))
    assert inception().number == 2048


def test_without_inception_one_sentence_says_where_it_should_be(tmp_path, monkeypatch):
    monkeypatch.setenv("ADAMOMENTUM_DATA", str(tmp_path))
    with pytest.raises(LabError, match=r"FID needs the Inception .*/inception-2015-12-05\.pt is"):
        inception()
    torch.jit.script(Pooled(1000)).save(tmp_path / NAME)
    with pytest.raises(LabError, match=r"makes \(2, 1000\) of two images; .* makes \(2, 2048\)"):
        inception()
    (tmp_path / NAME).write_bytes(b"no network")
    with pytest.raises(LabError, match="cannot be used as the network of FID"):
        inception()
    torch.jit.script(FloatsAlone(NUMBER)).save(tmp_path / NAME)
    with pytest.raises(LabError, match=r"cannot be used as .*: no floats$"):
        inception()


def test_pictures_that_are_no_numbers_have_no_features(tmp_path, monkeypatch):
    monkeypatch.setenv("ADAMOMENTUM_DATA", str(tmp_path))
    torch.jit.script(BytesAlone(NUMBER)).save(tmp_path / NAME)
    found = inception()(torch.full((3, 3, 32, 32), math.nan))
    assert found.shape == (3, NUMBER)
    assert found.isnan().all()
