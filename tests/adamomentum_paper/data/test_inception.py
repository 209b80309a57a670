"""The Inception network that users bring for FID."""

import math

import pytest
import torch
from torch import nn

from adamomentum_lab.errors import LabError
from adamomentum_paper.data import inception as data
from adamomentum_paper.data.inception import NUMBER, WEIGHTS
from adamomentum_paper.data.inception import SCRIPT as NAME
from adamomentum_paper.models.inception import InceptionV3, resize
from adamomentum_paper.workloads._inception import inception


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
    with pytest.raises(
        LabError,
        match=r"FID needs the Inception .*6726825d\.pth does not exist.*data fetch inception",
    ):
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


def test_the_network_has_the_parameters_of_torchvisions():
    """27,161,264 with the auxiliary head of 3,326,696, and 1,008 classes in place of 1,000."""
    with torch.device("meta"):
        network = InceptionV3()
    count = sum(param.numel() for param in network.parameters())
    assert count == 27_161_264 - 3_326_696 + 8 * 2049
    assert len(network.state_dict()) == 94 * 6 + 2
    shapes = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    assert shapes["Conv2d_1a_3x3.conv.weight"] == (32, 3, 3, 3)
    assert shapes["Mixed_5b.branch_pool.conv.weight"] == (32, 192, 1, 1)
    assert shapes["Mixed_6e.branch7x7dbl_4.conv.weight"] == (192, 192, 7, 1)
    assert shapes["Mixed_7a.branch7x7x3_2.conv.weight"] == (192, 192, 1, 7)
    assert shapes["Mixed_7c.branch3x3dbl_3b.bn.running_var"] == (384,)


def test_weights_as_pytorch_fid_publishes_them(tmp_path, monkeypatch):
    monkeypatch.setenv("ADAMOMENTUM_DATA", str(tmp_path))
    torch.manual_seed(0)
    network = InceptionV3().eval()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_var.fill_(0.5)
    file = tmp_path / "inception" / WEIGHTS
    file.parent.mkdir()
    state = network.state_dict()
    older = {k: v for k, v in state.items() if "num_batches" not in k}
    torch.save(older, file)
    images = torch.randint(256, (2, 3, 32, 32), dtype=torch.uint8)
    with torch.no_grad():
        assert torch.equal(inception()(images), network(images))
    assert data.DATASET.state()[0] == "damaged"  # the digest is that of the published file
    torch.save({k: v for k, v in state.items() if "Mixed_7c" not in k}, file)
    with pytest.raises(LabError, match="45 of its 566 tensors are missing: Mixed_7c"):
        inception()
    file.write_bytes(b"no weights")
    with pytest.raises(LabError, match="it is no file of weights"):
        inception()


def test_images_are_scaled_as_tensorflow_did():
    """Pixel i of the result is at i * 4 / 8 of the image, and what is beyond is its last pixel."""
    row = torch.tensor([0.0, 10.0, 20.0, 40.0])
    found = resize(row.expand(1, 1, 4, 4), 8)
    expected = torch.tensor([0.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 40.0])
    assert torch.equal(found, expected.expand(1, 1, 8, 8))
    assert torch.equal(resize(row.view(1, 1, 4, 1).expand(1, 1, 4, 4), 8), found.transpose(2, 3))
