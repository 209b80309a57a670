"""The GANs: spectral norms, consistency, pictures, settings by protocol."""

import math

import pytest
import torch
from PIL import Image
from torch import nn
from torch.nn.utils import parametrize

from adamomentum_lab import contenders
from adamomentum_lab.catalog import find_workload
from adamomentum_lab.race.plan import base_settings
from adamomentum_paper.workloads import _sheets

NAMES = ["cifar10_dcgan", "cifar10_sngan", "cifar10_biggan", "digits_dcgan"]


@pytest.mark.parametrize("name", NAMES)
def test_shapes_and_range(name):
    torch.manual_seed(0)
    workload = find_workload(name).load()("smoke")
    networks = workload.model()
    channels, size = (1, 8) if name.startswith("digits") else (3, 32)
    images, classes = workload.generated(networks.generator, 6)
    assert images.shape == (6, channels, size, size)
    assert images.abs().max() <= 1
    assert networks.discriminator(images, classes).shape == (6,)


@pytest.mark.parametrize("name", ["cifar10_sngan", "cifar10_biggan"])
def test_largest_singular_values(name):
    """Of every normalised layer, after training has moved it and power iteration has followed."""
    torch.manual_seed(0)
    workload = find_workload(name).load()("smoke")
    workload.batch = 8
    networks = workload.model()
    optimizers = [torch.optim.Adam(n.parameters(), lr=1e-2) for n in networks.children()]
    x = torch.randint(256, (8, 3, 32, 32), dtype=torch.uint8)
    batch = (x, torch.arange(8))
    for _ in range(3):
        workload.discriminator_loss(networks, batch).backward()
        workload.loss(networks, (x.repeat(workload.d_updates, 1, 1, 1),)).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    with torch.no_grad():
        for _ in range(60):
            images, classes = workload.generated(networks.generator, 2)
            networks.discriminator(images, classes)
    networks.eval()
    normalised = [
        (where, module)
        for where, module in networks.named_modules()
        if parametrize.is_parametrized(module, "weight")
    ]
    layers = [
        where
        for where, module in networks.discriminator.named_modules()
        if isinstance(module, (nn.Conv2d, nn.Linear, nn.Embedding))
    ]
    in_d = [where for where, _ in normalised if where.startswith("discriminator")]
    assert len(in_d) == len(layers)
    in_g = len(normalised) - len(in_d)
    # The first layer, two convolutions, a shortcut and four norms of each block, attention, last.
    assert in_g == (0 if name == "cifar10_sngan" else 1 + 3 * (3 + 4) + 4 + 1)
    for where, module in normalised:
        sigma = torch.linalg.matrix_norm(module.weight.detach().flatten(1), 2)
        assert sigma.item() == pytest.approx(1, rel=0.05), where


def test_batch_norm_goes_by_the_batch_but_in_sngan():
    for name, moves in (
        ("cifar10_dcgan", True),
        ("cifar10_biggan", True),
        ("cifar10_sngan", False),
    ):
        torch.manual_seed(0)
        workload = find_workload(name).load()("smoke")
        generator = workload.generator().eval()
        z, y = torch.randn(8, workload.latent), torch.arange(8)
        with torch.no_grad():
            alone, among = generator(z[:4], y[:4]), generator(z, y)[:4]
        assert torch.allclose(alone, among, atol=1e-5) != moves


