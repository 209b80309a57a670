"""The Inception network that users bring for FID."""

import math

import pytest
import torch
from torch import nn

from adamomentum_lab.errors import LabError
from adamomentum_paper.data.inception import NAME, NUMBER, inception


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
    with pytest.raises(LabError, match=r"FID needs the Inception .*/inception-2015-12-05\.pt does"):
        inception()
    torch.jit.script(Pooled(1000)).save(tmp_path / NAME)
    with pytest.raises(LabError, match=r"shape \(2, 1000\) for two images; FID needs \(2, 2048\)"):
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