class Mean(nn.Module):
    """A discriminator that sees the left half's mean."""

    def forward(self, x, classes):
        return x[..., : x.shape[-1] // 2].mean((1, 2, 3))


def consistency_term(workload, batch):
    """What consistency adds to the loss."""
    losses = []
    for weight in (0.0, 10.0):
        workload.consistency = weight
        torch.manual_seed(3)
        model = workload.model()  # anew: to generate changes the estimates of spectral norm
        model.discriminator = Mean()
        losses.append(float(workload.discriminator_loss(model, batch)))
    return losses[1] - losses[0]


def test_the_consistency_term(monkeypatch):
    assert find_workload("cifar10_biggan").load().consistency == 10.0
    workload = find_workload("cifar10_biggan").load()("smoke")
    workload.mirrored = False
    x = torch.zeros(4, 3, 32, 32, dtype=torch.uint8)
    x[..., :16] = 255  # mirrored, the left half goes from 1 to -1
    batch = (x, torch.arange(4))
    workload.augmented = lambda real: real
    assert consistency_term(workload, batch) == 0
    workload.augmented = lambda real: real.flip(-1)
    assert consistency_term(workload, batch) == pytest.approx(10 * 2.0**2, rel=1e-5)
    del workload.augmented
    assert 0 < consistency_term(workload, batch) < 10 * 2.0**2


def test_sheets(tmp_path):
    images = torch.linspace(-1, 1, 6).view(2, 3, 1, 1, 1).expand(2, 3, 1, 4, 4)
    _sheets.write(tmp_path / "sheet.png", images, enlarged=2)
    with Image.open(tmp_path / "sheet.png") as picture:
        assert picture.size == (3 * 10, 2 * 10)
        shades = [picture.getpixel((4 + 10 * (i % 3), 4 + 10 * (i // 3))) for i in range(6)]
    assert shades == [(shade,) * 3 for shade in (0, 51, 102, 153, 204, 255)]
    _sheets.write(tmp_path / "sheet.png", images, ("cat", "dog"))
    with Image.open(tmp_path / "sheet.png") as picture:
        assert picture.size == (72 + 3 * 10, 2 * 10)
    assert [file.name for file in tmp_path.iterdir()] == ["sheet.png"]
    assert _sheets.as_bytes(torch.tensor([-2.0, 0.0, math.nan, 2.0])).tolist() == [0, 128, 0, 255]


@pytest.mark.parametrize("name", NAMES)
def test_settings_of_the_protocols(name):
    cls = find_workload(name).load()
    paper = set(contenders.STANDARD)
    assert set(cls.settings["paper"]) == set(cls.settings["as-run"]) == paper
    for protocol in cls.settings:
        for optimizer in contenders.names() if protocol == "fair" else paper:
            settings = base_settings(optimizer, cls, protocol)
            contenders.get(optimizer).build([nn.Parameter(torch.zeros(1))], **settings)
            assert settings["lr"] == 2e-4
            assert settings["weight_decay"] == 0
            betas = settings.get("betas", (0.5, 0.999))
            assert betas == (0.5, 0.999) or len(betas) == 3
    paper_eps = {n: base_settings(n, cls, "paper").get("eps") for n in paper}
    assert paper_eps.pop("sgdm") is None
    assert paper_eps.pop("adamomentum") == paper_eps.pop("adabelief") == 1e-16
    assert set(paper_eps.values()) == {1e-8}
    assert base_settings("sgdm", cls, "paper")["momentum"] == 0.9
    assert not base_settings("adamomentum", cls, "paper")["rectify"]
    ours, adam, belief, bound = (
        base_settings(n, cls, "as-run") for n in ("adamomentum", "adam", "adabelief", "adabound")
    )
    dcgan, sngan = "dcgan" in name, "sngan" in name
    assert (ours["eps"], ours["rectify"]) == ((1e-8, False) if dcgan else (1e-16, True))
    assert adam["eps"] == (1e-6 if sngan else 1e-16)
    assert (belief["eps"], belief["rectify"]) == (1e-12 if sngan else 1e-16, True)
    assert bound["final_lr"] == 0.02


def test_lengths_are_the_papers():
    steps = {
        name: cls.epochs["full"] * cls.steps["full"]
        for name in NAMES[:3]
        for cls in [find_workload(name).load()]
    }
    assert list(steps.values()) == [200_000, 100_000, 100_000]
    for name, updates in (("cifar10_dcgan", 2), ("cifar10_sngan", 5), ("cifar10_biggan", 5)):
        full = find_workload(name).load()("full")
        assert (full.batch, full.d_updates, full.metric) == (64, updates, "fid")
    big = find_workload("cifar10_biggan").load()("full")
    assert (big.ema, big.ema_from, big.latent) == (0.9999, 1000, 80)
    assert find_workload("cifar10_sngan").load()("mini").metric == "fd-cnn"
    assert "NOT FID" in find_workload("cifar10_sngan").load()("mini").caveats[-1]
    assert find_workload("cifar10_sngan").load()("full").caveats == ()
